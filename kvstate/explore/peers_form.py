"""A party as a value: what it knows and will ever act by, with times counted from now, and the party from the value.

Two parties with one form do the same from here on, whatever they are told. So a search keeps forms, and what a party
has done once in a form with an input need not be done again.
"""

from __future__ import annotations

from collections import Counter
from heapq import heapify
from typing import Any

from kvstate.peers.party import Party
from kvstate.peers.records import Books, Borrow, Check, Lend, Link, Past, Record

Form = tuple[Any, ...]
"""A party, as nested tuples that can be hashed and compared."""
LINK = ("peer", "life", "challenge", "theirs", "hello", "code", "sentence")
LEND = ("number", "goods", "hold", "code", "granted")
BORROW = ("handoff", "goods", "lease", "lines", "vanished", "code", "question")
"""`LINK`, `LEND` and this: the fields of the records that are kept as they are."""


def form_of(party: Party) -> Form:
    """The party as a value. What was said and not taken, and what was only counted, is no part of it."""
    books = party.books
    places = {id(record): place for place, record in enumerate(_records(books))}
    timers = sorted(timer for timer in books.timers if timer[3].timers.get(timer[2]) == timer[1])
    return (
        tuple((_columns(books, link), _fields(link, LINK)) for link in books.links),
        tuple((_columns(books, lend), places[id(lend.link)], _fields(lend, LEND)) for lend in books.lends.values()),
        tuple(
            (_columns(books, one), places[id(one.link)], _fields(one, BORROW), one.asked_at - books.now)
            for one in books.borrows.values()
        ),
        tuple(
            (_columns(books, one), one.report, one.sources, tuple(one.waiting.items()), one.denied)
            for one in books.checks.values()
        ),
        tuple(sorted(books.expected.items())),
        tuple(sorted((life, past.floor, tuple(sorted(past.over))) for life, past in books.past.items())),
        tuple((due - books.now, event, places[id(record)]) for due, _, event, record in timers),
        (books.minted, books.asked, tuple(sorted(books.names))),
    )


def restore(party: Party, form: Form) -> None:
    """Make of the party what it was when this was its form; its clock stands at 0."""
    links, lends, borrows, checks, expected, past, timers, (minted, asked, names) = form
    books = party.books
    _empty(party)
    books.links = [Link("link", _slot(books, "link", columns), {}, *fields) for columns, fields in links]
    made = [Lend("lend", _slot(books, "lend", at), {}, books.links[place], *fields) for at, place, fields in lends]
    books.lends = {lend.number: lend for lend in made}
    heard = [
        Borrow("borrow", _slot(books, "borrow", columns), {}, books.links[place], *(*fields, asked_at))
        for columns, place, fields, asked_at in borrows
    ]
    books.borrows = {borrow.handoff: borrow for borrow in heard}
    kept = [
        Check("check", _slot(books, "check", columns), {}, report, sources, dict(waiting), denied)
        for columns, report, sources, waiting, denied in checks
    ]
    books.checks = {check.report.token: check for check in kept}
    books.expected, books.past = dict(expected), {life: Past(floor, set(over)) for life, floor, over in past}
    books.minted, books.asked, books.names = minted, asked, set(names)
    records = list(_records(books))
    for due, event, place in timers:
        books.arm(records[place], event, due)
    heapify(books.timers)


def _empty(party: Party) -> None:
    """As it was when it was made; the two records that are over stay in their slots."""
    books = party.books
    for name, table in books.tables.items():
        kept = [over.slot for over in (party.hearing.over_lend, party.hearing.over_borrow) if over.machine == name]
        for column in _arrays(table):
            del column[len(kept) :]
    books.now, books.rung, books.free, books.timers = 0.0, 0, {}, []
    books.counts, books.out, books.actions, books.touched = Counter(), [], [], {}
    party.broken = ""


def _records(books: Books) -> list[Record]:
    return [*books.links, *books.lends.values(), *books.borrows.values(), *books.checks.values()]


def _arrays(table: Any) -> list[Any]:
    return [table.state, *(getattr(table, name) for name in table.VARS)]


def _columns(books: Books, record: Record) -> tuple[int, ...]:
    return tuple(column[record.slot] for column in _arrays(books.tables[record.machine]))


def _fields(record: Record, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in names)


def _slot(books: Books, machine: str, columns: tuple[int, ...]) -> int:
    """A new record with these values, which a row gave once. The only place where a state is put and not reached."""
    arrays = _arrays(books.tables[machine])
    for column, value in zip(arrays, columns, strict=True):
        column.append(value)
    return len(arrays[0]) - 1
