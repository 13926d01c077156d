"""A broken invariant: told once, final, loud, and nothing is freed for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.audit import audit
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Report, Token
from kvstate.machines.steps import Steps
from kvstate.machines.tables.block import Event as B
from kvstate.machines.verdicts import Hit, Refusal
from tests.machines.rig import Rig, failure, keys

MakeRig = Callable[..., Rig]

INPUTS: dict[str, Callable[[Ledger], object]] = {
    "open": lambda ledger: ledger.open("a"),
    "lookup": lambda ledger: ledger.lookup(1, keys(1)),
    "lookup_groups": lambda ledger: ledger.lookup_groups(1, [keys(1)]),
    "unpin": lambda ledger: ledger.unpin(Hit(1, (), (), (), 0)),
    "allocate": lambda ledger: ledger.allocate(1, 0),
    "seal": lambda ledger: ledger.seal(1, [BlockRef(0, 0)], keys(1)),
    "release": lambda ledger: ledger.release(1, []),
    "finish": lambda ledger: ledger.finish(1),
    "abort": lambda ledger: ledger.abort(1),
    "preempt": lambda ledger: ledger.preempt(1),
    "offload": lambda ledger: ledger.offload(1, []),
    "load": lambda ledger: ledger.load(1, Hit(1, (), (), (), 0), [], deadline=1.0),
    "cancel": lambda ledger: ledger.cancel(2),
    "step_dispatched": lambda ledger: ledger.step_dispatched(1, []),
    "step_retired": lambda ledger: ledger.step_retired(1),
    "hold": lambda ledger: ledger.hold(1, [], deadline=1.0),
    "report": lambda ledger: ledger.report(Report(Token(1, 1), "done")),
    "foreign_allocated": lambda ledger: ledger.foreign_allocated([0]),
    "foreign_reused": lambda ledger: ledger.foreign_reused([0]),
    "foreign_freed": lambda ledger: ledger.foreign_freed([]),
    "fenced": lambda ledger: ledger.fenced(0, "cpu", 1),
    "tick": lambda ledger: ledger.tick(1.0),
    "recover": lambda ledger: ledger.recover(1, [("a", b"k")]),
    "announce": lambda ledger: ledger.announce(1, [("a", b"k")]),
    "vanish": lambda ledger: ledger.vanish(1, [("a", b"k")]),
    "seek": lambda ledger: ledger.seek(1, keys(1), pool=1, deadline=1.0),
    "reset": lambda ledger: ledger.reset(),
    "drain": lambda ledger: ledger.drain(),
    "shut": lambda ledger: ledger.shut(),
}
OUTPUTS = {
    "take_effects", "take_verdicts", "next_timer", "rest", "explain", "snapshot", "restore", "canonical_hash", "fired",
    "kept",
}  # fmt: skip


def busy(rig: Rig) -> Ledger:
    """Lease 1 with blocks, a job that flies with effects not taken yet."""
    lease, refs = rig.sealed(1, 2)
    assert lease == 1
    rig.offload(lease, refs)
    return rig.ledger


def broken(rig: Rig) -> Ledger:
    ledger = busy(rig)
    answer = ledger.report(Report(Token(1, 1), "failed", (failure(Code.DEVICE_ERROR, raw="700"),)))
    assert isinstance(answer, Refusal)
    return ledger


def test_every_input_is_known_here() -> None:
    public = {name for name, _ in inspect.getmembers(Ledger, inspect.isfunction) if not name.startswith("_")}
    assert public == INPUTS.keys() | OUTPUTS


@pytest.mark.parametrize("name", INPUTS)
def test_a_poisoned_ledger_refuses_every_input_and_changes_nothing(rig: Rig, name: str) -> None:
    ledger = broken(rig)
    assert len(ledger.take_verdicts()) == 1
    before = rig.shape()
    answer = INPUTS[name](ledger)
    assert answer == Refusal(f"the ledger is poisoned: {ledger.fatal.sentence}")  # type: ignore[union-attr]
    assert not answer
    assert rig.shape() == before


def test_a_device_that_broke_poisons_and_frees_nothing(rig: Rig) -> None:
    """What it was about to do is dropped, what it holds is held, and it says so once."""
    ledger = broken(rig)
    assert ledger.fatal is not None
    assert ledger.fatal[:2] == ("device", "DEVICE_ERROR, nothing is freed: 700")
    assert "lease 1 is open" in ledger.fatal.dump
    assert any(sentence.startswith("device holds ") for sentence in ledger.fatal.dump)
    assert ledger.take_effects() == []
    assert ledger.take_verdicts() == [ledger.fatal]
    assert ledger.take_verdicts() == []
    assert [rig.state(block) for block in range(4)] == ["active", "active", "free", "free"]
    assert rig.column("block", "readers")[:2] == [2, 2]
    assert ledger.fired()["S05"] == 1
    assert audit(ledger) == [], "it stopped before the first row"


@pytest.mark.parametrize(
    ("message", "raw", "said"),
    [("the driver died", "700", "the driver died"), ("", "700", "700"), ("", "", "no reason was given")],
)
def test_the_dump_begins_with_what_the_driver_said(rig: Rig, message: str, raw: str, said: str) -> None:
    ledger = busy(rig)
    fatal = failure(Code.DEVICE_ERROR, message=message, raw=raw)
    assert not ledger.report(Report(Token(1, 1), "denied", (failure(Code.KV_OOM), fatal)))
    assert ledger.fatal is not None
    assert ledger.fatal.sentence == f"DEVICE_ERROR, nothing is freed: {said}"


def test_verdicts_of_before_are_told_before(rig: Rig) -> None:
    ledger = busy(rig)
    rig.report(Token(1, 1))
    assert not ledger.report(Report(Token(1, 9), "done", (failure(Code.DEVICE_ERROR),))), (
        "an unknown token poisons nothing"
    )
    assert ledger.fatal is None
    lease, refs = rig.sealed(3)
    rig.offload(lease, refs)
    ledger.report(Report(Token(1, ledger.books.serial), "denied", (failure(Code.DEVICE_ERROR),)))
    assert [type(verdict).__name__ for verdict in ledger.take_verdicts()] == ["JobVerdict", "Fatal"]


def test_a_signal_that_no_row_takes_poisons(rig: Rig) -> None:
    """What the data calls impossible: said with the record, its values, and the event."""
    ledger = busy(rig)
    ledger.books.column("block", "owners")[0] = 0
    answer = ledger.finish(1)
    assert ledger.fatal is not None
    assert ledger.fatal.law == "block.release"
    assert ledger.fatal.sentence == (
        "block 0 is active (owners 0, readers 2, writers 0, lost 0, published 1, generation 0) and no row takes release"
    )
    assert answer == Refusal(f"the ledger is poisoned: {ledger.fatal.sentence}")
    assert ledger.explain(lease=1).startswith("lease 1 in namespace a is open"), "it can still be asked"


def test_one_block_alone_is_refused_as_loudly_as_many(rig: Rig) -> None:
    lease, _ = rig.sealed(1)
    rig.ledger.books.column("block", "owners")[0] = 0
    rig.ledger.finish(lease)
    assert rig.ledger.fatal is not None
    assert rig.ledger.fatal.law == "block.release"


def test_a_bug_in_the_ledger_itself_poisons(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(self: Steps, now: float) -> None:
        raise ZeroDivisionError("nothing can be divided by nothing")

    ledger = busy(rig)
    monkeypatch.setattr(Steps, "tick", stumble)
    answer = ledger.tick(1.0)
    assert ledger.fatal is not None
    assert ledger.fatal[:2] == ("INTERNAL", "ZeroDivisionError in tick: nothing can be divided by nothing")
    assert isinstance(answer, Refusal)
    assert ledger.take_effects() == []
    assert ledger.take_verdicts() == [ledger.fatal]


@pytest.mark.parametrize("where", [B.RESERVE, B.RELEASE])
def test_a_bug_in_the_middle_of_an_input_leaves_no_exception(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, where: B
) -> None:
    ledger = busy(rig)
    each = type(ledger.books.tables["block"]).each

    def stumble(self: Any, slots: Sequence[int], event: int) -> list[int]:
        if event == where:
            each(self, slots[:1], event)
            raise RuntimeError("stumbled")
        return each(self, slots, event)

    monkeypatch.setattr(type(ledger.books.tables["block"]), "each", stumble)
    ledger.allocate(1, 2) if where is B.RESERVE else ledger.finish(1)
    assert ledger.fatal is not None
    assert ledger.fatal.sentence.startswith("RuntimeError in ")
    for block in range(8):
        assert ledger.explain(block=block)
    assert ledger.rest()
    assert ledger.fired()["S05"] == 1


def test_a_sink_that_breaks_poisons_like_any_other_bug(rig: Rig) -> None:
    """It is told of the poisoning, too, and breaks again: that must not leave the ledger as an exception either."""

    def full(machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:
        raise OSError("the disk is full")

    ledger = busy(rig)
    for port in ledger.core.ports.ports.values():
        port.sink = full
    assert isinstance(ledger.finish(1), Refusal)
    assert ledger.fatal is not None
    assert ledger.fatal[:2] == ("INTERNAL", "OSError in finish: the disk is full")
    assert ledger.books.column("service", "state")[0] == 3


def test_a_poisoned_snapshot_is_poisoned_and_an_older_one_is_not(rig: Rig) -> None:
    ledger = busy(rig)
    healthy = ledger.snapshot()
    ledger.report(Report(Token(1, 1), "failed", (failure(Code.DEVICE_ERROR),)))
    poisoned = ledger.snapshot()
    for snapshot, works in ((healthy, True), (poisoned, False), (healthy, True)):
        ledger.restore(snapshot)
        assert (ledger.fatal is None) == works
        assert bool(ledger.finish(1)) == works
