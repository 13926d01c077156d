"""Long runs over two processes: every byte of many blocks, and peers that are killed and stopped at random instants.

    python -m tests.transport.hazards --kind gloo --blocks 10000 --kib 64 --times 20

First all blocks are pulled and compared. Then, so many times each, a peer is killed, and stopped, at a random instant
of a pull that is under way. What must hold each time: no byte in a block whose part is done is another's; every part
is reported within its deadline and the grace of a cancel; after the last report no byte of ours moves, also when the
peer goes on; nothing is left in the copier; and no thread or socket more than before.

`Player` is what plays one of them, so that whoever builds on the copier can put a runtime in its place.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import NamedTuple, Protocol

from kvstate.machines.messages import Outcome, Token
from kvstate.runtime.memory import PAGE
from kvstate.runtime.peers.copier import GRACE_SECONDS
from tests.transport.harness import Host, Peer, Puller

PART = 64
"""Blocks of a part."""
DEADLINE = 2.0
"""Seconds after which what has not been reported is cancelled, as a ledger does."""
SLACK = 20.0
"""Seconds in which what was cancelled must be over; a busy machine needs some of them."""


class Ended(NamedTuple):
    """How a play ended: parts by outcome, and how long the last of them took."""

    outcomes: dict[str, int]
    seconds: float


class Player(Protocol):
    """Whoever pulls."""

    def pull(self, peer: Peer, blocks: Sequence[int], strike: Callable[[], None]) -> Ended:
        """Pull these blocks of the peer, with `strike` on its way, and see to it that all that is promised holds.
        Raises `AssertionError` if it does not."""
        ...

    def close(self) -> None:
        """End it; nothing may be left. Raises `AssertionError` if something is."""
        ...


class CopierPlayer:
    """The copier of a rank, with a deadline, as a ledger would give."""

    def __init__(self, kind: str, blocks: int, block_bytes: int) -> None:
        self.puller = Puller(kind, blocks, block_bytes)
        self.lives = 0
        self.watch = 0.3

    def pull(self, peer: Peer, blocks: Sequence[int], strike: Callable[[], None]) -> Ended:
        puller, begin = self.puller, perf_counter()
        self.lives += 1
        puller.copier.meet("p", self.lives, peer.description)
        puller.offer(range(len(blocks)), "p", self.lives, list(blocks), self.lives)
        puller.poison(range(len(blocks)))
        parts: dict[Token, range] = {}
        for at in range(0, len(blocks), PART):
            lines = range(at, min(at + PART, len(blocks)))
            parts[puller.fetch(lines, lines, [blocks[line] for line in lines], self.lives)] = lines
        strike()
        end = monotonic() + DEADLINE
        while len(puller.reports) < len(parts) and monotonic() < end:
            puller.inbox.wait(0.02)
            puller.hear()
        for token in parts.keys() - puller.reports.keys():
            puller.copier.cancel(token)
        outcomes: dict[str, int] = {}
        for token, lines in parts.items():
            report = puller.wait(token, GRACE_SECONDS + SLACK)
            outcomes[report.outcome] = outcomes.get(report.outcome, 0) + 1
            assert report.outcome in (Outcome.DONE, Outcome.FAILED, Outcome.CANCELLED), report
            if report.outcome == Outcome.DONE:
                bad = puller.wrong(lines, [blocks[line] for line in lines], self.lives)
                assert bad == [], f"part {token.serial} is done, and of its blocks these are wrong: {bad[:5]}"
        return Ended(outcomes, perf_counter() - begin)

    def settle(self) -> None:
        """Nothing of ours moves any more, and no report comes twice."""
        assert self.puller.untouched_for(self.watch), "bytes landed after the last report"
        self.puller.hear()
        assert all(len(reports) == 1 for reports in self.puller.reports.values())
        self.puller.reports.clear()

    def close(self) -> None:
        assert self.puller.close() == ()


def threads_and_sockets() -> tuple[int, int]:
    """Of this process."""
    links = []
    for one in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(one.readlink()))
        except OSError:
            links.append("")
    return threading.active_count(), sum(link.startswith("socket:") for link in links)


def everything(kind: str, blocks: int, block_bytes: int) -> Ended:
    """All blocks once, byte for byte, with sums."""
    host = Host()
    peer = host.serve(kind, blocks, block_bytes, generation=1)
    player = CopierPlayer(kind, blocks, block_bytes)
    order = list(range(blocks))
    random.Random(1).shuffle(order)
    global DEADLINE  # noqa: PLW0603 - all of it, however slow the machine is
    before, DEADLINE = DEADLINE, 600.0
    ended = player.pull(peer, order, lambda: None)
    DEADLINE = before
    assert set(ended.outcomes) == {"done"}, ended
    player.settle()
    player.close()
    host.kill()
    return ended


def struck(player: CopierPlayer, kind: str, blocks: int, block_bytes: int, how: int, chance: random.Random) -> Ended:
    """One peer that is killed or stopped at a random instant of a pull."""
    host = Host()
    peer = host.serve(kind, blocks, block_bytes, generation=player.lives + 1)
    wait = chance.random() * 0.3

    def strike() -> None:
        sleep(wait)
        host.signal(how)

    ended = player.pull(peer, range(blocks), strike)
    if how == signal.SIGSTOP:
        player.puller.poison(range(blocks))  # they have other owners now
        host.signal(signal.SIGCONT)
    player.settle()
    host.kill()
    return ended


def main(args: Sequence[str] | None = None) -> int:
    """All of it; the status says whether it held."""
    parser = argparse.ArgumentParser(prog="python -m tests.transport.hazards", description=__doc__)
    parser.add_argument("--kind", choices=("gloo", "nixl", "nixl-tcp"), default="gloo")
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--kib", type=int, default=64, help="of a block")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--struck-blocks", type=int, default=2_000, help="of a pull that is struck")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(args)
    os.environ.setdefault("UCX_LOG_LEVEL", "fatal")
    if chosen.kind == "nixl-tcp":
        os.environ["UCX_TLS"] = "tcp"
    kind, block_bytes = chosen.kind.partition("-")[0], max(chosen.kib << 10, PAGE)
    if chosen.blocks:
        ended = everything(kind, chosen.blocks, block_bytes)
        speed = chosen.blocks * block_bytes / ended.seconds / 1e9
        print(
            f"{chosen.kind}: {chosen.blocks} blocks of {chosen.kib} KiB, every byte right; {speed:.2f} GB/s", flush=True
        )
    chance, player = random.Random(chosen.seed), CopierPlayer(kind, chosen.struck_blocks, block_bytes)
    before = (0, 0)
    for how in (signal.SIGKILL, signal.SIGSTOP):
        total: dict[str, int] = {}
        longest = 0.0
        for number in range(chosen.times):
            ended = struck(player, kind, chosen.struck_blocks, block_bytes, how, chance)
            total = {word: total.get(word, 0) + ended.outcomes.get(word, 0) for word in total | ended.outcomes}
            longest = max(longest, ended.seconds)
            if number == 0 and how == signal.SIGKILL:
                before = threads_and_sockets()
        print(f"{chosen.kind}: {how.name} {chosen.times} times: parts {total}, the longest {longest:.2f} s", flush=True)
    after = threads_and_sockets()
    print(f"threads and sockets after the first and the last: {before}, {after}")
    assert after[0] <= before[0] + 2, "threads are left"
    assert after[1] <= before[1] + 4, "sockets are left"
    player.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
