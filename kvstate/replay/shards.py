"""The memory of a replay in worker processes, a rank each, and what happens when one of them is killed.

The watch hears of each landing when the message about it comes, which is later than it happened and still soon enough:
a worker says that a copy begins to move bytes before it does, and reports after that, over one pipe. A block whose copy
has not been reported may not have begun another life by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Final

from kvstate.machines.config import LedgerConfig
from kvstate.machines.messages import Report, Token
from kvstate.replay.chaos_copiers import VirtualCopier
from kvstate.replay.config import ReplayConfig
from kvstate.replay.shard import builder, pack, unpack
from kvstate.replay.watch import Watch
from kvstate.runtime.dispatcher import Link
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.processes import FENCE_SECONDS, Build, ProcessLink

READY_SECONDS: Final = 120.0
"""For a process to start and touch its memory, on a machine that has other things to do."""
SYNC_SECONDS: Final = 60.0
"""For a worker to do what it was told so far."""
STOP_SECONDS: Final = 10.0
"""For a worker to end by itself."""


class Shards:
    """As `hardware.Hardware`, in `config.workers` processes.

    Errors: `RuntimeError` where a process does not start or does not answer.
    """

    def __init__(self, config: ReplayConfig, ledger: LedgerConfig, watch: Watch, inbox: Inbox) -> None:
        """Starts the processes and waits until they are there."""
        self.wrong = 0
        """As in `Hardware`."""
        self._build = builder(config, ledger)
        self._watch = watch
        self._inbox = inbox
        self._seconds: dict[tuple[int, int], float] = {}
        self._synced = 0
        self._syncs: dict[int, int] = {}
        self._processes = [self._start(rank, 1) for rank in range(config.workers)]
        try:
            for process in self._processes:
                _wait_for(process)
        except BaseException:
            self.close()
            raise

    @property
    def links(self) -> Sequence[Link]:
        """As in `Hardware`."""
        return self._processes

    @property
    def virtual(self) -> Sequence[VirtualCopier]:
        """As in `Hardware`: none."""
        return ()

    @property
    def seconds(self) -> float:
        """As in `Hardware`; of a process that was killed, as far as it had told."""
        return sum(self._seconds.values())

    @property
    def troubles(self) -> list[str]:
        """What the workers could not do, a sentence each; none in a run that went well."""
        return [sentence for process in self._processes for sentence in process.troubles]

    def write(self, blocks: Sequence[int], keys: Sequence[bytes]) -> None:
        """As in `Hardware`; each rank its own piece."""
        self._tell(pack(["write", list(blocks), list(keys)]))

    def poison(self, blocks: Sequence[int], generations: Sequence[int]) -> None:
        """As in `Hardware`."""
        self._tell(pack(["poison", list(blocks), list(generations)]))

    def check(self, blocks: Sequence[int], keys: Sequence[bytes]) -> None:
        """As in `Hardware`; the workers look when they come to it, before anything that was sent later."""
        self._tell(pack(["check", list(blocks), list(keys)]))

    def hear(self, report: Report) -> None:  # noqa: ARG002 - of whichever report it is
        """What any worker said before this report came."""
        for process in self._processes:
            if process.answers:
                self._listen(process)

    def kill(self, rank: int) -> None:
        """SIGKILL; noticed in a later turn of the engine."""
        self._processes[rank].kill()

    def restart(self, rank: int) -> Link:
        """Another process, in the next life of that rank. What the old one said and nobody has read is forgotten: it
        speaks of lives of blocks that are over.
        """
        old = self._processes[rank]
        old.stop(0.0)
        self._processes[rank] = self._start(rank, old.incarnation + 1)
        _wait_for(self._processes[rank])
        return self._processes[rank]

    def settle(self) -> None:
        """As in `Hardware`: each worker says that it has come so far."""
        self._synced += 1
        self._tell(pack(["sync", self._synced]))
        end = monotonic() + SYNC_SECONDS
        for process in self._processes:
            while self._syncs.get(process.rank) != self._synced:
                if process.lost or monotonic() > end:
                    raise RuntimeError(f"rank {process.rank} did not do what it was told; {process.lost or 'it hangs'}")
                self._inbox.wait(0.05, partial(bool, process.answers))
                self._listen(process)

    def close(self) -> None:
        """As in `Hardware`."""
        for process in self._processes:
            process.stop(STOP_SECONDS)

    def _start(self, rank: int, incarnation: int) -> _Watched:
        return _Watched(self._build, rank, incarnation, self._inbox, self._listen)

    def _tell(self, message: bytes) -> None:
        for process in self._processes:
            process.tell(message)

    def _listen(self, process: ProcessLink) -> None:
        while process.answers:
            word, *rest = unpack(process.answers.popleft())
            match word:
                case "landed":
                    seconds, tokens = rest
                    self._seconds[process.rank, process.incarnation] = seconds
                    for token in tokens:
                        self._watch.on_landing(Token(*token))
                case "checked":
                    self.wrong += rest[0]
                case _:
                    self._syncs[process.rank] = rest[0]


class _Watched(ProcessLink):
    """A process of whose landings the watch hears before the ledger hears of a proof that they are over."""

    def __init__(
        self, build: Build, rank: int, incarnation: int, inbox: Inbox, listen: Callable[[ProcessLink], None]
    ) -> None:
        self._listen = listen
        super().__init__(build, rank, incarnation, inbox)

    @property
    def lost(self) -> str:
        """What it said before it died is heard before anybody acts on its death: later its blocks have other lives."""
        why = super().lost
        if why:
            self._listen(self)
        return why

    def fence(self, within: float = FENCE_SECONDS) -> Iterator[tuple[str, int]]:
        proved = list(super().fence(within))
        self._listen(self)
        yield from proved


def _wait_for(process: ProcessLink) -> None:
    if not process.ready(READY_SECONDS):
        why = process.lost or "it is not ready"
        raise RuntimeError(f"the worker of rank {process.rank} did not start: {'; '.join([why, *process.troubles])}")
