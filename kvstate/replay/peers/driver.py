"""The parent of a replay with peers: starts the two processes, gives them requests, and kills and stops them.

Both are given every request. The prefill computes it and offers its blocks; the decode answers it, with the offer or
without. A process that was killed is started again under the same name, and is given again what it had not answered.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from random import Random
from typing import Final

from kvstate.replay.config import Progress
from kvstate.replay.peers.config import DECODE, LEASE, PATIENCE, PREFILL, RENEWALS, PeersConfig
from kvstate.replay.peers.node import main
from kvstate.replay.peers.result import PeersResult
from kvstate.replay.requests import requests_of
from kvstate.replay.trace import Request

WINDOW: Final = 48
"""So many requests are under way at once."""
STOPPED_SECONDS: Final = (0.2, 4.0)
"""A process that is stopped goes on after so long: less and more than a lease with the settings of a replay."""
STALLED_SECONDS: Final = 60.0
"""So long without an answer is an endless wait (law L7)."""
READY_SECONDS: Final = 60.0
"""A process that is not up by then never will be."""
END_SECONDS: Final = 90.0
"""So long the two may take to come home."""
LEASE_SECONDS: Final = LEASE * (RENEWALS + 1) + PATIENCE + STOPPED_SECONDS[1] + 5.0
"""No handoff takes longer: the whole lease, the last words, a stop of the process that counts, and a slow machine."""
LOOK_SECONDS: Final = 0.05
"""Between two looks at what has to be killed, stopped or let go on."""
TOLD: Final = 20
"""So many troubles are kept."""


class _Node:
    """One role, and the process that has it now."""

    def __init__(self, role: str, config: PeersConfig) -> None:
        self.role = role
        self.config = config
        self.life = 0
        self.address = ""
        self.pending: dict[int, Request] = {}
        """What it was given and has not answered."""
        self.process: BaseProcess
        self.pipe: Connection
        self.stopped_until = 0.0

    def start(self) -> None:
        """Another process; `address` is empty until it is up."""
        self.life += 1
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=main, args=(self.role, self.config, self.life, theirs), name=f"kvstate-{self.role}", daemon=True
        )
        self.process.start()
        theirs.close()
        self.address, self.stopped_until = "", 0.0

    def send(self, *words: object) -> None:
        """Tell it; a process that is gone hears nothing."""
        with suppress(BrokenPipeError, ConnectionResetError, OSError):
            self.pipe.send(words)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, number)

    def end(self) -> None:
        """Be sure that it is gone."""
        self.signal(signal.SIGKILL)
        self.process.join(5.0)
        self.pipe.close()


class _Run:
    """One run of the two."""

    def __init__(self, config: PeersConfig, result: PeersResult, total: int | None, progress: Progress) -> None:
        self.config, self.result, self.total, self.progress = config, result, total, progress
        self.nodes = {role: _Node(role, config) for role in (PREFILL, DECODE)}
        self.dice = Random(config.seed ^ 0xD1CE)
        self.last = time.monotonic()
        self.ended = 0
        expected = max(total or 1000, 1)
        self.kills = sorted(self.dice.randrange(1, expected) for _ in range(config.kill_peers)) if expected > 1 else []
        self.stops = sorted(self.dice.randrange(1, expected) for _ in range(config.stop_peers)) if expected > 1 else []

    # -- processes -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start both, and wait until they know of each other."""
        for node in self.nodes.values():
            node.start()
        until = time.monotonic() + READY_SECONDS
        while not all(node.address for node in self.nodes.values()) and not self.result.problems:
            self.hear(LOOK_SECONDS)
            if time.monotonic() > until:
                self.result.problems.append(f"the processes were not up after {READY_SECONDS:g} s")
        self.last = time.monotonic()

    def trouble(self) -> None:
        """Kill or stop one of the two, if it is time for that; let those go on that were stopped long enough."""
        now = time.monotonic()
        for node in self.nodes.values():
            if node.stopped_until and now > node.stopped_until:
                node.stopped_until = 0.0
                node.signal(signal.SIGCONT)
        answered = self.result.requests
        if self.kills and self.kills[0] <= answered and self._calm():
            self.kills.pop(0)
            node = self.nodes[self.dice.choice((PREFILL, DECODE))]
            self.result.kills[node.role] = self.result.kills.get(node.role, 0) + 1
            time.sleep(self.dice.random() * 0.05)
            self._again(node)
        if self.stops and self.stops[0] <= answered and self._calm():
            self.stops.pop(0)
            node = self.nodes[self.dice.choice((PREFILL, DECODE))]
            self.result.stops[node.role] = self.result.stops.get(node.role, 0) + 1
            node.signal(signal.SIGSTOP)
            node.stopped_until = now + self.dice.uniform(*STOPPED_SECONDS)

    def _calm(self) -> bool:
        return all(node.address and not node.stopped_until for node in self.nodes.values())

    def _again(self, node: _Node) -> None:
        """Kill it, start another under its name, and give it what this one had not answered."""
        node.end()
        node.start()
        self.result.resent += len(node.pending)
        node.send("serve", list(node.pending.values()))

    # -- requests ------------------------------------------------------------------------------------------------------

    def play(self, requests: Iterator[Request]) -> None:
        """Give out requests as others are answered, until all are."""
        while not self.result.problems:
            room = WINDOW - max(len(node.pending) for node in self.nodes.values())
            some = list(islice(requests, max(room, 0)))
            for node in self.nodes.values() if some else ():
                node.pending |= {request.line: request for request in some}
                node.send("serve", some)
            if not some and not any(node.pending for node in self.nodes.values()):
                break
            self.hear(LOOK_SECONDS)
            self.trouble()
            if time.monotonic() - self.last > STALLED_SECONDS:
                left = {role: sorted(node.pending)[:5] for role, node in self.nodes.items()}
                self.result.problems.append(f"L7: nothing was answered for {STALLED_SECONDS:g} s; waiting: {left}")

    def hear(self, seconds: float) -> None:
        """What the two say."""
        pipes = {node.pipe: node for node in self.nodes.values()}
        for pipe in wait(list(pipes), seconds):
            node = pipes[pipe]  # type: ignore[index]
            try:
                while node.pipe.poll():
                    self._said(node, *node.pipe.recv())
            except (EOFError, OSError):
                if node.role not in self.result.nodes:
                    code = node.process.exitcode
                    self.result.problems.append(f"the {node.role} ended by itself, with status {code}")
                    return

    def _said(self, node: _Node, word: str, value: object) -> None:
        match word:
            case "ready":
                node.address = str(value)
                other = self.nodes[DECODE if node.role == PREFILL else PREFILL]
                if other.address:
                    node.send("peer", other.role, other.address)
                    other.send("peer", node.role, node.address)
            case "prefilled" | "decoded":
                if node.pending.pop(value, None) is not None and word == "decoded":  # type: ignore[call-overload]
                    self.result.requests += 1
                    self.progress(self.result.requests, self.total)
                self.last = time.monotonic()
            case "wrong":
                self.result.wrong_bytes += 1
                self.result.problems += [f"{node.role}: {value}"] if self.result.wrong_bytes <= 5 else []
            case "trouble":
                self.result.troubles += [f"{node.role}: {value}"] if len(self.result.troubles) < TOLD else []
            case "result":
                assert isinstance(value, dict)
                self.result.nodes[node.role] = value
            case _:
                self.result.problems.append(str(value))

    def close(self) -> None:
        """End what still runs."""
        for node in self.nodes.values():
            if node.life:
                node.end()

    def come_home(self) -> None:
        """Have both end all that is under way, and say what they counted."""
        for node in self.nodes.values():
            node.signal(signal.SIGCONT)
            node.send("end")
        until = time.monotonic() + END_SECONDS
        while len(self.result.nodes) < len(self.nodes) and time.monotonic() < until:
            self.hear(LOOK_SECONDS)
            if any(not node.process.is_alive() for role, node in self.nodes.items() if role not in self.result.nodes):
                self.hear(LOOK_SECONDS)
                break


def run(config: PeersConfig, progress: Progress) -> PeersResult:
    """Replay as `config` says, and tell `progress` how far it is.

    Raises `TraceError` for a trace that can't be read; all else that goes wrong is a sentence in the result.
    """
    result = PeersResult(settings=config.as_dict())
    with ExitStack() as closing:
        total, requests = requests_of(config.trace, config.limit, config.seed, closing)
        requests = chain(list(islice(requests, 1)), requests)  # what is wrong with a trace shows before anything starts
        current = _Run(config, result, total, progress)
        closing.callback(current.close)
        current.start()
        start = time.monotonic()
        if not result.problems:
            current.play(requests)
        result.seconds = round(time.monotonic() - start, 3)
        current.come_home()
    judge(config, result)
    return result


def judge(config: PeersConfig, result: PeersResult) -> None:
    """What makes the run a failure."""
    for role in (PREFILL, DECODE):
        counted = result.nodes.get(role)
        if counted is None:
            result.problems.append(f"the {role} never said what it counted")
            continue
        result.leaked_blocks += counted.pop("leaked")
        result.quarantined_after_fence += counted.pop("quarantined")
        sentences = counted.pop("sentences")
        result.violations += len(sentences)
        result.problems += [f"{role}: {sentence}" for sentence in sentences]
        result.longest_handoff = max(result.longest_handoff, counted.pop("longest_handoff"))
    if result.leaked_blocks:
        result.problems.append(f"{result.leaked_blocks} blocks are held at the end by nobody")
    if result.quarantined_after_fence:
        result.problems.append(f"{result.quarantined_after_fence} blocks are in quarantine after the final fence")
    if result.wrong_bytes:
        result.problems.append(f"{result.wrong_bytes} blocks did not hold the bytes of their key")
    if result.longest_handoff > LEASE_SECONDS:
        result.violations += 1
        result.problems.append(f"L7: a handoff took {result.longest_handoff:g} s, and {LEASE_SECONDS:g} s is the most")
    if not result.requests:
        result.problems.append("there was no request to replay")
    for what, made, wanted in (("kill", result.kills, config.kill_peers), ("stop", result.stops, config.stop_peers)):
        if sum(made.values()) != wanted and not result.problems:
            result.problems.append(f"{sum(made.values())} of {wanted} {what}s came about; replay more requests")
