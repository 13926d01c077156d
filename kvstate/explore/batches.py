"""What is true of loads and their batches whenever an input has been answered, as it can be seen in the books."""

from __future__ import annotations

from collections.abc import Iterator

from kvstate.machines.books import Books
from kvstate.machines.tables.load import State as L
from kvstate.machines.tables.transfer import State as X

CLOSING = {int(L.ABORTING), int(L.SETTLED)}
"""The states of a load whose lease is closing, or was."""


def look(books: Books) -> Iterator[str]:
    """The laws that are broken now, as `LAW.property: sentence`."""
    loads, batches = books.column("load", "state"), books.column("transfer", "state")
    for load in books.loads.live():
        states = [batches[slot] for slot in load.batches]
        if loads[load.slot] == L.PLANNED or X.PLANNED in states:
            yield f"L7.started: load {load.id} is on record, and not all of it has begun"
        if loads[load.slot] == L.WAITING and load.turn < len(states) and states[load.turn] == X.VERIFIED:
            yield f"L11.turn: load {load.id} has missed a turn"
        if loads[load.slot] not in CLOSING and (X.ABORTING in states or X.ABORTED in states):
            yield f"L1.aborted: a batch of load {load.id} aborts, and its lease is not closing"
