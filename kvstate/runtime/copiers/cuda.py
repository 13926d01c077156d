"""Copies between a GPU and host memory: a stream for each direction, an event behind each part.

A part goes through two threads of its direction. The first queues its copies in the stream, as one batched call where
the driver has that; at most `depth` parts are queued at once, and what waits behind them can still be called off. The
second sleeps until the event behind the part has happened, then seals or compares, and reports. So the serving loop
never waits for a driver and polls no events, and what a part needs of the CPU is done beside it.

Order. A store begins after the event of the compute step that wrote its blocks: the one that `after` gives for
`Work.after_step`, or one that is recorded when the part is submitted, behind all that was queued until then. A load
needs none: the ledger gives out a block only when all steps that touch it are over. Between parts of one direction the
stream keeps the order, between directions nothing does; both are the ledger's to keep, which lets no part begin that
meets another in a block.

What is queued can't be taken back. A cancel of it is a wish that does not come true.

Errors. A call that was refused with nothing broken (no memory left) fails its part, as soon as what was queued of it is
over. Whatever the device tells *later*, at an event, is sticky: the context is lost, and whether copies still write is
not known. Parts that were queued are then told as *timeout*, which proves nothing, with DEVICE_ERROR as the reason;
that poisons the ledger, which frees nothing from there on. The memory of a check (staging) belongs to its part and goes
with it, so that no copy can write where it was (I34).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

import numpy as np

from kvstate.errors import Code, from_exception, translate
from kvstate.errors.kverror import properties_of
from kvstate.machines.messages import Failure, Kind, Token, Work
from kvstate.runtime.copiers import Progress
from kvstate.runtime.copiers.batches import Batch, Ranges, batch_of, check_batch
from kvstate.runtime.copiers.driver import Driver, DriverError, Event, NoBatchError
from kvstate.runtime.copiers.flights import Flight, Flights
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.copy import Integrity, bad_lines, sum_of
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory

DEPTH: Final = 8
"""Parts of one direction that are queued in its stream at once: enough that the device never waits for the next."""
MOST_COPIES: Final = 4096
"""Of one batched call; a part of more is queued in several."""
JOIN_SECONDS: Final = 1.0
"""How long a close waits for threads that have nothing to do any more."""

After = Callable[[int], Event | None]
"""The event that the engine recorded behind a compute step, or None if it has none (any more)."""


class _Lane:
    """One direction: its stream, and the threads that queue and finish."""

    def __init__(self, copier: CudaCopier, driver: Driver, depth: int, name: str) -> None:
        self.stream = driver.stream()
        self.room = threading.Semaphore(depth)
        self.queue: Workers[Flight] = Workers(lambda flight: copier._queue(self, flight), 1, f"{name}-queue")  # noqa: SLF001
        self.finish: Workers[Flight] = Workers(lambda flight: copier._finish(self, flight), 1, f"{name}-finish")  # noqa: SLF001

    def wait(self, within: float | None) -> bool:
        """Block until all that was put into the lane has left it."""
        end = None if within is None else monotonic() + within
        return self.queue.wait(within) and self.finish.wait(None if end is None else max(0.0, end - monotonic()))


class CudaCopier:
    """See the module. Reports each part exactly once, whatever happens to it.

    Raises `ValueError` for a host pool whose pages are not locked: the device could not copy by itself there.
    """

    def __init__(
        self,
        memory: Memory,
        inbox: Inbox,
        driver: Driver,
        *,
        name: str = "cuda",
        integrity: Integrity = Integrity.BOUNDARY,
        after: After | None = None,
        depth: int = DEPTH,
    ) -> None:
        """Copies within `memory` by `driver`, reports to `inbox`; `name` is what `Work.copier` says.

        `after(step)` is called in the thread that submits, for stores. With `integrity` HOST a store is summed where it
        has landed, and a check brings what was loaded back into memory of its own.
        """
        for pool in memory.pools:
            if pool.count and pool.device != driver.device and not pool.page_locked:
                raise ValueError(
                    f"pool {pool.name} is not on {driver.device} and its pages are not locked; make it by `host_pool`"
                )
        self.name = name
        self.batched = driver.batched
        """Are copies queued by one call for a part? Turns false if the driver has no such call after all."""
        self._memory = memory
        self._driver = driver
        self._integrity = integrity
        self._after = after
        self._ranges = Ranges(memory)
        self._flights = Flights(name, inbox)
        self._entered = threading.local()
        self._stores = _Lane(self, driver, depth, f"kvstate-{name}-store")
        self._loads = _Lane(self, driver, depth, f"kvstate-{name}-load")

    # What the engine calls.

    def submit(self, work: Work) -> None:
        """Take one part; its copies are queued soon, by another thread. Raises `CopierClosedError`."""
        flight = self._flights.add(work)
        if work.kind != Kind.STORE:
            self._loads.queue.put(flight)
            return
        try:
            event = None if self._after is None else self._after(work.after_step)
            flight.ready = self._driver.mark() if event is None else event
        except DriverError as error:
            self._refused(flight, error)
        self._stores.queue.put(flight)

    def cancel(self, token: Token) -> None:
        """As `Copier.cancel`: what is not queued yet is dropped and reported at once; the rest runs to its end."""
        self._flights.cancel(token)

    def probe(self, token: Token) -> Progress:
        """As `Copier.probe`. After an error of the device, what was queued counts as running for ever."""
        return self._flights.probe(token)

    def fence(self, within: float | None = None) -> int:
        """As `Copier.fence`.

        Raises `TimeoutError` if a part is under way after `within` seconds, and `DriverError` after an error of the
        device; nothing is proved then.
        """
        serial = self._flights.serial
        if not (self._stores.wait(within) and self._loads.wait(within)):
            raise TimeoutError(f"copier {self.name}: a copy is still running after {within:g} s; nothing is proved")
        broken = self._flights.broken
        if broken is not None:
            raise DriverError(broken.raw, f"copier {self.name} proves nothing any more: {broken.message}")
        return serial

    def close(self, within: float) -> tuple[Token, ...]:
        """As `Copier.close`; what is not queued at the end of that time is dropped and reported as cancelled."""
        end = monotonic() + within
        self._flights.close()
        lanes = (self._stores, self._loads)
        if not all(lane.wait(max(0.0, end - monotonic())) for lane in lanes):
            for token in self._flights.left():
                self._flights.cancel(token)
        for lane in lanes:
            for workers in (lane.queue, lane.finish):
                workers.stop(max(end - monotonic(), 0.0) if self._flights.left() else JOIN_SECONDS)
        return self._flights.left()

    # What its threads do.

    def _queue(self, lane: _Lane, flight: Flight) -> None:
        """Queue the copies of one part, when there is room in the stream."""
        lane.room.acquire()
        if not self._flights.start(flight):
            lane.room.release()
            return
        try:
            self._enter()
            batch = self._prepare(flight)
        except DriverError as error:
            self._refused(flight, error)
        except BaseException as error:  # the part makes no sense
            self._flights.tell(flight, (from_exception(error, stage=flight.stage),))
        else:
            if batch is not None:
                self._copy(lane, flight, batch)
        lane.finish.put(flight)  # which finds it over, or waits for its event

    def _prepare(self, flight: Flight) -> Batch | None:
        """The copies of a part; None if it has none."""
        memory, work = self._memory, flight.work
        match work.kind:
            case Kind.STORE:
                batch = batch_of(memory, work)
                for pool, slot in map(memory.place, work.dst):
                    pool.seals.open((slot,))
                return batch
            case Kind.FETCH:
                return batch_of(memory, work)
            case Kind.VERIFY if self._integrity.of_memory:
                size = len(work.src) * memory.block_bytes
                flight.staging = self._driver.staging(size).view(len(work.src), memory.block_bytes)
                return check_batch(memory, work, flight.staging)
            case Kind.VERIFY | Kind.PERSIST:
                for block in (*work.src, *work.dst):
                    memory.pool_of(block)
                return None
            case _:
                raise ValueError(f"a copier can't do a part of kind {work.kind!r}")

    def _copy(self, lane: _Lane, flight: Flight, batch: Batch) -> None:
        """Queue a batch and the event behind it. After a refusal the event says when what was queued is over."""
        try:
            if flight.ready is not None:
                self._driver.wait(lane.stream, flight.ready)
            for part in batch.parts(MOST_COPIES):
                self._copy_some(lane, flight, part)
        except DriverError as error:
            flight.failures = (self._failure(flight, error),)
            if properties_of(flight.failures[0].code).fatal:
                self._broke(error)
        except BaseException as error:  # a mistake of the program; some copies may be queued all the same
            flight.failures = (from_exception(error, stage=flight.stage),)
        try:
            flight.event = self._driver.record(lane.stream)
        except DriverError as error:
            self._broke(error)

    def _copy_some(self, lane: _Lane, flight: Flight, batch: Batch) -> None:
        """By one call, or, where there is none, copy by copy."""
        if self.batched:
            try:
                self._driver.copy_batch(lane.stream, *batch)
                return
            except NoBatchError:
                self.batched = False
        for dst, src, size in zip(*(column.tolist() for column in batch), strict=True):
            source = self._ranges.at(src, size)
            self._driver.copy(lane.stream, self._ranges.at(dst, size, flight.staging), source)

    def _finish(self, lane: _Lane, flight: Flight) -> None:
        """Sleep until a part is over, do the CPU's share of it, and report."""
        try:
            if flight.over:
                return
            self._enter()
            if flight.event is not None:
                self._driver.synchronize(flight.event)
            failures = flight.failures or self._settle(flight)
        except DriverError as error:
            self._broke(error)
            return
        except BaseException as error:  # the thread has nobody to raise to
            failures = (from_exception(error, stage=flight.stage),)
        finally:
            lane.room.release()
        self._flights.tell(flight, failures)

    def _settle(self, flight: Flight) -> tuple[Failure, ...]:
        """Seal what was stored, compare what was loaded; the bytes are there."""
        memory, work = self._memory, flight.work
        if work.kind == Kind.STORE:
            for (pool, slot), key in zip(map(memory.place, work.dst), work.keys, strict=True):
                pool.seals.close((slot,), (key,), [sum_of(pool.bytes_of(slot))] if self._integrity.of_memory else None)
        if work.kind == Kind.VERIFY:
            rows = np.empty(0) if flight.staging is None else flight.staging.numpy()
            found = tuple(bad_lines(memory, work, range(len(work.src)), self._integrity, rows.__getitem__))
            flight.staging = None  # its copy is over, and nobody reads it any more
            return found
        return ()

    # What its drivers tell.

    def _refused(self, flight: Flight, error: DriverError) -> None:
        """The driver refused a part before anything of it was queued."""
        failure = self._failure(flight, error)
        self._flights.tell(flight, (failure,))
        if properties_of(failure.code).fatal:
            self._flights.lose(failure)

    def _broke(self, error: DriverError) -> None:
        """The device is lost, whatever the number of the error: it came when the device was asked how copies went."""
        failure = translate("cuda", error.raw, stage="fetch", message=str(error))
        self._flights.lose(failure._replace(code=int(Code.DEVICE_ERROR), transient=False))

    def _failure(self, flight: Flight, error: DriverError) -> Failure:
        return translate("cuda", error.raw, stage=flight.stage, message=str(error))

    def _enter(self) -> None:
        if not getattr(self._entered, "done", False):
            self._driver.enter()
            self._entered.done = True
