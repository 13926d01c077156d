"""Each law that is taken out is missed in a few moves, and the way there is a scenario that shows it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

import pytest

from kvstate.explore.scopes import SCOPES
from kvstate.explore.search import Explored, explore
from kvstate.explore.stage import Rules
from kvstate.explore.tell import tell
from kvstate.machines import grouped, groups
from kvstate.machines.config import GroupConfig
from kvstate.machines.groups import Line
from kvstate.machines.ledger import ACTS
from kvstate.machines.tables import TABLES
from kvstate.replay.breaks import break_law
from kvstate.replay.config import Law
from kvstate.testing.scenario import parse, play

MOST = 300
"""States; each break is found far sooner."""
MORE = 4000
"""Where a whole load has to be walked through first."""
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


FAULTS_OF_ACTS: list[tuple[str, Rules, str, str, str]] = [
    ("a job that is never told", without("tell_job"), "job", "L7.clock", "job"),
    ("a load that never settles", without("tell_settled"), "batch", "L7.clock", "settlement"),
    ("a load that settles twice", twice("tell_settled"), "batch", "L1.verdict_once", "settles twice"),
    ("a job that ends twice", twice("tell_job"), "job", "L1.verdict_once", "ends twice"),
    ("a load whose verdict is not given", without("tell_load"), "batch", "L1.verdict_once", "before its verdict"),
    ("a late report that is not counted", without("count_stale"), "batch", "L2.stale_counted", "not just counted"),
    ("checks that are not sent", without("launch_verify"), "batch", "L4.left", "0 fly for it"),
    ("a step that forgets what it took over", without("keep_adopted"), "steps", "L8.recount", "the records say 0"),
    ("a key without its block", without("link_keys"), "store-load", "L9.named", "no key names it"),
    ("a job that is not dropped when it is told", without("tell_job"), "batch", "L11.home", "is committed"),
]
"""What it is, the rules with it, the scope, and the law that is seen broken with a part of its sentence."""


@pytest.mark.parametrize("fault", FAULTS_OF_ACTS, ids=lambda fault: fault[0])
def test_a_fault_in_what_is_told_or_waited_for(fault: tuple[str, Rules, str, str, str]) -> None:
    _, under, scope, law, part = fault
    found = explore(SCOPES[scope], under, max_states=MOST)
    assert found.broken is not None
    assert found.broken.law == law
    assert part in found.broken.sentence


def test_the_shipped_tables_are_not_changed_by_a_search() -> None:
    before = {name: table.ROWS for name, table in TABLES.items()}
    explore(SCOPES["batch"], rules("no-draining"), max_states=MOST)
    assert {name: table.ROWS for name, table in TABLES.items()} == before


# ---- KV groups -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_verdict_that_promises_what_a_shorter_length_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies before the hole is taken for enough; but fewer tokens need other blocks of a group with a window."""

    def front(configs: Sequence[GroupConfig], tokens: int, missing: Collection[Line]) -> int:
        holes = [line.place * configs[line.group].tokens_per_block for line in missing]
        return min([tokens, *holes]) // groups.boundary(configs) * groups.boundary(configs)

    monkeypatch.setattr(groups, "kept_tokens", front)
    found = explore(SCOPES["groups"], max_states=MORE)
    assert found.broken is not None
    assert (found.broken.law, found.broken.sentence) == (
        "L9.length", "the length that a load promises needs slide:W2, which is not there",
    )  # fmt: skip


@pytest.mark.long
def test_a_lookup_that_looks_at_a_window_s_last_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one token and a window of two: the load brings the last of them, and the length needs both."""

    def first(group: GroupConfig, tokens: int) -> int:
        return 0 if group.window is None else max(0, tokens // group.tokens_per_block - 1)

    for module in (groups, grouped):
        monkeypatch.setattr(module, "first_needed", first)
    scope = SCOPES["groups"]
    wider = scope._replace(ledger=scope.ledger.replace("slide:1:1", "slide:1:2"))
    found = explore(wider, max_states=MORE)
    assert found.broken is not None
    assert (found.broken.law, "needs slide:W3" in found.broken.sentence) == ("L9.length", True)
