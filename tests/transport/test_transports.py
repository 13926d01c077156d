"""Two processes, and every byte: whole and scattered blocks, blocks in pieces, several ranks, peers that come again."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import torch

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.peers import gloo_serving
from kvstate.runtime.peers.group import Pair
from kvstate.runtime.peers.nixl_agent import bindings
from kvstate.runtime.peers.transport import DescriptionError, State
from kvstate.runtime.tensors import KVPool
from tests.transport.harness import PATIENCE, Host, Peer, Puller, has_nixl, make, name, write

pytestmark = pytest.mark.long

KIB = 1 << 10


@contextmanager
def two(host: Host, kind: str, blocks: int, block_bytes: int, **options: Any) -> Iterator[tuple[Peer, Puller]]:
    peer = host.serve(kind, blocks, block_bytes, base=100)
    puller = Puller(kind, blocks, block_bytes, **options)
    puller.copier.meet("p", 1, peer.description)
    try:
        yield peer, puller
    finally:
        assert puller.close() == ()
        assert peer.ask("close")


@pytest.mark.parametrize("block_bytes", [KIB, 96 * KIB, 256 * KIB])
def test_every_byte_of_scattered_blocks_comes_right(host: Host, kind: str, block_bytes: int) -> None:
    with two(host, kind, 96, block_bytes) as (peer, puller):
        remote = list(peer.blocks)
        random.Random(1).shuffle(remote)
        puller.offer(range(96), "p", 1, remote, sums=peer.ask("sums", remote))
        places = list(range(96))
        random.Random(2).shuffle(places)
        tokens = [
            puller.fetch(range(at, at + 12), places[at : at + 12], remote[at : at + 12]) for at in range(0, 96, 12)
        ]
        for token in tokens:
            puller.done(token)
        assert puller.wrong(places, remote) == []
        assert puller.verify(range(96), places, remote).outcome == Outcome.DONE


def test_runs_of_blocks_come_right_and_no_other_block_is_touched(host: Host, kind: str) -> None:
    with two(host, kind, 64, 128 * KIB) as (peer, puller):
        puller.poison(range(64))
        rest = puller.memory.pools[0].array[[*range(8), *range(48, 64)]].copy()
        puller.offer(range(40), "p", 1, list(peer.blocks[20:60]))
        puller.done(puller.fetch(range(40), range(8, 48), list(peer.blocks[20:60])))
        assert puller.wrong(range(8, 48), list(peer.blocks[20:60])) == []
        assert (puller.memory.pools[0].array[[*range(8), *range(48, 64)]] == rest).all()


def test_a_sum_that_does_not_fit_breaks_its_line_alone(host: Host, kind: str) -> None:
    with two(host, kind, 8, 64 * KIB) as (peer, puller):
        remote = list(peer.blocks)
        sums = peer.ask("sums", remote)
        peer.ask("write", remote[3:4], 9)  # overwritten after it was offered
        puller.offer(range(8), "p", 1, remote, sums=sums)
        puller.done(puller.fetch(range(8), range(8), remote))
        report = puller.verify(range(8), range(8), remote)
        assert report.outcome == Outcome.BROKEN
        assert [(failure.line, failure.code) for failure in report.failures] == [(3, Code.CRC_MISMATCH)]
        assert puller.wrong(range(8), remote) == [3]


def test_blocks_in_pieces_come_into_whole_ones_and_the_other_way(kind: str) -> None:
    """Two layers of keys and values there, one run here; and back, in one process with two transports."""
    layers = [torch.randint(0, 255, (2, 6, 16, 2, 8), dtype=torch.uint8) for _ in range(2)]
    there = Memory([KVPool.from_tensors("device", 50, layers, block_dim=1)])
    here = Memory([Pool("device", 0, 6, there.block_bytes)])
    back = Memory([KVPool.from_tensors("device", 0, [torch.zeros_like(one) for one in layers], block_dim=1)])
    serving, second = make(kind, there), make(kind, here)
    first, third = Puller(kind, 6, 0, memory=here, transport=second), Puller(kind, 6, 0, memory=back)
    first.copier.meet("pieces", 1, serving.describe())
    first.offer(range(6), "pieces", 1, range(50, 56))
    first.done(first.fetch([5, 0, 1, 2], [3, 1, 2, 4], [55, 50, 51, 52]))
    for place, block in ((3, 55), (1, 50), (2, 51), (4, 52)):
        assert (here.bytes_of(place) == there.bytes_of(block)).all()
    third.copier.meet("whole", 1, second.describe())
    third.offer(range(6), "whole", 1, range(6))
    third.done(third.fetch([3, 1], [0, 5], [3, 1]))
    assert (back.bytes_of(0) == there.bytes_of(55)).all()
    assert (back.bytes_of(5) == there.bytes_of(50)).all()
    assert not back.bytes_of(1).any()
    for one in (third, first):
        assert one.close() == ()
    assert serving.close(5.0)


def test_ranks_pull_from_the_same_rank_each(host: Host, kind: str) -> None:
    peers = [host.serve(kind, 24, 64 * KIB, generation=rank) for rank in range(2)]
    pullers = [Puller(kind, 24, 64 * KIB) for _ in range(2)]
    for rank, (peer, puller) in enumerate(zip(peers, pullers, strict=True)):
        puller.copier.meet("p", 1, peer.description)
        puller.offer(range(24), "p", 1, range(24), generation=rank)
    tokens = [puller.fetch(range(24), range(24), range(24), rank) for rank, puller in enumerate(pullers)]
    for rank, (puller, token) in enumerate(zip(pullers, tokens, strict=True)):
        puller.done(token)
        assert puller.wrong(range(24), range(24), rank) == []
        assert puller.wrong(range(24), range(24), 1 - rank) == list(range(24))
        assert puller.close() == ()
    assert all(peer.ask("close") for peer in peers)


def test_one_part_may_have_blocks_of_two_peers(host: Host, kind: str) -> None:
    peers = [host.serve(kind, 8, 32 * KIB, generation=number) for number in range(2)]
    puller = Puller(kind, 8, 32 * KIB)
    for number, peer in enumerate(peers):
        puller.copier.meet(f"p{number}", 1, peer.description)
        puller.offer(range(number, 8, 2), f"p{number}", 1, range(number, 8, 2), generation=number)
    keys = [name(block, block % 2) for block in range(8)]
    puller.done(puller.submit(Kind.FETCH, range(8), range(8), keys))
    assert puller.wrong(range(0, 8, 2), range(0, 8, 2), 0) == []
    assert puller.wrong(range(1, 8, 2), range(1, 8, 2), 1) == []
    assert puller.close() == ()
    assert all(peer.ask("close") for peer in peers)


def test_a_peer_that_was_started_again_is_another_one(host: Host, kind: str) -> None:
    """Its blocks have the same numbers and other bytes; nothing is read in the name of the first."""
    first = host.serve(kind, 8, 64 * KIB, generation=1)
    puller = Puller(kind, 8, 64 * KIB)
    puller.copier.meet("p", 11, first.description)
    puller.offer(range(8), "p", 11, range(8), generation=1)
    puller.done(puller.fetch(range(8), range(8), range(8), 1))
    assert first.ask("close")
    second = host.serve(kind, 8, 64 * KIB, generation=2)
    puller.copier.meet("p", 12, second.description)
    puller.poison(range(8))
    before = puller.snapshot()
    old = puller.wait(puller.fetch(range(8), range(8), range(8), 1))
    assert (old.outcome, old.failures[0].code) == (Outcome.FAILED, Code.PEER_LOST)
    assert "life 12" in old.failures[0].message
    assert puller.snapshot() == before, "blocks of the second life were read for handles of the first"
    puller.offer(range(8), "p", 12, range(8), generation=2)
    puller.done(puller.fetch(range(8), range(8), range(8), 2))
    assert puller.wrong(range(8), range(8), 2) == []
    assert puller.close() == ()
    assert second.ask("close")


def test_what_does_not_fit_is_refused_when_it_is_described(kind: str) -> None:
    peer = make(kind, Memory([Pool("device", 0, 2, 4096)]))
    puller = Puller(kind, 2, 8192)
    with pytest.raises(DescriptionError, match="4096 bytes, and one here 8192"):
        puller.transport.connect("p", peer.describe())
    for bad in (
        b"",
        b"{}",
        b"[1]",
        peer.describe()[:-9],
        b"\xff" * 40,
        peer.describe().replace(b'"format":1', b'"format":2'),
    ):
        with pytest.raises(DescriptionError):
            puller.transport.connect("p", bad)
    puller.copier.meet("p", 1, peer.describe())
    puller.offer([0], "p", 1, [0])
    report = puller.wait(puller.fetch([0], [0], [0]))
    assert (report.outcome, report.failures[0].code) == (Outcome.FAILED, Code.PEER_LOST)
    assert "p in life 1" in puller.copier.take_troubles()[0]
    assert puller.close() == ()
    assert peer.close(5.0)


def test_a_block_that_the_peer_does_not_have_is_not_asked_for(host: Host, kind: str) -> None:
    with two(host, kind, 4, 4096) as (_, puller):
        puller.offer([0], "p", 1, [7])  # the peer's begin with 100
        report = puller.wait(puller.fetch([0], [0], [7]))
        assert (report.outcome, report.failures[0].code) == (Outcome.BROKEN, Code.BLOCK_NOT_FOUND)


def test_who_serves_nobody_pulls_and_is_not_pulled_from(host: Host, kind: str) -> None:
    """Nothing is there that would answer: no address in the description, no thread."""
    memory, before = Memory([Pool("device", 0, 4, 4096)]), set(threading.enumerate())
    transport = make(kind, memory, serves=False)
    assert set(threading.enumerate()) == before
    other = make(kind, Memory([Pool("device", 0, 4, 4096)]))
    assert set(threading.enumerate()) > before, "whoever serves has a thread, or this shows nothing"
    with pytest.raises(DescriptionError, match=r"serve \(peers\.serves\)"):
        other.connect("p", transport.describe())
    assert other.close(5.0)
    peer = host.serve(kind, 4, 4096)
    puller = Puller(kind, 4, 4096, transport=transport, memory=memory)
    puller.copier.meet("p", 1, peer.description)
    puller.offer([0, 1], "p", 1, [2, 3])
    puller.done(puller.fetch([0, 1], [3, 0], [2, 3]))
    assert puller.wrong([3, 0], [2, 3]) == []
    assert puller.close() == ()
    assert peer.ask("close")


def test_one_pull_may_go_from_and_to_several_pools(kind: str) -> None:
    """In whatever order: a transfer is cut where the pool changes, on either side."""

    def two_pools() -> Memory:
        return Memory([Pool("device", 0, 4, 4096), Pool("host", 10, 4, 4096)])

    theirs, ours = two_pools(), two_pools()
    numbers = [0, 1, 2, 3, 10, 11, 12, 13]
    for block in numbers:
        theirs.bytes_of(block)[:] = block + 1
        ours.bytes_of(block)[:] = 0
    peer, transport = make(kind, theirs), make(kind, ours, serves=False)
    line = transport.connect("p", peer.describe())
    remote, local = [0, 1, 10, 2, 11, 12, 13, 3], [13, 0, 1, 2, 3, 10, 11, 12]
    told = threading.Event()
    transfer = line.pull(remote, local, lambda _: told.set())
    assert told.wait(PATIENCE)
    assert transfer.state is State.DONE, transfer.failure
    found = {to: int(ours.bytes_of(to)[0]) for to in local}
    assert found == {to: from_ + 1 for from_, to in zip(remote, local, strict=True)}
    assert all((ours.bytes_of(to) == ours.bytes_of(to)[0]).all() for to in local)
    assert transport.close(5.0)
    assert peer.close(5.0)


def test_no_more_bytes_are_under_way_over_gloo_than_the_window_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gloo_serving, "WINDOW_BYTES", 128 << 10)
    under_way: list[int] = []
    most: list[int] = []
    send = Pair.send

    class Counted:
        def __init__(self, work: Any) -> None:
            self.work = work

        def wait(self, timeout: timedelta) -> None:
            self.work.wait(timeout)
            under_way.pop()

    def counting(self: Pair, data: torch.Tensor) -> Any:
        under_way.append(data.numel())
        most.append(sum(under_way))
        return Counted(send(self, data))

    monkeypatch.setattr(Pair, "send", counting)
    memory = Memory([Pool("device", 0, 32, 64 << 10)])
    write(memory, range(32), 0)
    peer = make("gloo", memory)
    puller = Puller("gloo", 32, 64 << 10)
    puller.copier.meet("p", 1, peer.describe())
    remote = list(range(0, 32, 2))
    puller.offer(range(16), "p", 1, remote)
    puller.done(puller.fetch(range(16), range(16), remote))
    assert puller.wrong(range(16), remote) == []
    assert max(most) == 128 << 10
    assert len(most) == 16
    assert puller.close() == ()
    assert peer.close(5.0)


def test_no_agent_of_nixl_polls_without_a_pause(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """NIXL's own thread would take a core for each of them, for as long as they live."""
    if not has_nixl():
        pytest.skip("NIXL is not installed, or does not run here; see docs/distributed.md")
    api, asked = bindings(), []
    configure = api.nixl_agent_config

    def told(**options: Any) -> Any:
        asked.append(options)
        return configure(**options)

    monkeypatch.setattr(api, "nixl_agent_config", told)
    with two(host, "nixl", 4, 4096) as (_, puller):
        puller.offer([0], "p", 1, [100])
        puller.done(puller.fetch([0], [0], [100]))
    assert len(asked) >= 2, "one that serves, and one that reads"
    assert [options for options in asked if options["enable_prog_thread"]] == []
