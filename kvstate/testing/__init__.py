"""What an embedder uses in tests of its own: text scenarios, and the kit that breaks engines. No torch, no pytest.

**Scenarios** run a real, pure ledger in a small physical world, without threads, clocks or memory: a race between a
callback and an abort is an order of lines. `kvstate.testing.scenario` has the format, `COMMANDS` the commands.

    from pathlib import Path
    from kvstate.testing import check

    def test_my_race() -> None:
        assert check(Path("my-race.txt")) == ""

**The conformance kit** plays scheduler and hardware for any engine that has an `Adapter`, in every order it can think
of, and knows where the bytes are. See `docs/testing.md`.

    from kvstate.testing.suite import KVStateSuite

    class TestMyEngine(KVStateSuite):
        adapter = MyAdapter

A name is imported when it is asked for, so that the pytest plugin costs nothing where it is not used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvstate.testing.adapter import NONE, Adapter, Copier, Free, Refused, Report, Scope, View
    from kvstate.testing.commands import COMMANDS
    from kvstate.testing.kit.laws import LAWS, AdapterError, Violation
    from kvstate.testing.kit.play import Replayed, replay
    from kvstate.testing.kit.search import Search, search
    from kvstate.testing.kit.story import story
    from kvstate.testing.scenario import Played, Scenario, ScenarioError, check, parse, play

_HOMES = {
    "adapter": "NONE Adapter Copier Free Refused Report Scope View",
    "commands": "COMMANDS",
    "kit.laws": "LAWS AdapterError Violation",
    "kit.play": "Replayed replay",
    "kit.search": "Search search",
    "kit.story": "story",
    "scenario": "Played Scenario ScenarioError check parse play",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


__all__ = [
    "COMMANDS",
    "LAWS",
    "NONE",
    "Adapter",
    "AdapterError",
    "Copier",
    "Free",
    "Played",
    "Refused",
    "Replayed",
    "Report",
    "Scenario",
    "ScenarioError",
    "Scope",
    "Search",
    "View",
    "Violation",
    "check",
    "parse",
    "play",
    "replay",
    "search",
    "story",
]
