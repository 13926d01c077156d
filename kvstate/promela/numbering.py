"""Which number a record of the ledger has in the model: the place at which it came, for ever.

The ledger numbers jobs, batches, loads and leases in one row and uses slots again, so that a number says nothing of how
many there were. Parts need no list: their tokens are serials.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvstate.explore.moves import System


class Numbers(NamedTuple):
    """The ids of all jobs, batches and loads so far, in the order in which they came: the place is the number."""

    offload: tuple[int, ...] = ()
    """Of jobs."""
    transfer: tuple[int, ...] = ()
    """Of batches."""
    load: tuple[int, ...] = ()
    """Of loads."""
    begun_by: tuple[int, ...] = ()
    """By load: the place of the request in the scope."""

    def later(self, system: System) -> Numbers:
        """With those that have come since the last move."""
        books = system.ledger.books
        jobs = _more(self.offload, (job.id for job in books.jobs.live()))
        batches = _more(self.transfer, (batch.id for batch in books.batches.live()))
        loads = _more(self.load, (load.id for load in books.loads.live()))
        waits = {run.load: place for place, run in enumerate(system.world.runs)}
        return Numbers(jobs, batches, loads, (*self.begun_by, *(waits[number] for number in loads[len(self.load) :])))


def _more(known: tuple[int, ...], live: Iterable[int]) -> tuple[int, ...]:
    return (*known, *sorted(number for number in live if number not in known))
