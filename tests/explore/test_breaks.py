"""Each law that is taken out is missed in a few moves, and the way there is a scenario that shows it."""

from __future__ import annotations

from functools import cache

import pytest

from kvstate.explore.scopes import SCOPES
from kvstate.explore.search import Explored, explore
from kvstate.explore.stage import Rules
from kvstate.explore.tell import tell
from kvstate.machines.ledger import ACTS
from kvstate.machines.tables import TABLES
from kvstate.replay.breaks import break_law
from kvstate.replay.config import Law
from kvstate.testing.scenario import parse, play

MOST = 300
"""States; each break is found far sooner."""
FOUND: dict[Law, tuple[str, str, int]] = {
    "no-draining": ("batch", "fatal block.lose", 4),
    "publish-before-commit": ("job", "L9.named", 4),
    "timeout-frees": ("batch", "L3.no_reuse", 6),
    "no-condemned-keys": ("batch", "L5.bad_keys", 5),
    "end-at-first-failure": ("batch", "fatal block.rollback", 5),
}
"""By break (`match-by-block` is a fault of a copier): the scope, the law that is seen broken, and in how many moves.

Without draining a block is free as soon as its owner leaves; the part that is given up later finds it so.
"""


def rules(law: Law) -> Rules:
    broken = break_law(law)
    return Rules(broken.machines, broken.couplings, broken.acts)


@cache
def found_in(law: Law) -> Explored:
    """What a search finds without that law; once for all tests."""
    return explore(SCOPES[FOUND[law][0]], rules(law), max_states=MOST)


@pytest.mark.parametrize("law", FOUND)
def test_a_law_that_is_taken_out_is_missed(law: Law) -> None:
    scope, seen, moves = FOUND[law]
    found = found_in(law)
    assert found.scope.name == scope
    assert found.broken is not None
    assert not found.finished
    assert (found.broken.law, len(found.broken.moves)) == (seen, moves)


@pytest.mark.parametrize("law", FOUND)
def test_the_counterexample_is_a_scenario_that_can_be_kept(law: Law) -> None:
    under = rules(law)
    scope = SCOPES[FOUND[law][0]]
    found = found_in(law)
    assert found.broken is not None
    told = tell(scope, under, found.broken)
    assert found.broken.law in told.text.splitlines()[0]
    shipped = play(parse(told.text, "found.txt"))
    assert not shipped.problems, "on what ships the same commands break nothing"
    if under.couplings == Rules().couplings and under.acts == Rules().acts:
        again = play(parse(told.text, "found.txt"), machines=under.machines)
        assert again.text == told.text, "played, it is the file that was written"
        assert bool(again.problems) is told.confirmed


@pytest.mark.parametrize("law", FOUND)
def test_the_scenario_runner_sees_it_too_except_for_keys_of_bad_bytes(law: Law) -> None:
    scope = SCOPES[FOUND[law][0]]
    found = found_in(law)
    assert found.broken is not None
    assert tell(scope, rules(law), found.broken).confirmed is (law != "no-condemned-keys")


# ---- What no break of the replay is about ----------------------------------------------------------------------------


def without(act: str) -> Rules:
    return Rules(acts=[row for row in ACTS if row.act != act])


def twice(act: str) -> Rules:
    return Rules(acts=[copy for row in ACTS for copy in ([row, row] if row.act == act else [row])])


@pytest.mark.parametrize(
    ("under", "scope", "law", "part"),
    [
        pytest.param(without("tell_job"), "job", "L11.by_clock", "job", id="a job that is never told"),
        pytest.param(without("tell_settled"), "batch", "L11.by_clock", "settlement", id="a load that never settles"),
        pytest.param(twice("tell_settled"), "batch", "L1.verdict_once", "settles twice", id="a load settles twice"),
        pytest.param(twice("tell_job"), "job", "L1.verdict_once", "ends twice", id="a job that ends twice"),
    ],
)
def test_a_fault_in_what_is_told_or_waited_for(under: Rules, scope: str, law: str, part: str) -> None:
    found = explore(SCOPES[scope], under, max_states=MOST)
    assert found.broken is not None
    assert found.broken.law == law
    assert part in found.broken.sentence


def test_the_shipped_tables_are_not_changed_by_a_search() -> None:
    before = {name: table.ROWS for name, table in TABLES.items()}
    explore(SCOPES["batch"], rules("no-draining"), max_states=MOST)
    assert {name: table.ROWS for name, table in TABLES.items()} == before
