"""Shared pools through a `KVRuntime` whose workers are the embedder's: announced, sought, gone, and on record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Adopt, Failure, Kind, Report, Work
from kvstate.machines.verdicts import Announced, Refusal, Sought
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.copy import Integrity, attempt
from kvstate.runtime.engine import Engine
from kvstate.runtime.guarded import RuntimeUseError
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.settings import RuntimeConfig, Workers
from kvstate.spec.loader import load_spec
from kvstate.trace.autopsy import autopsy, said
from kvstate.trace.check import check
from kvstate.trace.lines import read
from kvstate.wire import Found, decode_down, encode_up
from tests.runtime.parts import pools

SPEC = load_spec(check=False)
STORE, PEER = 1, 2
KEYS = [b"key 1", b"key 2"]
NAMES = [("a", key) for key in KEYS]


class Workers2:
    """A runtime whose two workers are this test: what goes down, and what comes up."""

    def __init__(self, record: Path) -> None:
        tiers = (
            PoolConfig("device", 4),
            PoolConfig("store", 4, durable=True, verify=True, copier="objects", shared=True),
            PoolConfig("peer", 2, verify=True, copier="peer", shared=True),
        )
        ledger = LedgerConfig(tiers, ranks=2)
        config = RuntimeConfig(ledger=ledger, block_bytes=64, workers=Workers.OWN, record=record, load_for=2.0)
        self.clock = VirtualClock()
        self.kv = KVRuntime(config, clock=self.clock)
        for rank in (0, 1):
            self.kv.report(encode_up(rank, 1, [Found("objects", (), (), 0, 0, 0, True)]))
        self.kv.poll()
        self.kv.poll()  # by now all have said what they hold
        self.down()

    def down(self) -> list[Any]:
        """What has gone down since the last look, of both ranks, rank 0 first."""
        messages = self.kv.take_effects()
        return [item for rank in sorted(messages) for item in decode_down(messages[rank]).items]

    def up(self, work: Work, outcome: str = "done", *failures: Failure) -> None:
        self.kv.report(encode_up(work.rank, 1, [Report(work.token, outcome, failures)]))
        self.kv.poll()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Workers2]:
    made = Workers2(tmp_path / "run.ndjson")
    yield made
    made.kv.close()


def test_what_a_store_has_is_sought_loaded_and_gone(rig: Workers2, tmp_path: Path) -> None:
    kv = rig.kv
    lease = kv.open("a")
    assert isinstance(lease, int)
    asked = kv.seek(lease, KEYS, pool=STORE)
    assert isinstance(asked, Sought)
    questions = rig.down()
    assert [(work.kind, work.rank, work.keys, work.src) for work in questions] == [
        (Kind.SEEK, rank, tuple(KEYS), ()) for rank in (0, 1)
    ]
    assert kv.lookup(lease, KEYS).pending  # type: ignore[union-attr]
    rig.up(questions[0])
    rig.up(questions[1], "done", Failure(1, int(Code.BLOCK_NOT_FOUND), "lookup"))
    adopts = rig.down()
    assert [(type(one), one.rank, one.keys) for one in adopts] == [(Adopt, rank, (KEYS[0],)) for rank in (0, 1)]
    hit = kv.lookup(lease, KEYS)
    assert not isinstance(hit, Refusal)
    assert len(hit.blocks) == 1
    grant = kv.allocate(lease, 1)
    load = kv.load(lease, hit, grant.blocks)  # type: ignore[union-attr]
    assert load
    for work in rig.down():
        rig.up(work, "broken", Failure(0, int(Code.BLOCK_NOT_FOUND), "fetch"))
    assert not kv.lookup(lease, KEYS)
    kv.close()
    found = check(tmp_path / "run.ndjson", SPEC)
    assert found.violation is None
    assert {"K02", "K05", "P02"} <= set(found.rows)
    _, lines = read(tmp_path / "run.ndjson")
    told = [said(line) for line in lines if line.data.get("out") == "seek" or line.data.get("in") == "seek"]
    assert told == ["seek lease 1, pool 1, keys 2", "seek 1.1", "seek 1.2"], told
    assert autopsy(tmp_path / "run.ndjson", SPEC).violation is None


def test_what_a_peer_offers_is_announced_and_vanishes(rig: Workers2, tmp_path: Path) -> None:
    told = rig.kv.announce(PEER, NAMES)
    assert isinstance(told, Announced)
    assert [(adopt.copier, adopt.rank) for adopt in rig.down()] == [("peer", 0), ("peer", 1)]
    assert rig.kv.vanish(PEER, NAMES[:1]) == 1
    rig.kv.close()
    found = check(tmp_path / "run.ndjson", SPEC)
    assert found.violation is None
    assert found.rows["K14"] == 1


def test_a_seek_that_is_not_answered_is_over_when_a_load_would_be(rig: Workers2) -> None:
    lease = rig.kv.open("a")
    assert isinstance(lease, int)
    rig.kv.seek(lease, KEYS, pool=STORE)
    assert rig.kv.lookup(lease, KEYS).pending  # type: ignore[union-attr]
    rig.clock.advance(0.9)
    rig.kv.poll()
    assert rig.kv.ledger.books.seeks.live
    rig.clock.advance(1.2)
    rig.kv.poll()
    assert not rig.kv.ledger.books.seeks.live
    assert rig.kv.rest()[1:] == ["seek part 1 is lost", "seek part 2 is lost"]
    assert rig.kv.seek(lease, KEYS, pool=STORE, deadline=9.0)


def test_a_lost_worker_takes_what_was_sought_and_found_with_it(rig: Workers2) -> None:
    lease = rig.kv.open("a")
    assert isinstance(lease, int)
    rig.kv.announce(PEER, NAMES)
    rig.kv.seek(lease, [b"key 3"], pool=STORE)
    rig.kv.worker_lost(1, "it is gone")
    lost = rig.kv.poll().lost
    assert [loss.keys for loss in lost] == [2]
    assert not rig.kv.ledger.books.seeks.live
    assert not rig.kv.ledger.books.keys.spaces


def test_who_may_say_so(rig: Workers2) -> None:
    assert not rig.kv.announce(0, NAMES)
    assert not rig.kv.vanish(0, NAMES)
    assert not rig.kv.seek(9, KEYS, pool=STORE)
    assert not rig.kv.announce(PEER, 7)  # type: ignore[arg-type]
    rig.kv.close()
    for call in (
        lambda: rig.kv.announce(PEER, NAMES),
        lambda: rig.kv.vanish(PEER, NAMES),
        lambda: rig.kv.seek(1, KEYS, pool=STORE),
    ):
        with pytest.raises(RuntimeUseError):
            call()


def test_a_shared_pool_wants_a_copier_that_is_told_what_its_blocks_stand_for() -> None:
    tiers = (PoolConfig("device", 1), PoolConfig("peer", 1, verify=True, shared=True))
    inbox = Inbox()
    copier = HandCopier(pools(64, 1, 1), inbox)
    with pytest.raises(ValueError, match="pool peer is shared, and its copier 'cpu' keeps no objects"):
        Engine(Ledger(LedgerConfig(tiers)), {"cpu": copier}, inbox, VirtualClock())


def test_a_copier_that_cant_look_fails_and_nothing_is_found() -> None:
    tiers = (PoolConfig("device", 1), PoolConfig("store", 1, durable=True, verify=True, shared=True))
    ledger = Ledger(LedgerConfig(tiers))
    lease = ledger.open("a")
    assert ledger.seek(lease, KEYS, pool=1, deadline=1.0)  # type: ignore[arg-type]
    for work in ledger.take_effects():
        assert isinstance(work, Work)
        report = attempt(pools(64, 1, 1), work, integrity=Integrity.OFF)
        assert report.outcome != "done"
        assert "can't do a part of kind 'seek'" in report.failures[0].message
        ledger.report(report)
    hit = ledger.lookup(lease, KEYS)  # type: ignore[arg-type]
    assert not hit.pending  # type: ignore[union-attr]
    assert not hit
