"""What an embedder uses in tests of its own. So far: text scenarios (`kvstate.testing.scenario`).

    from pathlib import Path
    from kvstate.testing import check

    def test_my_race() -> None:
        assert check(Path("my-race.txt")) == ""

A scenario runs a real, pure ledger and a small physical world, without threads, clocks or memory: a race between a
callback and an abort is an order of lines. `kvstate.testing.scenario` has the format, `COMMANDS` the commands with
their usage. No torch, no pytest.
"""

from kvstate.testing.commands import COMMANDS
from kvstate.testing.scenario import Played, Scenario, ScenarioError, check, parse, play

__all__ = ["COMMANDS", "Played", "Scenario", "ScenarioError", "check", "parse", "play"]
