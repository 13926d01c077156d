"""Which rows have fired and which couplings have found a record, over any number of worlds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kvstate.machines import tables
from kvstate.machines.cascade import Cascade, Coupling
from kvstate.machines.ledger import COUPLINGS
from kvstate.machines.relations import RELATIONS, RELATIONS_OF_MANY
from tests.stateful.world import World

ROWS = tuple(row for table in tables.TABLES.values() for row in table.ROWS)
UNREACHABLE = {
    "A30": """A lapse is armed for the deadline and after it, for a cancel or for an abort, and each of these gives the
        verdict before the lapse can ring; a load that has settled leaves at the end of that input, and its timer with
        it. The row says what a lapse in any other order would mean.""",
    "O70": """A lapse is armed by the row that leads to cancelling, which a job leaves only by its end; an ended job
        leaves at the end of the input, and its timers find no record.""",
    "O72": """As O70, for the back-off: only the due timer, a cancel or the deadline end it, and of the last two the job
        is over.""",
    "S06": """A poisoned ledger refuses every input at its door, so nothing finds a second broken invariant.""",
    "X02": """A load launches all its batches in the input that plans them; nothing can cut one in between.""",
}
"""Rows that no ledger fires as it is composed now, and why. They are there so that every state has an answer."""
ELSEWHERE = {
    "B32": """A copy from the host to a tier below it is tried again, and its source was found bad in between. No walk
        that was tried comes to that; the explorer does, in its scope `demoted`.""",
}
"""Rows that no walk has to come to, and what does."""
NEVER_FINDS: dict[str, str] = {}
"""Couplings that find no record in any run, and why."""


class Seen:
    """Counts of what happened in the worlds that were shown to it."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.couplings: Counter[str] = Counter()

    def add(self, world: World) -> None:
        self.rows.update({row: count for row, count in world.rows().items() if count})

    def missing(self) -> list[str]:
        """What should have been seen by now and was not."""
        couplings = [row.id for row in COUPLINGS if row.id not in NEVER_FINDS]
        rows = [row for row in ROWS if row not in UNREACHABLE and row not in ELSEWHERE]
        return [*(row for row in rows if not self.rows[row]), *(row for row in couplings if not self.couplings[row])]

    def surprises(self) -> list[str]:
        """What was said to be out of reach, and was reached."""
        return [
            *(row for row in UNREACHABLE if self.rows[row]),
            *(row for row in NEVER_FINDS if self.couplings[row]),
        ]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Ledgers that are made in here tell which couplings find a record; it makes them slower."""
        one, many, seen = Cascade._couple, Cascade._couple_many, self.couplings

        def couple(cascade: Cascade, row: Coupling) -> Any:
            step, relation = one(cascade, row), RELATIONS[row.over]
            books, records = cascade.books, cascade._records(row.machine)

            def counted(slot: int) -> None:
                seen[row.id] += len(relation(books, records[slot])) > 0
                step(slot)

            return counted

        def couple_many(cascade: Cascade, row: Coupling) -> Any:
            step, relation = many(cascade, row), RELATIONS_OF_MANY[row.over]

            def counted(slots: Sequence[int]) -> None:
                seen[row.id] += len(relation(cascade.books, slots)) > 0
                step(slots)

            return counted

        Cascade._couple, Cascade._couple_many = couple, couple_many  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Cascade._couple, Cascade._couple_many = one, many  # type: ignore[method-assign]
