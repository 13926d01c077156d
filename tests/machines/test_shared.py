"""Shared pools: what others offer is announced and vanishes, a store is asked, and a hit there is a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.machines.messages import NO_REFS, Adopt, Failure, Kind
from kvstate.machines.verdicts import Announced, Ending, Refusal, Sought
from tests.machines.rig import SPACE, Rig, failure, key, keys

MakeRig = Callable[..., Rig]
STORE, PEER = 2, 3
FOUR = (
    PoolConfig("device", 4),
    PoolConfig("host", 4),
    PoolConfig("store", 3, durable=True, verify=True, copier="objects", shared=True),
    PoolConfig("peer", 2, verify=True, copier="peer", shared=True),
)


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    return make_rig(pools=FOUR)


def names(*numbers: int, space: str = SPACE) -> list[tuple[str, bytes]]:
    return [(space, key(number)) for number in numbers]


def announce(rig: Rig, *numbers: int, pool: int = PEER) -> Announced:
    told = rig.ledger.announce(pool, names(*numbers))
    assert isinstance(told, Announced), told
    return told


def seek(rig: Rig, lease: int, *numbers: int, deadline: float = 5.0) -> Sought:
    asked = rig.ledger.seek(lease, keys(*numbers), pool=STORE, deadline=deadline)
    assert isinstance(asked, Sought), asked
    return asked


def absent(*lines: int) -> tuple[Failure, ...]:
    return tuple(Failure(line, int(Code.BLOCK_NOT_FOUND), "lookup") for line in lines)


def pending(rig: Rig, lease: int, *numbers: int) -> bool:
    return rig.lookup(lease, *numbers).pending


def states(rig: Rig, *numbers: int, pool: int = PEER) -> list[str]:
    return [rig.key_state(number, pool) for number in numbers]


# --- Which pools can be shared --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pools", "sentence"),
    [
        (
            [PoolConfig("device", 1, verify=True, shared=True)],
            "pools: device is shared and it is the device; share a pool below the device, with verify = true",
        ),
        (
            [PoolConfig("device", 1), PoolConfig("peer", 1, shared=True)],
            "pools: peer is shared and its blocks are taken as read; share a pool below the device, with verify = true",
        ),
    ],
)
def test_a_pool_that_cant_be_shared(pools: list[PoolConfig], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        LedgerConfig(pools=tuple(pools))
    assert str(refused.value) == sentence


@pytest.mark.parametrize("pool", [-1, 0, 1, 4])
def test_only_a_shared_pool_is_announced_to(rig: Rig, pool: int) -> None:
    rig.refuses(lambda: rig.ledger.announce(pool, names(1)), f"pool {pool} is no shared pool")
    rig.refuses(lambda: rig.ledger.vanish(pool, names(1)), f"pool {pool} is no shared pool")


@pytest.mark.parametrize("pool", [-1, 0, 1, 3, 4])
def test_only_a_store_is_asked(rig: Rig, pool: int) -> None:
    lease = rig.open()
    rig.refuses(
        lambda: rig.ledger.seek(lease, keys(1), pool=pool, deadline=1.0),
        f"pool {pool} can't be asked; a pool that is shared and durable can",
    )


def test_nothing_is_stored_with_a_peer(rig: Rig) -> None:
    lease, refs = rig.sealed(1)
    rig.refuses(lambda: rig.ledger.offload(lease, refs, pool=PEER), "pool 3 is what others offer")
    rig.offload(lease, refs, pool=STORE)
    rig.finish_all()
    assert states(rig, 1, pool=STORE) == ["ready"]


@pytest.mark.parametrize("bad", [None, [key(1)], [("", key(1))], [(SPACE, b"")], [(SPACE, "k")], [(SPACE,)]])
def test_names_that_are_none(rig: Rig, bad: Any) -> None:
    for ask in (rig.ledger.announce, rig.ledger.vanish):
        answer = ask(PEER, bad)
        assert isinstance(answer, Refusal)
    assert rig.ledger.fatal is None


# --- Announced ------------------------------------------------------------------------------------------------------


def test_what_is_announced_is_a_hit_and_loaded_and_verified(make_rig: MakeRig) -> None:
    rig = make_rig(pools=FOUR, ranks=2)
    told = announce(rig, 1, 2)
    assert told.lines == (0, 1)
    blocks = tuple(ref.block for ref in told.refs)
    adopts = [Adopt(rank, "peer", blocks, (SPACE, SPACE), (key(1), key(2))) for rank in (0, 1)]
    assert rig.effects() == adopts, "and no sweep: what is there is not ours to remove"
    assert [rig.state(block) for block in blocks] == ["cached", "cached"]
    lease = rig.open()
    hit = rig.lookup(lease, 1, 2)
    assert (hit.tokens, hit.below, hit.blocks) == (32, (0, 1), told.refs)
    rig.load(lease, hit)
    works = rig.works()
    assert [(work.kind, work.copier, work.src) for work in works] == [(Kind.FETCH, "peer", blocks)] * 2
    for work in works:
        rig.report(work)
    checks = rig.works()
    assert [work.kind for work in checks] == [Kind.VERIFY] * 2
    rig.finish_all_of(checks)
    assert rig.verdict().tokens == 32
    assert states(rig, 1, 2, pool=0) == ["ready", "ready"]


def test_an_announcement_is_true_even_where_nothing_is_new(rig: Rig) -> None:
    announce(rig, 1)
    rig.effects()
    again = announce(rig, 1)
    assert again
    assert again == (NO_REFS, ())
    assert rig.effects() == []


def test_what_is_known_stays_and_what_is_listed_twice_counts_once(rig: Rig) -> None:
    told = announce(rig, 1, pool=STORE)
    [first] = told.refs
    rig.effects()
    more = announce(rig, 2, 1, 2, pool=STORE)
    assert more.lines == (0,), "of what is listed twice the first place counts: it is nearer to the head"
    assert rig.books.ref(first.block) == first
    [adopt] = rig.effects()
    assert adopt.keys == (key(2),)  # type: ignore[union-attr]


def test_an_announcement_of_two_spaces(rig: Rig) -> None:
    told = rig.ledger.announce(PEER, [("b", key(1)), (SPACE, key(1))])
    assert told.lines == (0, 1)  # type: ignore[union-attr]
    [adopt] = rig.effects()
    assert (adopt.spaces, adopt.keys) == (("b", SPACE), (key(1), key(1)))  # type: ignore[union-attr]
    assert rig.lookup(rig.open("b"), 1).blocks == told.refs[:1]  # type: ignore[union-attr]


def test_where_there_is_no_room_the_oldest_leaves_and_the_tail_is_left_out(rig: Rig) -> None:
    announce(rig, 1, 2)
    told = announce(rig, 3, 4, 5)
    assert told.lines == (0, 1)
    assert states(rig, 1, 2, 3, 4, 5) == ["absent", "absent", "ready", "ready", "absent"]
    announce(rig, 6)
    assert states(rig, 3, 4, 6) == ["ready", "absent", "ready"], "of a prefix the tail is evicted before the head"


def test_nothing_is_evicted_that_is_announced_along(rig: Rig) -> None:
    announce(rig, 1)
    announce(rig, 2)
    assert announce(rig, 1, 3).lines == (1,)
    assert states(rig, 1, 2, 3) == ["ready", "absent", "ready"]
    assert announce(rig, 1, 3, 4).lines == (), "both are of this very announcement"
    assert states(rig, 1, 3, 4) == ["ready", "ready", "absent"]
    assert rig.column("block", "owners") == [0] * 13


def test_what_is_pinned_stays_whatever_is_announced(rig: Rig) -> None:
    announce(rig, 1, 2)
    rig.lookup(rig.open(), 1, 2)
    assert announce(rig, 3).lines == ()


def test_an_announcement_to_a_pool_without_blocks(make_rig: MakeRig) -> None:
    rig = make_rig(pools=(PoolConfig("device", 1), PoolConfig("peer", 0, verify=True, shared=True)))
    assert announce(rig, 1, pool=1).lines == ()


def test_a_long_announcement_goes_out_in_parts(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstate.machines.shareds.LINES", 2)
    rig = make_rig(pools=FOUR)
    announce(rig, 1, 2, 3, pool=STORE)
    assert [adopt.keys for adopt in rig.effects()] == [(key(1), key(2)), (key(3),)]  # type: ignore[union-attr]


def test_a_condemned_key_is_believed_again_when_it_is_announced_again(rig: Rig) -> None:
    announce(rig, 1)
    lose(rig, 1)
    assert states(rig, 1) == ["condemned"]
    assert announce(rig, 1).lines == (0,)
    assert states(rig, 1) == ["ready"]


def test_what_a_job_writes_is_not_announced(rig: Rig) -> None:
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs, pool=STORE)
    assert announce(rig, 1, pool=STORE).lines == ()
    rig.finish_all()
    assert states(rig, 1, pool=STORE) == ["ready"]


def test_a_draining_ledger_takes_no_announcement(rig: Rig) -> None:
    rig.ledger.drain()
    rig.refuses(lambda: rig.ledger.announce(PEER, names(1)), "the ledger is draining and takes no new work")


# --- A hint that was wrong ------------------------------------------------------------------------------------------


def lose(rig: Rig, number: int, code: Code = Code.BLOCK_NOT_FOUND) -> Any:
    """A load of the key from a shared pool finds nothing; returns the verdict."""
    rig.effects()
    lease = rig.open()
    hit = rig.lookup(lease, number)
    rig.load(lease, hit)
    [fetch] = [work for work in rig.works() if work.kind == Kind.FETCH]
    rig.report(fetch, "broken", failure(code, 0))
    rig.ledger.finish(lease)
    return rig.verdict()


def test_a_hit_that_is_gone_fails_by_its_code_and_is_no_hit_again(rig: Rig) -> None:
    announce(rig, 1)
    verdict = lose(rig, 1)
    assert (verdict.ending, verdict.tokens) == (Ending.RECOMPUTE, 0)
    assert [error.code for error in verdict.errors] == [Code.BLOCK_NOT_FOUND]
    assert rig.lookup(rig.open(), 1).tokens == 0


def test_bytes_that_are_others_are_found_by_the_check(rig: Rig) -> None:
    announce(rig, 1)
    rig.effects()
    lease = rig.open()
    rig.load(lease, rig.lookup(lease, 1))
    [fetch] = rig.works()
    rig.report(fetch)
    [check] = rig.works()
    rig.report(check, "broken", failure(Code.KEY_MISMATCH, 0))
    assert rig.verdict().tokens == 0
    assert states(rig, 1) == ["condemned"]
    assert states(rig, 1, pool=0) == ["absent"]


# --- Gone -----------------------------------------------------------------------------------------------------------


def test_what_vanishes_is_a_miss_and_its_block_is_free(rig: Rig) -> None:
    told = announce(rig, 1, 2)
    rows = rig.fires(lambda: rig.ledger.vanish(PEER, names(1)))
    assert "K14" in rows
    assert states(rig, 1, 2) == ["absent", "ready"]
    assert rig.state(told.refs[0].block) == "free"
    assert rig.ledger.vanish(PEER, names(1, 2, 9)) == 1
    assert rig.ledger.vanish(PEER, names(1, 2)) == 0
    assert rig.effects()[1:] == [], "nobody is told but by the next adoption"


def test_a_cooling_key_vanishes_and_its_timer_wakes_nobody(rig: Rig) -> None:
    announce(rig, 1)
    rig.effects()
    lease = rig.open()
    load, _ = rig.load(lease, rig.lookup(lease, 1), deadline=1.0)
    rig.ledger.cancel(load)
    rig.tick(5.0)
    assert states(rig, 1) == ["cooling"]
    assert rig.ledger.vanish(PEER, names(1)) == 1
    rig.tick(10.0)
    assert states(rig, 1) == ["absent"]


def test_a_load_goes_on_when_its_key_vanishes_and_the_block_waits_for_it(rig: Rig) -> None:
    told = announce(rig, 1)
    rig.effects()
    lease = rig.open()
    rig.load(lease, rig.lookup(lease, 1))
    assert rig.ledger.vanish(PEER, names(1)) == 1
    assert rig.state(told.refs[0].block) != "free"
    rig.finish_all()
    assert rig.verdict().tokens == 16, "the bytes came, and were looked at"
    assert states(rig, 1, pool=0) == ["ready"]
    assert rig.state(told.refs[0].block) == "free"


def test_a_late_report_of_a_vanished_key_condemns_nobody(rig: Rig) -> None:
    announce(rig, 1)
    rig.effects()
    lease = rig.open()
    rig.load(lease, rig.lookup(lease, 1))
    rig.ledger.vanish(PEER, names(1))
    announce(rig, 1)
    [fetch] = rig.works()
    rig.report(fetch, "broken", failure(Code.BLOCK_NOT_FOUND, 0))
    assert states(rig, 1) == ["ready"], "this one is another life"


def test_what_is_condemned_or_written_is_not_asked(rig: Rig) -> None:
    announce(rig, 1)
    lose(rig, 1)
    assert rig.ledger.vanish(PEER, names(1)) == 0
    lease, refs = rig.sealed(2)
    rig.offload(lease, refs, pool=STORE)
    assert rig.ledger.vanish(STORE, names(2)) == 0
    assert (states(rig, 1), states(rig, 2, pool=STORE)) == (["condemned"], ["writing"])


def test_what_vanishes_while_it_drains(rig: Rig) -> None:
    announce(rig, 1)
    rig.ledger.drain()
    assert rig.ledger.vanish(PEER, names(1)) == 1
