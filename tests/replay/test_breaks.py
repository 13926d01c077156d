"""Each law, taken out, is missed; put back, the same run is sound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvstate.machines.ledger import ACTS, COUPLINGS
from kvstate.machines.messages import Kind, Outcome, Report, Token
from kvstate.machines.tables import TABLES
from kvstate.replay import driver
from kvstate.replay.breaks import break_law, intact
from kvstate.replay.config import LAWS, Law
from kvstate.runtime.inbox import Inbox
from kvstate.spec.loader import load_spec
from tests.long import long_but
from tests.replay.runs import STORM, no_measuring, replay, sound
from tests.runtime.parts import key, part

__all__ = ["no_measuring"]

RUN: dict[str, Any] = STORM | {
    "limit": 400,
    "seed": 2,
    "block_bytes": 64,
    "device_blocks": 150,
    "host_blocks": 500,
    "deterministic": True,
}
SEEN_AS: dict[Law, set[str]] = {
    "no-draining": {"L8.recount", "block.read_end"},
    "match-by-block": {"L2.identity", "L3.no_reuse"},
    "publish-before-commit": {"L9.named"},
    "timeout-frees": {"L3.no_reuse"},
    "no-condemned-keys": {"L5.bad_keys"},
    "end-at-first-failure": {"L4.left", "L5.loading_named"},
}
"""The laws whose sentences say it first. Others follow, since what is broken once breaks more."""


def test_with_all_laws_the_run_is_sound() -> None:
    found = sound(replay(**RUN))
    assert min(found.aborts, found.preempts, found.retries, found.quarantined_blocks, found.late_landings) > 10


@pytest.mark.parametrize("law", long_but(["match-by-block"], LAWS))
def test_a_law_that_is_taken_out_is_missed(law: Law) -> None:
    found = replay(break_law=law, **RUN)
    assert found.violations + found.wrong_bytes > 0
    if law == "timeout-frees":  # memory is given away too early, and the bytes themselves are another's
        assert found.wrong_bytes > 0
    laws = {sentence.partition(": ")[0] for sentence in found.problems}
    assert laws >= SEEN_AS[law], found.problems
    assert found.settings["break_law"] == law


def test_requests_that_wait_for_ever_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No law of `--break`: the scheduler is told of no load, and so those that wait for one never get on."""
    quiet = replace(intact(), acts=[act for act in ACTS if act.act != "tell_load"])
    monkeypatch.setattr(driver, "break_law", lambda law: quiet)
    found = replay(break_law="no-draining", **RUN | {"limit": 60})
    assert any(sentence.startswith("L11.progress: ") for sentence in found.problems), found.problems


# ---- What a break is -------------------------------------------------------------------------------------------------


def test_nothing_is_broken_in_what_ships() -> None:
    before = {name: (table.ROWS, table.EFFECTS) for name, table in TABLES.items()}
    for law in LAWS:
        break_law(law)
    assert {name: (table.ROWS, table.EFFECTS) for name, table in TABLES.items()} == before
    whole = intact()
    inbox = Inbox()
    assert (whole.machines, whole.couplings, whole.acts) == (TABLES, COUPLINGS, ACTS)
    assert whole.inbox(inbox) is inbox


@pytest.mark.parametrize(
    ("law", "machines"),
    [
        ("no-draining", {"block"}),
        ("match-by-block", set()),
        ("publish-before-commit", {"offload"}),
        ("timeout-frees", {"part"}),
        ("no-condemned-keys", set()),
        ("end-at-first-failure", {"transfer"}),
    ],
)
def test_a_break_changes_one_thing(law: Law, machines: set[str]) -> None:
    broken = break_law(law)
    assert {name for name, table in broken.machines.items() if table is not TABLES[name]} == machines
    assert broken.machines.keys() == TABLES.keys()
    gone = {row.id for row in COUPLINGS} - {row.id for row in broken.couplings}
    condemning = {row.id for row in COUPLINGS if row.event == "condemn"}
    assert gone == (condemning if law == "no-condemned-keys" else set())
    moved = {row.id for row, other in zip(ACTS, broken.acts, strict=True) if row != other}
    assert len(moved) == (1 if law == "publish-before-commit" else 0)


def test_the_mutated_machines_are_those_of_the_spec() -> None:
    """All rows are there under their ids; a break may add some and takes none away."""
    spec = load_spec()
    for law in LAWS:
        for name, table in break_law(law).machines.items():
            assert set(table.ROWS) >= {row.id for row in spec.machine(name).rows}


def test_a_report_that_is_matched_by_block_goes_to_whoever_is_there_now() -> None:
    """What `match-by-block` does to an inbox: the token that the copy was given is replaced by the newest one."""
    broken = break_law("match-by-block")
    inbox = broken.inbox(Inbox())
    started: list[int] = []
    submit = broken.submit(lambda work: started.append(work.token.serial))
    submit(part(Kind.FETCH, [40], [7], [key(1)], serial=1))
    submit(part(Kind.FETCH, [41], [8], [key(2)], serial=2))
    submit(part(Kind.FETCH, [42], [7], [key(3)], serial=3))
    assert started == [1, 2, 3]
    for serial in (1, 2, 3, 9):
        inbox.put(Report(Token(1, serial), Outcome.DONE))
    assert [report.token.serial for report in inbox.drain(9)] == [3, 2, 3, 9]
