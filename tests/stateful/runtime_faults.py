"""Faults planted by hand in the engine and in copiers: see `faults`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from time import sleep
from typing import Any

import pytest

from kvstate.machines.messages import Cancel, Outcome, Report, Work
from kvstate.replay.breaks import break_law
from kvstate.runtime import copy, pieces
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.dispatcher import Dispatcher
from kvstate.runtime.engine import Engine
from kvstate.runtime.seals import Seals
from tests.stateful.faults import Fault, Options, fault

# -- the engine --------------------------------------------------------------------------------------------------------


@fault("The engine hands work out before the step that it waits for has ended.", "L9.bytes", world="runtime",
       scope="small", mix="stores", seed=112)  # fmt: skip
def work_before_its_step(mp: pytest.MonkeyPatch) -> None:
    give = Dispatcher.give
    mp.setattr(
        Dispatcher,
        "give",
        lambda self, effects: give(self, [e._replace(after_step=0) if isinstance(e, Work) else e for e in effects]),
    )


@fault("Work that could not be begun is dropped without a word.", "L11.home", "L4.recorded", world="runtime",
       scope="small", mix="faults", seed=3)  # fmt: skip
def a_submit_fails_in_silence(mp: pytest.MonkeyPatch) -> None:
    def submit(self: Dispatcher, work: Work) -> None:
        with suppress(OSError):
            self.copiers[work.copier].submit(work)

    mp.setattr(Dispatcher, "_submit", submit)


@fault("Work whose step has ended is forgotten.", "L11.home", world="runtime", scope="small", mix="stores", seed=24)
def waiting_work_is_forgotten(mp: pytest.MonkeyPatch) -> None:
    retired = Dispatcher.step_retired

    def forgetful(self: Dispatcher, step: int) -> None:
        self.waiting = [work for work in self.waiting if work.after_step > step]
        retired(self, step)

    mp.setattr(Dispatcher, "step_retired", forgetful)


@fault("Work that is called off while it waits is handed out all the same.", "L3.no_reuse", "L4.recorded", "L9.bytes",
       world="runtime", scope="small", mix="stores", seed=62)  # fmt: skip
def cancelled_and_handed_out(mp: pytest.MonkeyPatch) -> None:
    cancelled = Dispatcher._cancel

    def careless(self: Dispatcher, cancel: Cancel) -> None:
        waiting = list(self.waiting)
        cancelled(self, cancel)
        self.waiting = waiting

    mp.setattr(Dispatcher, "_cancel", careless)


@fault("A fence speaks for work that no copier has been given.", "L4.recorded", "L11.home", world="runtime",
       scope="parts",
       moves=tuple("warm arrive arrive arrive start start compute store start start fence".split()),
       seed=134)  # fmt: skip
def a_fence_over_waiting_work(mp: pytest.MonkeyPatch) -> None:
    fence = Dispatcher.fence

    def careless(self: Dispatcher) -> Iterator[tuple[str, int]]:
        waiting, self.waiting = self.waiting, []
        yield from fence(self)
        self.waiting += waiting

    mp.setattr(Dispatcher, "fence", careless)


@fault("The engine does not pass the time on.", "L1.verdict_once", "L11.home", "L7.clock", world="runtime",
       scope="small", mix="faults", seed=23)  # fmt: skip
def time_stands_still(mp: pytest.MonkeyPatch) -> None:
    poll = Engine.poll

    def timeless(self: Engine, max_reports: int = 512) -> Any:
        now, self.clock = self.clock, _Stopped()
        try:
            return poll(self, max_reports)
        finally:
            self.clock = now

    mp.setattr(Engine, "poll", timeless)


class _Stopped:
    def now(self) -> float:
        return 0.0


@fault("Reports are matched by block instead of token.", "L2.identity", "L4.recorded", "L9.bytes", world="runtime",
       scope="small", mix="reuse", seed=5)  # fmt: skip
def match_by_block(mp: pytest.MonkeyPatch) -> Options:
    return {"law": break_law("match-by-block")}


# -- copies ------------------------------------------------------------------------------------------------------------


@fault("A run of blocks lands one slot too far.", "L9.bytes", world="runtime", scope="parts", seed=0)
def one_slot_too_far(mp: pytest.MonkeyPatch) -> None:
    move = pieces.move

    def far(piece: pieces.Piece) -> None:
        at = piece.dst_at
        if isinstance(at, slice) and at.stop < piece.dst.count:
            piece = piece._replace(dst_at=slice(at.start + 1, at.stop + 1))
        move(piece)

    mp.setattr(pieces, "move", far)


@fault("The last of adjacent blocks is not copied.", "L9.bytes", world="runtime", scope="parts", seed=13)
def the_last_line_is_missing(mp: pytest.MonkeyPatch) -> None:
    move = pieces.move

    def short(piece: pieces.Piece) -> None:
        src, dst = piece.src_at, piece.dst_at
        if isinstance(src, slice) and isinstance(dst, slice) and piece.length > 1:
            piece = piece._replace(
                src_at=slice(src.start, src.stop - 1), dst_at=slice(dst.start, dst.stop - 1), length=piece.length - 1
            )
        move(piece)

    mp.setattr(pieces, "move", short)


@fault(
    "Scattered blocks are gathered in the order of their numbers.", "L9.bytes", world="runtime", scope="parts", seed=11
)
def gathered_in_order(mp: pytest.MonkeyPatch) -> None:
    gathered = pieces._gathered

    def ordered(*args: Any) -> Iterator[pieces.Piece]:
        for piece in gathered(*args):
            at = piece.src_at
            yield piece if isinstance(at, slice) else piece._replace(src_at=sorted(at))

    mp.setattr(pieces, "_gathered", ordered)


@fault("A check finds nothing wrong, ever.", "L9.bytes", world="runtime", scope="parts", seed=70)
def a_blind_check(mp: pytest.MonkeyPatch) -> None:
    mp.setitem(copy._KINDS, "verify", lambda *args: ())


@fault("A check compares keys and no bytes.", "L9.bytes", world="runtime", scope="parts", seed=54)
def a_check_of_keys_alone(mp: pytest.MonkeyPatch) -> None:
    bad_lines = copy.bad_lines
    mp.setattr(
        copy, "bad_lines", lambda memory, work, lines, _, at: bad_lines(memory, work, lines, copy.Integrity.OFF, at)
    )


@fault("The seals of a part are written one slot off.", "L9.bytes", world="runtime", scope="parts", seed=8)
def seals_one_off(mp: pytest.MonkeyPatch) -> None:
    close = Seals.close
    mp.setattr(
        Seals, "close", lambda self, slots, keys, sums: close(self, list(slots)[1:] + list(slots)[:1], keys, sums)
    )


def seals_stay_open(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Seals, "open", lambda self, slots: None)


@fault("A thread says that it is done, and then begins.", "L9.bytes", "L5.proceed", "L2.identity", world="threads",
       scope="parts", seed=7)  # fmt: skip
def done_before_it_began(mp: pytest.MonkeyPatch) -> None:
    run = ThreadCopier._run

    def hasty(self: ThreadCopier, task: Any) -> None:
        if not task.part.dropped:
            self._inbox.put(Report(task.part.work.token, Outcome.DONE))
            sleep(0.002)
        run(self, task)

    mp.setattr(ThreadCopier, "_run", hasty)


UNSEEN = [
    Fault(
        "seals stay open", "A store that is not whole looks like the one before it.", (), seals_stay_open,
        world="runtime", scope="parts", mix="stores",
        why_unseen="""A store that is not whole commits no key, and its slot is free before another fills it; so no load
        ever comes to such a slot. The seal guards against a copier or a ledger that is wrong in another way, too.""",
    ),
]  # fmt: skip
"""Faults that break no law, each with the reason. A report that is lost is none: it is a move of the world (`lose`)."""
