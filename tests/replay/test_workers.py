"""Replays whose copies are made in worker processes, a rank each, and in which workers are killed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Kind, Token
from kvstate.replay.config import ReplayConfig
from kvstate.replay.kills import Kills
from kvstate.replay.player import Player
from kvstate.replay.shard import Shard, builder, pack, unpack
from kvstate.replay.shards import Shards
from kvstate.replay.stack import ledger_config
from kvstate.replay.watch import Watch
from kvstate.runtime.inbox import Inbox
from tests.replay.runs import CHAOS, SMALL, no_measuring, replay, sound
from tests.runtime.parts import part

__all__ = ["no_measuring"]


# ---- One rank, in this process ---------------------------------------------------------------------------------------


@pytest.fixture
def shards() -> Iterator[list[Shard]]:
    """Two ranks."""
    config = ReplayConfig(workers=2, **SMALL)
    made = [Shard(config, ledger_config(config), rank) for rank in range(2)]
    yield made
    for shard in made:
        shard.copiers["cpu"].close(5.0)


def tell(shard: Shard, *command: Any) -> list[list[Any]]:
    """Give it a command; returns what it has to say."""
    shard.serve(pack(list(command)))
    return [unpack(answer) for answer in shard.answers()]


def test_each_rank_has_bytes_of_its_own(shards: list[Shard]) -> None:
    blocks, keys = [3, 4], [b"a" * 16, b"b" * 16]
    for shard in shards:
        assert tell(shard, "write", blocks, keys) == []
        assert tell(shard, "check", blocks, keys) == [], "what is right is not told"
        assert not (shard.memory.pools[0].array[3] == shard.memory.pools[0].array[4]).all()
    one, two = (shard.memory.pools[0].array for shard in shards)
    assert not (one[3] == two[3]).all()
    one[3] = two[3]
    assert tell(shards[0], "check", blocks, keys) == [["landed", 0.0, []], ["checked", 1]]
    assert tell(shards[1], "poison", [3], [7]) == []
    assert tell(shards[1], "check", blocks, keys)[1:] == [["checked", 1]]
    assert tell(shards[0], "sync", 5)[1:] == [["synced", 5]]
    with pytest.raises(KeyError):
        shards[0].serve(pack(["dance"]))


def test_a_landing_is_told_before_its_report(shards: list[Shard]) -> None:
    shard = shards[0]
    shard.copiers["cpu"].submit(part(Kind.STORE, [0], [200], [b"a" * 16]))
    assert shard.inbox.wait(30.0)
    (landed,) = [unpack(answer) for answer in shard.answers()]
    assert landed[0] == "landed"
    assert landed[2] == [[1, 1]]
    assert Token(*landed[2][0]) == shard.inbox.drain(1)[0].token


# ---- When they are killed --------------------------------------------------------------------------------------------


class Hospital:
    """A player that notices a kill some turns later."""

    def __init__(self) -> None:
        self.result = SimpleNamespace(workers_killed=0)
        self.ledger = SimpleNamespace(fatal=None)
        self.stalled = False
        self.killed: list[tuple[int, int]] = []
        self.now = 0
        self.stack = SimpleNamespace(hardware=SimpleNamespace(kill=self.kill))

    def kill(self, rank: int) -> None:
        assert len(self.killed) == self.result.workers_killed, "one at a time"
        self.killed.append((self.now, rank))

    def turn(self, wait: bool = False) -> None:
        self.result.workers_killed = len(self.killed)


def test_kills_are_spread_by_the_seed_and_come_one_at_a_time() -> None:
    def run(seed: int) -> list[tuple[int, int]]:
        hospital = Hospital()
        kills = Kills(ReplayConfig(workers=2, kill_workers=6, seed=seed), 100)
        for hospital.now in range(1, 101):
            kills.after(hospital.now, cast(Player, hospital))
            if hospital.now % 3 == 0:
                hospital.turn()
        kills.rest(cast(Player, hospital))
        return hospital.killed

    first = run(7)
    assert len(first) == 6
    assert {rank for _, rank in first} == {0, 1}
    assert run(7) == first != run(8)


def test_kills_that_are_due_after_the_last_request_come_all_the_same() -> None:
    hospital = Hospital()
    Kills(ReplayConfig(workers=1, kill_workers=3), 10).rest(cast(Player, hospital))
    assert len(hospital.killed) == 3


@pytest.mark.parametrize("state", ["stalled", "fatal"])
def test_a_run_that_is_over_kills_nobody(state: str) -> None:
    hospital = Hospital()
    hospital.stalled = state == "stalled"
    hospital.ledger.fatal = "poisoned" if state == "fatal" else None
    Kills(ReplayConfig(workers=1, kill_workers=3), 10).rest(cast(Player, hospital))
    assert hospital.killed == []


# ---- Processes -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wrong_bytes_of_one_rank_are_counted_when_it_has_looked() -> None:
    config = ReplayConfig(workers=2, **SMALL)
    pools = ledger_config(config)
    shards = Shards(config, pools, Watch(Ledger(pools)), Inbox())
    try:
        shards.write([1, 2], [b"a", b"b"])
        shards.check([1, 2], [b"a", b"b"])
        shards.settle()
        assert shards.wrong == 0
        shards._processes[1].tell(pack(["poison", [2], [0]]))
        shards.check([1, 2], [b"a", b"b"])
        shards.settle()
        assert (shards.wrong, shards.troubles) == (1, [])
    finally:
        shards.close()
    assert [process.process.exitcode for process in shards._processes] == [0, 0]


@pytest.mark.long
def test_a_run_with_workers_and_kills_is_sound() -> None:
    result = sound(replay(limit=500, workers=2, kill_workers=2, seed=5, **(SMALL | CHAOS)))
    assert result.workers_killed == 2
    assert result.leases_lost > 0
    assert result.stored_blocks > 0
    assert result.copy_gb_per_s > 0.0
    assert result.late_landings > 0, "the watch hears of landings in other processes"
    assert result.settings["workers"] == 2


@pytest.mark.long
def test_a_law_that_is_taken_out_is_missed_through_processes_too() -> None:
    result = replay(limit=400, workers=2, break_law="match-by-block", **(SMALL | CHAOS))
    assert result.violations > 0
    assert result.problems


def test_what_builds_a_worker_can_be_sent() -> None:
    import pickle

    config = ReplayConfig(workers=2, **SMALL)
    pools = ledger_config(config)
    assert pickle.loads(pickle.dumps(builder(config, pools))).args == (config, pools)
