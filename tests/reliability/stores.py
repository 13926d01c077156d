"""Faults of an object store, each where and when it strikes: a real S3 server, and a proxy before it that plays them.

As in `cases` one thing is broken, one block is stored, loaded or sought meanwhile, and everything is looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from kvstate.errors import KVError
from kvstate.machines.messages import Outcome, Report
from kvstate.machines.tables.block import BlockTable
from kvstate.machines.verdicts import Ending
from kvstate.runtime.tiers.objects.names import tombstone
from kvstate.runtime.tiers.objects.staging import Staged
from kvstate.trace.observer import Observer
from tests.objects.proxy import ACT_AND_DROP, CUT, DROP, HANG, Proxy
from tests.objects.runtime import PATIENCE, Serving, config
from tests.objects.server import S3Server
from tests.runtime.parts import fill, holds, key
from tests.runtime.rig import got

VICTIM, BYSTANDER, STORED, LATER = 1, 2, 3, 4
"""Keys: of what is loaded or sought, of what nothing happens to, of what is stored, and of what is stored later."""
REQUEST = 0.6
"""Seconds of a request."""
GRACE = 0.05


@dataclass
class Scene:
    """One runtime, and the store that it sees through a proxy."""

    proxy: Proxy
    one: Serving
    other: Serving
    """Another runtime, at the same store, and with no proxy between."""
    waits: Staged | None = None
    """What fills the memory for what is on its way."""

    def answer(self, what: int | str, times: int = 0, method: str = "") -> None:
        """Do this with so many requests, or with all."""
        self.proxy.only = method
        if times:
            self.proxy.next.extend([what] * times)
        else:
            self.proxy.always = what

    def name(self, number: int) -> str:
        return self.one.objects.names.of("a", key(number))

    def data(self, number: int) -> bytes:
        got_ = self.other.objects.versions.bucket.get(self.name(number), 1 << 20, "fetch")
        assert got_ is not None
        return bytes(got_.data)

    def plant(self, number: int, data: bytes) -> None:
        bucket = self.other.objects.versions.bucket
        bucket._api.put(bucket._store, self.name(number), data)

    def delete(self, number: int) -> None:
        bucket = self.other.objects.versions.bucket
        bucket._api.delete(bucket._store, self.name(number))


@dataclass(frozen=True)
class StoreCase:
    """What is done (`store`, `load` or `seek`), at which stage it goes wrong, and how."""

    does: str
    stage: str
    kind: str
    inject: Callable[[Scene], None]
    within: float = PATIENCE
    """Seconds until a load is told how far it came."""

    @property
    def name(self) -> str:
        return f"store: {self.does}, {self.stage}: {self.kind}"


@dataclass(frozen=True)
class Measured:
    """What came of it."""

    told: str
    codes: tuple[str, ...]
    tries: int
    lost: bool
    """The victim is not to be had any more."""
    held: tuple[str, ...]
    """Blocks that were held when the answer was there, by tier and state."""
    left: tuple[str, ...]
    """And when all copies were over."""
    goes_on: bool
    bystander: bool


def run(case: StoreCase, server: S3Server) -> Measured:
    """Break it, and measure what came of it."""
    prefix = uuid4().hex
    with Proxy(server.port).running() as proxy:
        settings = {"request_for": REQUEST, "tries": 2}
        waits = {"retry_delay": 0.01, "grace": GRACE, "cool_for": 0.1}
        author = Serving(config(server.url(prefix)))
        assert author.store(VICTIM, BYSTANDER) == [Ending.COMMITTED] * 2
        one = Serving(config(server.url(prefix, proxy.port), integrity="host", store=settings, ledger=waits))
        for number in (BYSTANDER, *([VICTIM] if case.does == "load" else [])):
            assert one.comes(number)
        scene = Scene(proxy, one, author)
        heard = _Seeks()
        one.kv.listeners.append(heard)
        case.inject(scene)
        told = {"store": _store, "load": _load, "seek": _seek}[case.does](one, case.within)
        errors, held = (*one.failed, *heard.failed), _held(one)
        one.failed = []
        proxy.always = None
        proxy.next.clear()
        if scene.waits is not None:
            one.objects.staging.give_back(scene.waits)
        one.kv.fence()
        end = time.monotonic() + PATIENCE
        while one.kv.rest() or time.monotonic() < end - PATIENCE + 2 * GRACE:
            assert time.monotonic() < end, one.kv.rest()
            one.turn()
            one.kv.wait(0.01)
        one.objects.versions.bucket._patience.told(0.0, answered=True)
        assert one.objects.settle(PATIENCE)
        measured = Measured(
            told, tuple(dict.fromkeys(f"`{error.code.name}` ({error.stage})" for error in errors)),
            max([error.attempt for error in errors], default=0), not _new(server, prefix, VICTIM), held, _held(one),
            one.store(LATER) == [Ending.COMMITTED] and one.comes(LATER), one.comes(BYSTANDER),
        )  # fmt: skip
        one.ends()
        author.ends()
        return measured


class _Seeks(Observer):
    """Hears why seeks had no answer, which no verdict says."""

    def __init__(self) -> None:
        self.failed: list[KVError] = []

    def on_report(self, report: Report) -> None:
        found = [KVError.of(failure, attempt=1) for failure in report.failures if failure.stage == "lookup"]
        self.failed += found if report.outcome != Outcome.DONE else []


def _store(one: Serving, within: float) -> str:
    lease = got(one.kv.open("a"))
    refs = got(one.kv.allocate(lease, 1)).blocks
    fill(one.kv.memories[0], [refs[0].block], [key(STORED)])
    got(one.kv.seal(lease, refs, [key(STORED)]))
    got(one.kv.offload(lease, refs, pool=one.store_pool, deadline=one.kv.now() + within))
    ending = one.until_told("jobs").ending
    one.kv.finish(lease)
    return {"committed": "stored", "failed": "not stored"}[str(ending)]


def _load(one: Serving, within: float) -> str:
    one.forget()
    hit = one.look(VICTIM, seek=False)
    assert hit.below, hit
    refs = got(one.kv.allocate(hit.lease, 1)).blocks
    got(one.kv.load(hit.lease, hit, refs, deadline=one.kv.now() + within))
    verdict = one.until_told("verdicts")
    assert not verdict.blocks or holds(one.kv.memories[0], [refs[0].block], [key(VICTIM)]), "wrong bytes"
    one.kv.finish(hit.lease)
    if within < PATIENCE:  # what has not stopped by its deadline is given up soon after it
        end = time.monotonic() + 2 * REQUEST
        while time.monotonic() < end and not any("quarantined" in what for what in _held(one)):
            one.turn()
            one.kv.wait(0.01)
    return f"{verdict.tokens} tokens" if verdict.tokens else "nothing cached"


def _seek(one: Serving, within: float) -> str:
    lease, keys = got(one.kv.open("a")), [key(VICTIM)]
    got(one.kv.seek(lease, keys, pool=one.store_pool, deadline=one.kv.now() + within))
    hit = one.hit(lease, keys)
    one.kv.finish(lease)
    return "a hit" if hit.blocks else "a miss"


def _held(one: Serving) -> tuple[str, ...]:
    return tuple(
        f"{count} {pool.config.name} block {state}"
        for pool in one.kv.ledger.books.pools
        for state, count in zip(BlockTable.STATES, pool.counts, strict=True)
        if count and state not in ("free", "cached", "active", "open")
    )


def _new(server: S3Server, prefix: str, number: int) -> bool:
    """Does a new runtime get the bytes of that key?"""
    new = Serving(config(server.url(prefix)))
    came = new.comes(number)
    new.ends()
    return came


def _flip(scene: Scene, number: int, at: int) -> None:
    data = bytearray(scene.data(number))
    data[at] ^= 1
    scene.plant(number, bytes(data))


def _other(scene: Scene) -> None:
    """An object of another fingerprint, under our name."""
    other = Serving(config(scene.other.objects.versions.bucket.url, store={"fingerprint": "model 2"}))
    assert other.store(VICTIM) == [Ending.COMMITTED]
    data = other.objects.versions.bucket.get(other.objects.names.of("a", key(VICTIM)), 1 << 20, "fetch")
    other.ends()
    assert data is not None
    scene.plant(VICTIM, bytes(data.data))


def _full(scene: Scene) -> None:
    """Another object, as large as all that may wait, waits."""
    scene.waits = scene.one.objects.staging.take(scene.one.objects.staging._most)


def _first(scene: Scene) -> None:
    assert scene.other.store(STORED) == [Ending.COMMITTED]


CASES: tuple[StoreCase, ...] = (
    StoreCase("store", "write", "memory for blocks on their way is full", _full),
    StoreCase("store", "commit", "403", lambda it: it.answer(403)),
    StoreCase("store", "commit", "507, the store is full", lambda it: it.answer(507)),
    StoreCase("store", "commit", "503 once", lambda it: it.answer(503, 1)),
    StoreCase("store", "commit", "503 each time", lambda it: it.answer(503)),
    StoreCase("store", "commit", "404, there is no such bucket", lambda it: it.answer(404)),
    StoreCase("store", "commit", "no answer", lambda it: it.answer(HANG)),
    StoreCase("store", "commit", "the connection breaks once", lambda it: it.answer(DROP, 1)),
    StoreCase("store", "commit", "it is put, and the answer is lost", lambda it: it.answer(ACT_AND_DROP, 1, "PUT")),
    StoreCase("store", "commit", "another has put it", _first),
    StoreCase("store", "commit", "a tombstone is there", lambda it: it.plant(STORED, tombstone("a test"))),
    StoreCase("store", "commit", "an object that is cut off is there", lambda it: it.plant(STORED, b"KVSTATE\n")),
    StoreCase("load", "fetch", "the object is gone", lambda it: it.delete(VICTIM)),
    StoreCase("load", "fetch", "a tombstone is there", lambda it: it.plant(VICTIM, tombstone("a test"))),
    StoreCase("load", "fetch", "a bit of the bytes has flipped", lambda it: _flip(it, VICTIM, -1)),
    StoreCase("load", "fetch", "a bit of the header has flipped", lambda it: _flip(it, VICTIM, 40)),
    StoreCase("load", "fetch", "cut off", lambda it: it.plant(VICTIM, it.data(VICTIM)[:-1])),
    StoreCase("load", "fetch", "no object of ours", lambda it: it.plant(VICTIM, b"hello" * 2000)),
    StoreCase("load", "fetch", "an object of another key", lambda it: it.plant(VICTIM, it.data(BYSTANDER))),
    StoreCase("load", "fetch", "an object of another fingerprint", _other),
    StoreCase("load", "fetch", "403", lambda it: it.answer(403)),
    StoreCase("load", "fetch", "503 once", lambda it: it.answer(503, 1)),
    StoreCase("load", "fetch", "the answer is cut off once", lambda it: it.answer(CUT, 1)),
    StoreCase("load", "fetch", "the connection breaks each time", lambda it: it.answer(DROP)),
    StoreCase("load", "fetch", "no answer", lambda it: it.answer(HANG)),
    StoreCase("load", "fetch", "no answer before the deadline", lambda it: it.answer(HANG), within=0.05),
    StoreCase("seek", "lookup", "it is not there", lambda it: it.delete(VICTIM)),
    StoreCase("seek", "lookup", "a tombstone is there", lambda it: it.plant(VICTIM, tombstone("a test"))),
    StoreCase("seek", "lookup", "403", lambda it: it.answer(403)),
    StoreCase("seek", "lookup", "503 once", lambda it: it.answer(503, 1)),
    StoreCase("seek", "lookup", "no answer", lambda it: it.answer(HANG)),
)
"""All of them."""


def store_line(case: StoreCase, found: Measured) -> tuple[str, ...]:
    """One fault, as the page says it."""
    left = [f"{what}, until the request was over" if what not in found.left else what for what in found.held]
    codes, lost = ", ".join(found.codes), "the object" if found.lost else ""
    return case.does, case.stage, case.kind, codes, str(found.tries or ""), found.told, lost, "; ".join(left)
