"""Each check of the watch is seen to fail: what it would miss is planted."""

from __future__ import annotations

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import BlockRef, Failure, Kind, Outcome, Report, Token, Work
from kvstate.machines.tables.block import State as B
from kvstate.replay.breaks import Broken, break_law
from kvstate.replay.config import Law
from kvstate.replay.watch import KEPT, Watch
from kvstate.runtime.copiers.hand import Flight, HandCopier
from tests.runtime.parts import key, part
from tests.runtime.rig import Rig, end, got, keys_of

K1 = keys_of(1)


class Watched(Rig):
    """A rig whose copier and engine tell a watch, as those of a replay do."""

    def __init__(self, device: int = 4, host: int = 4, *, parts: int = 16, law: Broken | None = None) -> None:
        super().__init__(device, host, parts=parts, law=law)
        watch = self.watch = Watch(self.ledger)

        class Seen(HandCopier):
            def submit(self, work: Work) -> None:
                watch.on_submit(work)
                super().submit(work)

            def land(self, which: Token | int, lines: int | None = None) -> Flight:
                watch.on_land(self.flight(which).work, 0.0)
                return super().land(which, lines)

        self.copier = end(self.engine).copiers["cpu"] = Seen(self.memory, self.inbox)
        self.engine.heard = watch.on_report

    def laws(self) -> list[str]:
        """The laws that were seen broken, in order."""
        assert self.watch.violations == len(self.watch.sentences)
        return [sentence.partition(": ")[0] for sentence in self.watch.sentences]


def without(law: Law) -> Watched:
    return Watched(1, 1, law=break_law(law))


def test_a_sound_run_gives_no_alarm() -> None:
    rig = Watched(2, 2)
    rig.only_in_host(K1)
    lease = rig.open()
    rig.load(lease, K1)
    rig.run()
    rig.watch.on_hit(rig.look_up(lease, K1))
    rig.ledger.finish(lease)
    rig.watch.audit()
    rig.watch.untold([])
    assert rig.laws() == []
    assert rig.watch.copied == 2  # one block down, one up
    assert (rig.watch.failures, rig.watch.landed_late, rig.watch.reuses) == ({}, [], 0)


# ---- Copies ----------------------------------------------------------------------------------------------------------


def test_a_copy_that_lands_in_a_newer_life_is_seen() -> None:
    rig = without("no-draining")
    rig.only_in_host(K1)
    lease = rig.open()
    _, (ref,) = rig.load(lease, K1)
    (flight,) = rig.flying()
    rig.ledger.abort(lease)
    assert rig.allocate(rig.open(), 1) == (BlockRef(ref.block, ref.generation + 1),)
    rig.copier.land(flight.serial)
    assert rig.laws() == ["L3.no_reuse"]
    serial = flight.token.serial
    assert rig.watch.sentences[0].endswith(
        f"fetch part {serial} began on block {ref.block} gen {ref.generation} and lands on gen {ref.generation + 1}"
    )


def test_a_source_that_was_given_away_is_seen_as_well() -> None:
    """The store of I04: it writes where it should, and reads another request's bytes."""
    rig = without("no-draining")
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, K1))
    (flight,) = rig.flying()
    rig.ledger.reset()
    rig.ledger.finish(lease)
    rig.allocate(rig.open(), 1)
    rig.copier.land(flight.serial)
    assert rig.laws() == ["L3.no_reuse"]


def test_a_late_landing_is_no_violation_and_is_counted() -> None:
    rig = Watched(1, 1)
    rig.only_in_host(K1)
    lease = rig.open()
    _, (ref,) = rig.load(lease, K1)
    (flight,) = rig.flying()
    rig.ledger.abort(lease)
    assert rig.state(ref.block) is B.DRAINING
    rig.copier.land(flight.serial)
    assert len(rig.watch.landed_late) == 1
    rig.deliver(flight)
    assert rig.watch.reuses == 0
    rig.allocate(rig.open(), 1)
    assert rig.watch.reuses == 1
    assert rig.laws() == []


def test_done_before_a_byte_has_moved_is_seen() -> None:
    rig = Watched()
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, K1))
    (flight,) = rig.flying()
    rig.inbox.put(Report(flight.token, Outcome.DONE))
    rig.engine.poll()
    assert rig.laws() == ["L2.identity"]
    assert f"store part {flight.token.serial} is done before a byte has moved" in rig.watch.sentences[0]


def test_what_the_ledger_does_not_hear_is_not_counted() -> None:
    """Stale reports, of parts that are over or were never there, say nothing and prove nothing."""
    rig = Watched()
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, K1))
    (flight,) = rig.flying()
    rig.run()
    why = (Failure(0, int(Code.CRC_MISMATCH), "write"),)
    for token in (flight.token, Token(1, 999), Token(0, 1)):
        rig.inbox.put(Report(token, Outcome.BROKEN, why))
        rig.inbox.put(Report(token, Outcome.DONE))
    rig.engine.poll()
    assert (rig.laws(), rig.watch.failures, rig.watch.copied) == ([], {}, 1)


def test_failures_are_counted_by_code() -> None:
    rig = Watched()
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, keys_of(1, 2)))
    (flight,) = rig.flying()
    codes = (Code.NO_SPACE, Code.NO_SPACE, Code.INTERNAL)
    failures = (*(Failure(0, int(code), "write") for code in codes), Failure(1, 9999, "write"))
    rig.copier.deliver(flight.serial, Outcome.DENIED, failures)
    rig.engine.poll()
    assert rig.watch.failures == {"NO_SPACE": 2, "INTERNAL": 1, "UNKNOWN": 1}


# ---- Keys ------------------------------------------------------------------------------------------------------------


def broken(rig: Watched, keys: list[bytes], *failures: Failure) -> None:
    """A load of these keys ends with bad bytes."""
    rig.only_in_host(keys)
    lease = rig.open()
    rig.load(lease, keys)
    (flight,) = rig.flying()
    rig.copier.deliver(flight.serial, Outcome.BROKEN, failures)
    rig.engine.poll()
    rig.ledger.finish(lease)


GONE = Failure(0, int(Code.BLOCK_NOT_FOUND), "fetch")


def test_a_bad_key_that_is_a_hit_again_is_seen() -> None:
    rig = without("no-condemned-keys")
    broken(rig, K1, GONE)
    rig.wait(1000.0)
    rig.watch.on_hit(rig.look_up(rig.open(), K1))
    assert rig.laws() == ["L5.bad_keys"]
    assert f"key {key(1).hex()} is a hit in block 1 gen 0 again" in rig.watch.sentences[0]


def test_a_report_that_names_no_line_spoils_them_all() -> None:
    rig = Watched(law=break_law("no-condemned-keys"))
    broken(rig, keys_of(1, 2), GONE._replace(line=-1))
    rig.wait(1000.0)
    rig.watch.on_hit(rig.look_up(rig.open(), keys_of(1, 2)))
    assert rig.laws() == ["L5.bad_keys"] * 2


def test_a_key_that_was_stored_anew_is_another_life() -> None:
    rig = Watched(1, 1)
    broken(rig, K1, GONE)
    lease = rig.open()
    assert not rig.look_up(lease, K1)
    rig.ledger.finish(lease)
    rig.only_in_host(K1)
    hit = rig.look_up(rig.open(), K1)
    assert hit.blocks == (BlockRef(1, 1),)
    rig.watch.on_hit(hit)
    assert rig.laws() == []


def test_a_line_that_failed_for_another_reason_is_not_bad() -> None:
    """One line is gone, at the other the copy was called off: one key is condemned, and the other is still good."""
    rig = Watched()
    broken(rig, keys_of(1, 2), GONE._replace(line=1), Failure(0, int(Code.CANCELLED), "fetch"))
    rig.wait(1000.0)
    hit = rig.look_up(rig.open(), keys_of(1, 2))
    assert hit.keys == (key(1),)
    rig.watch.on_hit(hit)
    assert rig.laws() == []


@pytest.mark.parametrize("aborted_first", [True, False])
def test_bad_bytes_of_a_load_that_was_called_off_are_no_hit(aborted_first: bool) -> None:
    """One part of a load is broken and the other still flies. Its request has gone, so nobody is waited for, and the
    next lookup comes before the batch is over."""
    rig = Watched(parts=1)
    rig.only_in_host(keys_of(1, 2))
    lease = rig.open()
    rig.load(lease, keys_of(1, 2))
    first, _ = rig.flying()
    if aborted_first:
        rig.ledger.abort(lease)
    rig.copier.deliver(first.serial, Outcome.BROKEN, (GONE,))
    rig.engine.poll()
    if not aborted_first:
        rig.ledger.abort(lease)
    rig.watch.on_hit(rig.look_up(rig.open(), keys_of(1, 2)))
    assert rig.laws() == []


# ---- The books -------------------------------------------------------------------------------------------------------


def test_a_counter_that_does_not_add_up_is_seen() -> None:
    rig = Watched()
    (ref,) = rig.allocate(rig.open(), 1)
    rig.ledger.books.column("block", "readers")[ref.block] = 1
    rig.watch.audit()
    assert rig.watch.sentences == [f"L8.recount: block {ref.block} has readers 1, the records say 0"]


def test_a_poisoned_ledger_is_a_violation() -> None:
    rig = Watched()
    (ref,) = rig.allocate(lease := rig.open(), 1)
    rig.ledger.books.column("block", "owners")[ref.block] = 0
    rig.ledger.books.block_state[ref.block] = B.FREE
    rig.ledger.finish(lease)
    assert rig.ledger.fatal is not None
    rig.watch.audit()
    assert rig.ledger.fatal.law in rig.laws()


def test_a_load_that_was_never_told_is_seen() -> None:
    rig = Watched()
    rig.watch.untold([7, 9])
    assert rig.laws() == ["L1.verdict_once"] * 2


def test_only_the_first_violations_are_kept_and_all_are_counted() -> None:
    rig = Watched()
    rig.watch.untold(range(KEPT + 5))
    assert (rig.watch.violations, len(rig.watch.sentences)) == (KEPT + 5, KEPT)


# ---- Memory of its own -----------------------------------------------------------------------------------------------


def test_lives_of_copies_that_are_over_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a long run; what may still land or report is kept."""
    rig = Watched()
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, K1))
    (flight,) = rig.flying()
    for serial in range(1000, 201_000):
        rig.watch._lives[Token(1, serial)] = (part(Kind.STORE, [0], [4], K1, serial), (0, 0))
    rig.ledger.books.serial = 201_000
    rig.watch.forget_lives()
    assert len(rig.watch._lives) == 200_001  # the oldest part on record is older than all of these
    rig.copier.land(flight.serial)
    rig.deliver(flight)
    got(rig.ledger.offload(lease, rig.computed(lease, keys_of(2))))
    (newer,) = rig.flying()
    rig.watch.forget_lives()
    assert len(rig.watch._lives) < 60_000
    assert newer.token in rig.watch._lives
    assert flight.token not in rig.watch._landed
    rig.run()
    assert rig.laws() == []
