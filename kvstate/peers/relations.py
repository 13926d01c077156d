"""The relations of `spec/peers/coupling.toml`: from one record to the records of another machine.

Pure: they read the books and change nothing. They compare identities, and never look at a state or a counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kvstate.peers.records import Books, Borrow, Check, Lend, Link, Record
from kvstate.peers.words import Handoff

Relation = Callable[[Books, Any], Iterable[Record]]
"""Given a record: those that it leads to, in order."""


def link_lends(books: Books, link: Link) -> list[Lend]:
    """What was offered over this link."""
    return [lend for lend in books.lends.values() if lend.link is link]


def link_borrows(books: Books, link: Link) -> list[Borrow]:
    """What was heard of over this link."""
    return [borrow for borrow in books.borrows.values() if borrow.link is link]


def link_elders(books: Books, link: Link) -> list[Link]:
    """Other lives of the same name."""
    return [other for other in books.links if other.peer == link.peer and other is not link]


def borrow_checks(books: Books, borrow: Borrow) -> list[Check]:
    """The checks that wait for an answer about this handoff."""
    return [check for check in books.checks.values() if borrow.handoff in check.waiting.values()]


def check_borrow(books: Books, check: Check) -> list[Borrow]:  # noqa: ARG001 - all relations are called alike
    """The handoff that is being answered about."""
    answered = books.borrows.get(Handoff(books.word.life, books.word.number))
    return [] if answered is None else [answered]


RELATIONS: Final[dict[str, Relation]] = {
    "link_lends": link_lends,
    "link_borrows": link_borrows,
    "link_elders": link_elders,
    "borrow_checks": borrow_checks,
    "check_borrow": check_borrow,
}
"""By name, as couplings go over them."""
