"""Each law that can be taken out (`kvstate replay --break`), and by which means a test of the repository saw it missed.

A cell is what that means said: the name of a property, a theorem, or words of its sentence. Each column belongs to a
test that takes the law out and asks for just that (`Means.test`); what is here is read from these tests' own tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvstate.replay.config import Law
from tests.explore.test_breaks import FOUND
from tests.kit.test_own import SEEN_AS as BY_THE_KIT
from tests.replay.test_breaks import SEEN_AS as BY_A_REPLAY
from tests.stateful.test_runtime import SEEN_AS as ON_THE_RUNTIME
from tests.stateful.test_walks import SEEN_AS as ON_THE_LEDGER

BY_A_THEOREM: dict[Law, str] = {
    "no-draining": "free",
    "publish-before-commit": "all_or_nothing",
    "timeout-frees": "stale",
    "end-at-first-failure": "all_stopped",
}
"""The theorem that is not proved any more. None is about keys, and what a copier does is not in the data."""
BY_A_SCENARIO: dict[Law, tuple[str, str]] = {
    "no-draining": ("i08-landing-on-a-freed-block", "L3.no_reuse"),
    "publish-before-commit": ("i01-the-block-that-came-back", "L9.named"),
    "timeout-frees": ("i07-the-peer-that-died", "L3.no_reuse"),
    "no-condemned-keys": ("i39-half-a-prefix", "row K05 is among the rows that answer, and did not fire"),
    "end-at-first-failure": ("i19-the-first-failure", "the ledger is poisoned: block.rollback"),
}
"""The file, and what the runner says of it."""
IN_A_RECORD: dict[Law, str] = {
    "no-draining": "fires B21 to free, and the row leads to draining",
    "publish-before-commit": "the ledger was poisoned: key.drop",
    "timeout-frees": "to failed, and the row leads to lost",
    "end-at-first-failure": "to fell_back, and the row leads to rolling_back",
}
"""What `kvstate trace check` says of the record of a run. A row that nobody sent for leaves no line that is wrong."""


class Means(NamedTuple):
    """A kind of check: its `name`, whether it looks at the code or at the model, the test that saw it fail, and on
    what."""

    name: str
    about: str
    test: str
    seen: Mapping[Law, str]


MEANS = (
    Means(
        "replay", "code", "tests/replay/test_breaks.py::test_a_law_that_is_taken_out_is_missed",
        {law: ", ".join(sorted(said)) for law, said in BY_A_REPLAY.items()},
    ),
    Means("walks on the ledger", "code", "tests/stateful/test_walks.py::test_a_broken_law_is_noticed", ON_THE_LEDGER),
    Means(
        "walks on the runtime", "code", "tests/stateful/test_runtime.py::test_a_broken_law_is_noticed", ON_THE_RUNTIME
    ),
    Means(
        "explorer", "code", "tests/explore/test_breaks.py::test_a_law_that_is_taken_out_is_missed",
        {law: said for law, (_, said, _) in FOUND.items()},
    ),
    Means("theorems", "model", "tests/properties/test_breaks.py::test_a_theorem_is_not_proved", BY_A_THEOREM),
    Means("conformance kit", "code", "tests/kit/test_own.py::test_a_law_that_is_taken_out_is_missed", BY_THE_KIT),
    Means(
        "scenarios", "code", "tests/properties/test_breaks.py::test_a_scenario_does_not_hold",
        {law: f"{file[:3].upper()}: {said}" for law, (file, said) in BY_A_SCENARIO.items()},
    ),
    Means("trace check", "code", "tests/properties/test_breaks.py::test_a_record_is_not_allowed", IN_A_RECORD),
)  # fmt: skip
"""All that looks, each in its own way: they share the ledger and no line of what finds a fault."""
AT_LEAST = 3
"""So many means have to see each law missed."""
