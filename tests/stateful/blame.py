"""Which keys have to pay for a load that went wrong, and which must not: from what the world's copies said of theirs.

A second opinion on the relations `batch_bad_keys`, `batch_slow_keys` and `batch_lost_keys`, which read the states of
parts. Here it is reports that are remembered, each under the copy that made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kvstate.machines.messages import BlockRef, Outcome, Report, Token, Work
from kvstate.machines.tables.transfer import TransferTable

if TYPE_CHECKING:
    from tests.stateful.base import Base, Flight

Line = tuple[bytes, BlockRef]
"""A key, and the life of the block that it was to be read from."""
FELL, OVER, LAUNCH, VERIFY, VERIFIED = (
    frozenset(row for row, effects in zip(TransferTable.ROWS, TransferTable.EFFECTS, strict=True) if effect in effects)
    for effect in ("fell", "over", "launch", "verify", "tell_verified")
)
CONDEMN, COOL, WARM = "K05", ("K09", "K10"), "K11"
FENCED = "fenced"
"""Over, as a fence has shown; whether before or after what else that fence set off, is the ledger's to choose."""
AT_FAULT = (Outcome.FAILED, Outcome.DENIED, Outcome.TIMEOUT)
NOT_AT_FAULT = (Outcome.DONE, Outcome.CANCELLED, FENCED)


class Answer(NamedTuple):
    outcome: str
    lines: tuple[Line, ...]
    """Those that the report named, or all of the copy."""


class Blame:
    """See the module."""

    def __init__(self) -> None:
        self.condemned: set[Line] = set()
        """What a report has called bad."""
        self.innocents: list[str] = []
        """Keys that paid for nothing."""
        self.lines: dict[Token, tuple[Line, ...]] = {}
        self.batch: dict[Token, int] = {}
        """Whose part each is, by uid."""
        self.answers: dict[int, dict[Token, Answer | None]] = {}
        """By batch: what the parts of its latest attempt said."""
        self.unseen: dict[int, set[Line]] = {}
        """By batch: the lines of copies or checks that have begun within this input, and not yet come down."""
        self.load: dict[int, int] = {}
        self.fallen: set[int] = set()
        self.judged: set[int] = set()
        self.judging: tuple[int, set[Line]] = (0, set())
        self.cooled: set[Line] = set()
        """What should have cooled since the last look."""
        self.world: Base

    def listen(self, world: Base) -> None:
        self.world = world

    # -- copies --------------------------------------------------------------------------------------------------------

    def launched(self, work: Work) -> None:
        """A fetch or a check has been sent down."""
        books = self.world.ledger.books
        self.lines[work.token] = tuple(zip(work.keys, map(books.ref, work.src), strict=True))
        owner = books.parts[books.tokens[work.token.serial]].owner
        if owner is None:
            return
        uid = self.batch[work.token] = books.batches.uids[owner[1]]
        self.load[uid] = books.loads[books.batches[owner[1]].load].id
        self.unseen.pop(uid, None)
        self.answers.setdefault(uid, {})[work.token] = None

    def heard(self, report: Report) -> None:
        """The ledger is about to hear this of a part that is flying or was given up."""
        lines = self.lines.get(report.token)
        if lines is None:
            return
        named = sorted({failure.line for failure in report.failures})
        told = tuple(lines[line] for line in named) if named and named[0] >= 0 else lines
        if report.outcome == Outcome.BROKEN:
            self.condemned.update(told)
        answers = self.answers.get(self.batch.get(report.token, 0), {})
        if report.token in answers and (answers[report.token] is None or report.outcome == Outcome.BROKEN):
            answers[report.token] = Answer(report.outcome, told)

    def fenced(self, flight: Flight) -> None:
        """A fence is about to prove this copy over."""
        token = flight.work.token
        answers = self.answers.get(self.batch.get(token, 0), {})
        if token in answers and answers[token] is None:
            answers[token] = Answer(FENCED, self.lines[token])

    # -- rows ----------------------------------------------------------------------------------------------------------

    def row(self, machine: str, uid: int, row: str) -> None:
        """A row of a batch or of a key has fired; what follows from it has not."""
        if machine == "transfer":
            if row in LAUNCH or row in VERIFY:
                self.unseen[uid] = {line for token in self.answers.get(uid, {}) for line in self.lines[token]}
                self.answers[uid] = {}
            elif row in VERIFIED:  # where nothing verifies, no check ever comes down
                self.unseen.pop(uid, None)
            if row in FELL:
                self.fallen.add(uid)
            if row in FELL or row in OVER:
                self.judge(uid, ended=row in OVER)
        elif row == CONDEMN:
            key = self.key(uid)
            if key not in self.condemned:
                self.innocents.append(f"{key} is condemned, and nobody called it bad")
        elif row in COOL:
            key = self.key(uid)
            if key not in self.judging[1]:
                self.innocents.append(f"{key} cools, and nothing that failed or was silent was about it")
        elif row == WARM:
            self.cooled.discard(self.key(uid))

    def key(self, uid: int) -> Line:
        keys = self.world.ledger.books.keys
        slot = keys.uids.index(uid)
        return keys.keys[slot], self.world.ledger.books.ref(keys.blocks[slot])

    def judge(self, uid: int, *, ended: bool) -> None:
        """A batch has fallen or is over: whose keys cool now, and whose may."""
        answers = self.answers.get(uid, {})
        given = [answer for answer in answers.values() if answer is not None]
        silent = {line for token, answer in answers.items() if answer is None for line in self.lines[token]}
        silent |= self.unseen.get(uid, set())
        expired = self.world.loads.get(self.load.get(uid, 0), 0.0) <= self.world.now
        bad = {line for answer in given if answer.outcome == Outcome.BROKEN for line in answer.lines}
        must = {line for answer in given if answer.outcome in AT_FAULT for line in answer.lines}
        if expired or ended:
            must |= silent
        may = must | {line for answer in given if answer.outcome == FENCED for line in answer.lines}
        first = uid not in self.judged
        if first and all(answer.outcome in NOT_AT_FAULT for answer in given) and not silent:
            # Nobody is at fault, so what was stopped pays. Of what was asked to stop by a fall, nothing is concluded.
            stopped = {line for answer in given if answer.outcome == Outcome.CANCELLED for line in answer.lines}
            may |= stopped
            must |= stopped if not any(answer.outcome == FENCED for answer in given) else set()
        self.judging = (uid, may)
        if uid in self.fallen:
            self.cooled |= must - bad
            self.judged.add(uid)

    def to_cool(self) -> Iterator[Line]:
        """The keys that must not be hits now; each is asked for once."""
        cooled, self.cooled = self.cooled, set()
        return iter(cooled)
