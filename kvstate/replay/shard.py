"""What runs in a worker process of a replay: one rank's piece of every block, its copiers, and the model beside them.

The model's commands come over the same pipe as the effects, and are done in the order in which they were sent: what a
step writes is there before a copy that waited for the step can begin. Each rank's bytes are its own: the words of a
block name key *and* rank, so that a piece which reaches another rank is seen.

    down   write blocks keys | poison blocks generations | check blocks keys | sync number
    up     landed seconds tokens | checked wrong | synced number
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import msgspec

from kvstate.machines.config import LedgerConfig
from kvstate.machines.messages import Token, Work
from kvstate.replay.chaos import Chaos
from kvstate.replay.chaos_copiers import ChaosThreadCopier
from kvstate.replay.config import ReplayConfig
from kvstate.replay.content import check_many, poison_many, write_many
from kvstate.replay.hardware import chaos_of, memory_of, tiers_below
from kvstate.replay.store import AnyCopier
from kvstate.runtime.clock import RealClock
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.processes import Build, Guest
from kvstate.runtime.worker import Worker

pack = msgspec.msgpack.Encoder().encode
"""A command or an answer as bytes: a list of a word and what it is about."""
unpack = msgspec.msgpack.Decoder().decode
"""And back."""


def builder(config: ReplayConfig, ledger: LedgerConfig) -> Build:
    """What makes the worker of a rank in its process."""
    return partial(_build, config, ledger)


def _build(config: ReplayConfig, ledger: LedgerConfig, rank: int, incarnation: int) -> Guest:
    shard = Shard(config, ledger, rank)
    worker = Worker(rank, incarnation, shard.copiers, shard.inbox)
    return Guest(worker, shard.serve, shard.answers)


class Shard:
    """See the module. One thread serves; copier threads only say that they are about to move bytes."""

    def __init__(self, config: ReplayConfig, ledger: LedgerConfig, rank: int) -> None:
        """Makes the memory and starts the threads of the copiers."""
        self.inbox = Inbox()
        """Where the copier reports."""
        self.memory = memory_of(config)
        """This rank's piece of every block."""
        self._array = self.memory.pools[0].array
        self._rank = bytes([rank])
        self._said: list[bytes] = []
        self._landed: deque[Token] = deque()
        chaos, integrity = chaos_of(config), Integrity(config.integrity)
        self.copiers: dict[str, AnyCopier] = {}
        """By name: in threads, with a fate for each part if anything may go wrong."""
        hooks: dict[str, Any] = {"on_land": self._on_land}
        self.copiers.update(tiers_below(config, ledger, self.memory, rank, self.inbox, RealClock(), hooks))
        if chaos == Chaos(seed=config.seed):
            self.copiers["cpu"] = ThreadCopier(
                self.memory, self.inbox, config.concurrency, integrity=integrity, on_land=self._on_land
            )
        else:
            self.copiers["cpu"] = ChaosThreadCopier(
                self.memory, self.inbox, RealClock(), chaos, config.concurrency, integrity=integrity,
                on_land=self._on_land,
            )  # fmt: skip

    def _on_land(self, work: Work, when: float) -> None:  # noqa: ARG002 - a hook of the copiers
        self._landed.append(work.token)

    def serve(self, message: bytes) -> None:
        """Do what the model is told. A command that there is not is a mistake of the program: `KeyError`."""
        word, *rest = unpack(message)
        _COMMANDS[word](self, *rest)

    def answers(self) -> list[bytes]:
        """What is to be sent up: first which copies have begun to move bytes. Each is told before its report."""
        landed = self._landed
        tokens = [landed.popleft() for _ in range(len(landed))]
        said, self._said = self._said, []
        seconds = sum(copier.seconds for copier in self.copiers.values())
        return [pack(["landed", seconds, tokens]), *said] if tokens or said else []

    def _write(self, blocks: list[int], keys: list[bytes]) -> None:
        write_many(self._array, blocks, self._keys(keys))

    def _poison(self, blocks: list[int], generations: list[int]) -> None:
        poison_many(self._array, blocks, blocks, generations)

    def _check(self, blocks: list[int], keys: list[bytes]) -> None:
        wrong = len(check_many(self._array, blocks, self._keys(keys)))
        if wrong:
            self._said.append(pack(["checked", wrong]))

    def _sync(self, number: int) -> None:
        self._said.append(pack(["synced", number]))

    def _keys(self, keys: list[bytes]) -> list[bytes]:
        return [key + self._rank for key in keys]


_COMMANDS: dict[str, Any] = {
    "write": Shard._write,  # noqa: SLF001 - its own
    "poison": Shard._poison,  # noqa: SLF001
    "check": Shard._check,  # noqa: SLF001
    "sync": Shard._sync,  # noqa: SLF001
}
"""By the word that a command begins with."""
