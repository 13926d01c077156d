"""The physical truth of a replay, held against the ledger.

The ledger believes what it is told. The watch sees what is so: which life of which block a copy was started on, and
which it lands on; whether a key that was reported bad is ever a hit again; and, now and then, whether the books
balance. What it knows of a copy it read off when the work was handed out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from kvstate.errors import code_of, properties_of
from kvstate.machines.audit import audit
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Kind, Outcome, Report, Token, Work
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.part import State as P
from kvstate.machines.verdicts import Hit
from kvstate.trace.rows import listen

KEPT: Final = 20
"""So many violations are kept in full; the rest are counted."""
_FREE: Final = int(B.FREE)
_HELD: Final = (int(B.DRAINING), int(B.QUARANTINED))
"""States as plain numbers: to look up a member of an enum takes longer than all else that is done at a row."""


class Watch:
    """See the module. `on_land` is called from copier threads; everything else from the thread that owns the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        """Watch this ledger from here on; what happened before is not known."""
        self.ledger = ledger
        self.violations = 0
        """How often something was found that no law allows."""
        self.sentences: list[str] = []
        """The first `KEPT` of them, each as `LAW: sentence`."""
        self.failures: Counter[str] = Counter()
        """Failures in reports that a part was there to hear, by the name of their code."""
        self.landed_late: list[None] = []
        """Grows by one for each landing of a part that was given up, or in a block that its owner had left. A list,
        since threads append safely."""
        self.reuses = 0
        """Blocks, of any tier, that drained, came free and were given to somebody again."""
        self.moved: Counter[tuple[str, int]] = Counter()
        """Blocks whose copy was reported done, by its kind and the number of the pool below the device."""
        self.drains: tuple[list[float], ...] = tuple([] for _ in ledger.books.pools)
        """Seconds from the release of a block to its coming free, where something touched it still; by pool."""
        self._since: dict[int, float] = {}
        self._lives: dict[Token, tuple[Work, tuple[int, ...]]] = {}
        self._landed: set[Token] = set()
        """Copies whose bytes have begun to move; threads add to it, and adding is one step of the interpreter."""
        self._bad: set[tuple[bytes, BlockRef]] = set()
        self._drained: set[int] = set()
        listen(ledger, self.on_blocks, ("block",))

    def violation(self, law: str, sentence: str) -> None:
        """Something is so that this law does not allow: `sentence` says what, with the values."""
        self.violations += 1
        if len(self.sentences) < KEPT:
            self.sentences.append(f"{law}: {sentence}")

    @property
    def copied(self) -> int:
        """Blocks whose copy was reported done."""
        return sum(self.moved.values())

    # -- copies --------------------------------------------------------------------------------------------------------

    def on_submit(self, work: Work) -> None:
        """Remember the lives of the blocks that a copy is started on."""
        generation = self.ledger.books.generation
        self._lives[work.token] = (work, tuple([generation[block] for block in (*work.src, *work.dst)]))

    def on_land(self, work: Work, when: float) -> None:  # noqa: ARG002 - a hook of the copiers
        """As `on_landing`, of the copier's own process."""
        self.on_landing(work.token)

    def on_landing(self, token: Token) -> None:
        """Bytes are about to move: every block must be in the life that the copy was started on (law L3)."""
        books = self.ledger.books
        whole, lives = self._lives[token]
        self._landed.add(token)
        late = self._given_up(token)
        generation, state = books.generation, books.block_state
        for block, life in zip((*whole.src, *whole.dst), lives, strict=True):
            if generation[block] != life:
                self.violation(
                    "L3.no_reuse",
                    f"{whole.kind} part {whole.token.serial} began on block {block} gen {life} and lands on gen "
                    f"{generation[block]}",
                )
                return
            late = late or state[block] in _HELD
        if late:
            self.landed_late.append(None)

    def _given_up(self, token: Token) -> bool:
        """Does nobody wait for this part any more?"""
        books = self.ledger.books
        slot = books.tokens.get(token.serial)
        return slot is None or books.parts_state[slot] == P.LOST

    def on_report(self, report: Report) -> None:
        """Called before the ledger hears it: count failures by code, and remember what must not be a hit again."""
        books = self.ledger.books
        slot = books.tokens.get(report.token.serial)
        if slot is None or books.parts_state[slot] not in (P.FLYING, P.LOST):
            return
        work, lives = self._lives.get(report.token, (None, ()))
        if work is not None and report.outcome == Outcome.DONE:
            if report.token not in self._landed:
                self.violation("L2.identity", f"{work.kind} part {report.token.serial} is done before a byte has moved")
            if work.kind in (Kind.STORE, Kind.FETCH):
                below = work.dst[0] if work.kind == Kind.STORE else work.src[0]
                self.moved[str(work.kind), books.pool_of[below]] += len(work.src)
        found_nothing = work is not None and work.kind == Kind.SEEK and report.outcome == Outcome.DONE
        for failure in () if found_nothing else report.failures:
            self.failures[code_of(failure.code).name] += 1
        if work is not None and report.outcome == Outcome.BROKEN and work.kind in (Kind.FETCH, Kind.VERIFY):
            for line in _bad_lines(report, len(work.src)):
                self._bad.add((work.keys[line], BlockRef(work.src[line], lives[line])))

    def forget_lives(self) -> None:
        """Drop what no copy can need any more, so that a long run stays small."""
        tokens = self.ledger.books.tokens
        if len(self._lives) > 4 * len(tokens) + 100_000:
            oldest = min(tokens, default=self.ledger.books.serial)
            self._lives = {token: life for token, life in self._lives.items() if token.serial >= oldest - 50_000}
            # In place: a thread may add to the very set meanwhile, and what it adds must not be lost.
            self._landed.difference_update([token for token in self._landed.copy() if token not in self._lives])

    # -- the ledger ----------------------------------------------------------------------------------------------------

    def on_blocks(self, machine: str, blocks: Sequence[int], row: str, before: int, after: int) -> None:  # noqa: ARG002
        """Count blocks that drained, came free, and were given to somebody again. Hears of every row of a block."""
        if before == _FREE:
            again = self._drained.intersection(blocks)
            self._drained -= again
            self.reuses += len(again)
        elif after == _FREE and before in _HELD:
            self._drained.update(blocks)
            books, since = self.ledger.books, self._since
            for block in blocks:
                self.drains[books.pool_of[block]].append(books.now - since.pop(block, books.now))
        elif after in _HELD and before not in _HELD:
            self._since.update(dict.fromkeys(blocks, self.ledger.books.now))

    def on_hit(self, hit: Hit) -> None:
        """No key may be a hit in the life of a block in which its bytes were reported bad (law L5)."""
        for key, ref in zip(hit.keys, hit.blocks, strict=True) if self._bad else ():
            if (key, ref) in self._bad:
                self.violation(
                    "L5.bad_keys", f"key {key.hex()} is a hit in block {ref.block} gen {ref.generation} again"
                )

    def audit(self) -> None:
        """Does everything add up? A pass over all records; called now and then."""
        for sentence in audit(self.ledger):
            law, _, rest = sentence.partition(": ")
            self.violation(law, rest)
        if self.ledger.fatal is not None:
            self.violation(self.ledger.fatal.law, self.ledger.fatal.sentence)

    def untold(self, loads: Iterable[int]) -> None:
        """These loads, by number, were started and had no verdict when all was over."""
        for load in loads:
            self.violation("L1.verdict_once", f"load {load} was never told how it ended")


def _bad_lines(report: Report, lines: int) -> Iterable[int]:
    """The lines whose bytes a report calls bad: those of failures that say so, and all if one of them names none.

    A line that failed beside them for another reason, such as a copy that was stopped, has bytes as good as ever.
    """
    bad = [failure for failure in report.failures if properties_of(failure.code).condemns]
    named = {failure.line for failure in bad or report.failures}
    return named if named and named <= set(range(lines)) else range(lines)
