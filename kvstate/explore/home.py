"""From a state to rest (laws L1, L7, L8, L11): by the clock alone, then with the hardware's word. Late reports (L2).

The clock alone: nobody asks anything, no copy lands and none is reported; only the time moves, from timer to timer.
Then every job and load must have been told, and every load be settled. After that the leases are closed, the steps
retire and the copier is fenced, and nothing may be left: no record, no owner, no toucher, no key of bad bytes.
"""

from __future__ import annotations

from kvstate.explore.matter import LawBroken
from kvstate.explore.moves import System
from kvstate.machines.messages import Outcome, Report, Token
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.foreign import State as F

MOST_TIMERS = 64
"""Far more timers than any scope can have under way at once."""
AGAIN = (Outcome.DONE, Outcome.FAILED, Outcome.TIMEOUT)
"""What is reported again, of one copy this and of the next one that, and in the next state the other way round."""


def comes_home(system: System) -> None:
    """Bring the system home. Errors: `LawBroken`. The state is used up by it."""
    by_the_clock(system)
    for number, run in enumerate(system.world.runs):
        if run.lease:
            system.do(("end", number, "finish"))
    while system.world.steps:
        if not system.world.steps[min(system.world.steps)].landed:
            system.do(("land-step", 0))
        system.do(("retire",))
    system.do(("fence",))
    by_the_clock(system)
    system.look()
    at_rest(system)


def by_the_clock(system: System) -> None:
    """Let the time run until no timer is left. Errors: `LawBroken` if something waits still."""
    ledger = system.ledger
    for _ in range(MOST_TIMERS):
        if ledger.next_timer() is None:
            break
        system.do(("tick",))
    else:
        raise LawBroken(f"L7.clock: the clock fires without end, {MOST_TIMERS} timers and more")
    books = ledger.books
    if books.seeks.live or books.seeks.sought or books.seeks.by_part:
        raise LawBroken(f"L7.clock: {len(books.seeks.live)} seeks wait, and no timer is left")
    if system.world.jobs or system.world.loads:
        left = [f"job {number}" for number in system.world.jobs]
        left += [f"load {number}{' (settlement)' if load.told else ''}" for number, load in system.world.loads.items()]
        where = "is not on record any more" if not (books.job_ids or books.load_ids) else "waits, and no timer is left"
        raise LawBroken(f"L7.clock: {', '.join(left)} {where}")


def at_rest(system: System) -> None:
    """Errors: `LawBroken` if anything is left, in the records or in a pool."""
    left = system.ledger.rest()
    if left:
        raise LawBroken(f"L11.home: {'; '.join(left)}")
    for orphan in system.world.objects.orphans():
        raise LawBroken(orphan)
    if system.scope.drains > system.world.drains:
        if not (again := system.ledger.drain()):
            raise LawBroken(f"L11.home: who drains a ledger twice is refused: {again}")
        if not (shut := system.ledger.shut()):
            raise LawBroken(f"L11.home: a drained ledger at rest can't be shut: {shut}")
    for pool in system.ledger.books.pools:
        idle = pool.counts[F.OUTSIDE] if pool.config.foreign else pool.counts[B.FREE] + pool.counts[B.CACHED]
        if idle != pool.config.blocks:
            raise LawBroken(f"L11.home: at rest {pool.config.name} has {idle} idle blocks of {pool.config.blocks}")


def late_reports(system: System, before: bytes) -> None:
    """Report again on every copy that is over, and on one that never was. Errors: `LawBroken` if anything comes of it.

    Where an engine allocates by itself, it also frees again what it has free. `before` is the digest of the state. It
    is compared only where a row has fired: what is over and still on record answers with one, which must do nothing but
    count.
    """
    ledger, books = system.ledger, system.ledger.books
    rows, counted = _rows(system), books.stale + books.unknown
    serials = (*system.world.over, books.serial + 1)
    for serial in serials:
        outcome = AGAIN[(serial + len(serials)) % len(AGAIN)]
        ledger.report(Report(Token(books.config.incarnation, serial), outcome))
    freed = system.world.allocator.free_again(ledger)
    system.world.harvest(ledger)
    if ledger.fatal is not None or books.stale + books.unknown != counted + len(serials) + freed:
        raise LawBroken(
            "L2.stale_counted: a second report on a copy that is over or on a free block, or one on none, "
            "was not just counted"
        )
    if _rows(system) != rows and system.digest() != before:
        raise LawBroken("L2.stale_counted: a second report on a copy that is over, or a free block, changed the state")


def _rows(system: System) -> int:
    return sum(sum(port.fired) for port in system.ledger.core.ports.ports.values())
