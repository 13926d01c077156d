"""A rank is gone: everything that it held is given up, and what others still touch drains."""

from __future__ import annotations

from kvstate.errors import Code
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Failure, Outcome, Report, Work
from kvstate.machines.ranks import RankLost, rank_lost
from kvstate.machines.verdicts import Ending, Grant, JobVerdict, Refusal, Short, Stored

POOLS = (PoolConfig("device", 2), PoolConfig("host", 2), PoolConfig("slab", 2, copier="slow"))


def two_ranks() -> tuple[Ledger, int, list[Work]]:
    """A store of one block is under way on both ranks, in either lower pool."""
    ledger = Ledger(LedgerConfig(POOLS, ranks=2))
    lease = ledger.open("a")
    assert isinstance(lease, int)
    grant = ledger.allocate(lease, 1)
    assert isinstance(grant, Grant)
    assert ledger.seal(lease, grant.blocks, [b"k"]) == (True,)
    for pool in (1, 2):
        assert isinstance(ledger.offload(lease, grant.blocks, pool=pool), Stored)
    works = [effect for effect in ledger.take_effects() if isinstance(effect, Work)]
    assert [(work.rank, work.copier) for work in works] == [(0, "cpu"), (1, "cpu"), (0, "slow"), (1, "slow")]
    return ledger, lease, works


def test_leases_keys_and_parts_are_given_up() -> None:
    ledger, lease, works = two_ranks()
    assert rank_lost(ledger, 1) == RankLost((lease,), 1, 2)
    assert not ledger.lookup(lease, [b"k"])
    other = ledger.open("a")
    assert isinstance(other, int)
    assert not ledger.lookup(other, [b"k"])
    assert ledger.allocate(other, 2) == Short(2, 1, 1, 0), "rank 0 still reads the block"
    for work in works:
        ledger.report(Report(work.token, Outcome.DONE))
    assert ledger.books.stale == 2, "two of them were over"
    endings = [verdict.ending for verdict in ledger.take_verdicts() if isinstance(verdict, JobVerdict)]
    assert endings == [Ending.CANCELLED] * 2
    assert isinstance(ledger.allocate(other, 2), Grant)
    assert ledger.fatal is None


def test_a_rank_that_there_is_not_is_refused() -> None:
    ledger, lease, _ = two_ranks()
    for rank in (-1, 2):
        refused = rank_lost(ledger, rank)
        assert isinstance(refused, Refusal)
        assert refused.reason == f"there is no rank {rank}; the ledger counts 2, from 0 up"
    assert list(ledger.books.leases) == [lease]


def test_a_poisoned_ledger_frees_nothing() -> None:
    ledger, lease, works = two_ranks()
    broken = Failure(-1, int(Code.DEVICE_ERROR), "write")
    ledger.report(Report(works[0].token, Outcome.DENIED, (broken,)))
    states = ledger.books.block_state[:]
    refused = rank_lost(ledger, 1)
    assert isinstance(refused, Refusal)
    assert "poisoned" in refused.reason
    assert ledger.books.block_state == states
    assert list(ledger.books.leases) == [lease]


def test_nothing_under_way_is_nothing_to_prove() -> None:
    ledger = Ledger(LedgerConfig(POOLS, ranks=2))
    assert rank_lost(ledger, 0) == RankLost((), 0, 0)
