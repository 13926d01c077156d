"""What the parts of the ledger share: books, ports, acts, and the end of an input."""

from __future__ import annotations

from collections.abc import Iterable

from kvstate.machines.acts import Acts
from kvstate.machines.books import Books
from kvstate.machines.cascade import ActRow, Cascade, Coupling
from kvstate.machines.messages import Outcome, Report
from kvstate.machines.tables.offload import Event as O
from kvstate.machines.tables.part import Event as P
from kvstate.machines.tables.service import Event as S
from kvstate.machines.verdicts import Refusal

REPORTS = {event.name.lower(): int(event) for event in P}
"""The number of each event of a part, by its name; the outcomes of reports are among them."""


class Core:
    """The books, the ports of all machines, and the acts that are done where `coupling.toml` says so."""

    __slots__ = ("acts", "books", "ports")

    def __init__(self, books: Books, couplings: Iterable[Coupling], acts: Iterable[ActRow]) -> None:
        self.books = books
        self.ports = Cascade(books)
        self.acts = Acts(books, self.ports)
        self.ports.wire(couplings, acts, self.acts)

    def admit(self) -> Refusal | None:
        """May new work come in?"""
        if self.ports.service.ask(0, S.ADMIT):
            return None
        return Refusal(f"the ledger is {self.ports.service.state_of(0)} and takes no new work")

    def hear(self, report: Report) -> None:
        """Answer a report on a part that is on record."""
        books = self.books
        books.heard = report
        self.ports.part.signal(books.tokens[report.token.serial], REPORTS[report.outcome])
        books.heard = None

    def conclude(self) -> None:
        """End an input: answer what needs no worker, drop what is over, start the jobs that waited for a place."""
        books = self.books
        while books.at_once or books.doomed or books.doomed_keys:
            while books.at_once:
                self.hear(Report(books.at_once.popleft(), Outcome.DONE))
            books.sweep()
            self.start_jobs()

    def start_jobs(self) -> None:
        """Start queued jobs in order while there is room."""
        books = self.books
        while books.queue and len(books.job_ids) - len(books.queue) < books.config.max_jobs:
            number, _ = books.queue.popitem(last=False)
            self.ports.job.signal(books.job_ids[number], O.START)
