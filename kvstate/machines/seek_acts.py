"""What the ledger does when a part that looks for keys is over, or was given up."""

from __future__ import annotations

from collections.abc import Sequence

from kvstate.machines.books import Books
from kvstate.machines.foreign_acts import ForeignActs
from kvstate.machines.records import Part, Seek


class SeekActs(ForeignActs):
    """As `Acts`, which is one of these."""

    __slots__ = ()

    def hear_seek(self, part: Part, effect: str) -> None:
        """Note which of the keys that the part was to look for are not there: all of them, if it did not say."""
        books = self.books
        seek = books.seeks.by_part.pop(part.slot, None)
        if seek is None:
            return
        lines, heard = range(len(part.keys)), books.heard
        assert heard is not None, f"part {part.token.serial} has {effect} without a report"
        missing: Sequence[int] = [failure.line for failure in heard.failures]
        if effect != "ok" or any(line not in lines for line in missing):
            missing = lines
        first = seek.waits.pop(part.slot)
        seek.missing.update(first + line for line in missing)
        over = seek.keys if not seek.waits else [part.keys[line] for line in missing]
        strike(books, seek, over)
        if not seek.waits:
            books.doomed.append(("seek", seek.id))


def strike(books: Books, seek: Seek, keys: Sequence[bytes]) -> None:
    """Nobody is told to wait for these keys of the seek any more."""
    for key in books.seeks.unlist(seek, keys):
        wait_no_more(books, seek.space, key)


def wait_no_more(books: Books, space: str, key: bytes) -> None:
    """The next lookup that waits for this key starts the clock anew, unless something brings or finds it yet."""
    if key not in books.loading.get(space, ()) and key not in books.seeks.sought.get(space, ()):
        books.pending_since.pop((space, key), None)
