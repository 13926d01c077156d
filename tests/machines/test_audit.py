"""The audit finds every kind of imbalance: each is planted, one at a time, in books that balance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvstate.machines.audit import audit, recount
from kvstate.machines.config import PoolConfig
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.key import State as K
from kvstate.machines.tables.load import State as L
from kvstate.machines.tables.part import State as P
from kvstate.machines.tables.transfer import State as X
from tests.machines.rig import Rig, key, keys


def busy() -> Rig:
    """Two leases, one job of two parts, one load.

    Device: the first lease's 0 and 1 are sealed and being stored, 2 is loaded for the second lease, 3 is free. Host: 4
    is cached, 5 is pinned by the second lease and read by its load, 6 and 7 are being filled by the job.
    """
    rig = Rig(device=4, host=4, part_blocks=1)
    rig.below(8, 9)
    lease, refs = rig.sealed(1, 2)
    rig.offload(lease, refs)
    reader = rig.open()
    rig.load(reader, rig.lookup(reader, 9))
    assert [rig.state(block) for block in range(8)] == [
        "active", "active", "loading", "free", "cached", "active", "loading", "loading",
    ]  # fmt: skip
    return rig


@pytest.fixture
def rig() -> Rig:
    """Not the one that has to balance in the end."""
    return busy()


def put(machine: str, name: str, slot: int, value: int) -> Callable[[Rig], None]:
    def plant(rig: Rig) -> None:
        rig.books.column(machine, name)[slot] = value

    return plant


def do(plant: Callable[[Any], object]) -> Callable[[Rig], None]:
    def planted(rig: Rig) -> None:
        plant(rig.books)

    return planted


def first(roster: Any) -> Any:
    return roster.live()[0]


def forget(books: Any) -> None:
    """A part whose owner forgot it."""
    part = first(books.parts)
    part.owner = None


def rename(books: Any) -> None:
    """The key of block 0 says that it names block 3."""
    books.keys.blocks[books.keys.block_key[0]] = 3


def condemn(books: Any) -> None:
    books.keys.state[books.keys.block_key[4]] = K.CONDEMNED


def orphan(books: Any) -> None:
    slot = books.keys.find(1, "a", bytes([1]) * 4)
    books.keys.writers[slot] = 777


PLANTS: dict[str, tuple[Callable[[Rig], None], list[str]]] = {
    "owners": (put("block", "owners", 0, 2), ["L8.recount: block 0 has owners 2, the records say 1"]),
    "an owner": (
        do(lambda books: books.leases[min(books.leases)].own.pop(0)),
        ["L8.recount: block 0 has owners 1, the records say 0"],
    ),
    "a pin": (
        do(lambda books: books.leases[max(books.leases)].pins.pop(5)),
        ["L8.recount: block 5 has owners 1, the records say 0"],
    ),
    "a job's claim": (
        do(lambda books: setattr(first(books.jobs), "dsts", (6,))),
        [
            "L8.recount: block 7 has owners 1, the records say 0",
            "L5.loading_named: block 7 is loading, and nothing fills it",
        ],
    ),
    "readers": (put("block", "readers", 1, 1), ["L8.recount: block 1 has readers 1, the records say 2"]),
    "a hold": (
        do(lambda books: setattr(first(books.jobs), "srcs", (0,))),
        ["L8.recount: block 1 has readers 2, the records say 1"],
    ),
    "a read": (
        do(lambda books: first(books.parts).reads.append(4)),
        ["L8.recount: block 4 has readers 0, the records say 1"],
    ),
    "writers": (put("block", "writers", 6, 0), ["L8.recount: block 6 has writers 0, the records say 1"]),
    "lost": (put("block", "lost", 5, 1), ["L8.recount: block 5 has lost 1, the records say 0"]),
    "a state": (
        put("block", "state", 3, B.OPEN),
        [
            "L8.balance: device counts 1 free blocks and has 0",
            "L8.balance: device counts 0 open blocks and has 1",
            "L8.balance: the free list of device has 1 entries, 0 blocks are free",
        ],
    ),
    "a free block": (
        do(lambda books: books.pools[0].free.pop()),
        ["L8.balance: the free list of device has 0 entries, 1 blocks are free"],
    ),
    "twice free": (
        do(lambda books: books.pools[0].free.append(3)),
        ["L8.balance: the free list of device has 2 entries, 1 blocks are free"],
    ),
    "evictable": (
        do(lambda books: books.pools[1].evictable.gone([4])),
        ["L8.balance: host may evict 0 blocks, 1 are cached"],
    ),
    "unpublished": (
        put("block", "published", 0, 0),
        ["L9.named: block 0 is not published, a key that is ready names it"],
    ),
    "published": (put("block", "published", 2, 1), ["L9.named: block 2 is published, no key names it"]),
    "condemned": (do(condemn), ["L9.named: block 4 is published, a key that is condemned names it"]),
    "half a link": (do(rename), ["L9.named: block 0 is published, a key that is ready names it"]),
    "a writer": (do(orphan), ["L9.writing: key 01010101 is being written by job 777, which is over"]),
    "a job's left": (put("offload", "left", 0, 1), ["L4.left: offload {job} waits for 1 parts, 2 fly for it"]),
    "a batch's left": (put("transfer", "left", 0, 3), ["L4.left: transfer {batch} waits for 3 parts, 1 fly for it"]),
    "an orphan": (
        do(forget),
        [
            "L4.left: transfer {batch} waits for 1 parts, 0 fly for it",
            "L4.no_orphan: fetch part {part} flies for nobody",
        ],
    ),
    "told": (
        put("transfer", "told", 0, 1),
        ["L5.loading_named: block 2 is loading, and nothing fills it"],
    ),
    "ended": (put("transfer", "state", 0, X.COMMITTED), ["L5.loading_named: block 2 is loading, and nothing fills it"]),
    "aborting": (put("load", "state", 0, L.ABORTING), ["L5.loading_named: block 2 is loading, and nothing fills it"]),
    "not loading": (
        do(lambda books: setattr(first(books.batches), "dsts", (2, 0))),
        ["L5.loading_named: block 0 is active, and something fills it"],
    ),
}


def test_the_books_balance(rig: Rig) -> None:
    assert audit(rig.ledger) == []
    seen = recount(rig.books)
    for name in ("owners", "readers", "writers", "lost"):
        assert rig.column("block", name) == [getattr(seen, name)[block] for block in range(8)]


@pytest.mark.parametrize("what", PLANTS)
def test_a_planted_imbalance_is_found_and_nothing_else(rig: Rig, what: str) -> None:
    plant, sentences = PLANTS[what]
    books = rig.books
    names = {"job": first(books.jobs).id, "batch": first(books.batches).id, "part": first(books.parts).token.serial}
    plant(rig)
    assert audit(rig.ledger) == [sentence.format(**names) for sentence in sentences]


def test_a_lost_part_counts_as_lost(rig: Rig) -> None:
    store = rig.works()[0]
    rig.report(store, "timeout")
    assert audit(rig.ledger) == []
    assert (rig.column("block", "lost")[0], rig.column("block", "lost")[6]) == (1, 1)
    rig.books.column("block", "lost")[6] = 0
    assert audit(rig.ledger) == ["L8.recount: block 6 has lost 0, the records say 1"]


def asking() -> Rig:
    """A seek of two keys, each in a part of its own, neither of which has answered."""
    store = PoolConfig("store", 2, durable=True, verify=True, shared=True)
    rig = Rig(pools=(PoolConfig("device", 2), store), part_blocks=1)
    assert rig.ledger.seek(rig.open(), keys(1, 2), pool=1, deadline=9.0)
    return rig


def parts(books: Any) -> dict[int, Any]:
    return books.seeks.by_part  # type: ignore[no-any-return]


def seek_of(books: Any) -> Any:
    return next(iter(books.seeks.live.values()))


SOUGHT: dict[str, tuple[Callable[[Any], object], list[str]]] = {
    "nothing": (lambda books: None, []),
    "a part that flies for nobody": (
        lambda books: seek_of(books).waits.pop(min(parts(books))),
        ["L7.sought: 2 parts are on record as looking for keys, and seeks wait for others"],
    ),
    "a part that is not on record": (
        lambda books: parts(books).pop(min(parts(books))),
        [
            "L7.sought: seek {seek} waits for the part in slot 0, which does not fly for it",
            "L7.sought: 1 parts are on record as looking for keys, and seeks wait for others",
        ],
    ),
    "a part that is over": (
        lambda books: books.parts_state.__setitem__(0, P.LANDED),
        ["L7.sought: seek {seek} waits for the part in slot 0, which does not fly for it"],
    ),
    "a part that is no more": (
        lambda books: books.parts.items.__setitem__(0, None),
        ["L7.sought: seek {seek} waits for the part in slot 0, which does not fly for it"],
    ),
    "no part at all": (
        lambda books: [one.clear() for one in (seek_of(books).waits, parts(books))],
        ["L7.sought: seek {seek} waits for no part, and is not over"],
    ),
    "a key of no seek": (
        lambda books: books.seeks.sought["a"].update({key(3): 77}),
        ["L7.sought: key 03030303 of a is sought by seek 77, which is over"],
    ),
    "a key of another": (
        lambda books: books.seeks.sought["a"].update({key(3): seek_of(books).id}),
        ["L7.sought: key 03030303 of a is sought by seek {seek}, which is over"],
    ),
}


@pytest.mark.parametrize("what", SOUGHT)
def test_what_is_sought_by_nobody_is_found(what: str) -> None:
    rig = asking()
    plant, sentences = SOUGHT[what]
    number = seek_of(rig.books).id
    plant(rig.books)
    assert audit(rig.ledger) == [sentence.format(seek=number) for sentence in sentences]
