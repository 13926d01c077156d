"""The main job from end to end: build the stack, play the trace, bring everything home, and say what was found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TextIO

import numpy as np

from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Ending
from kvstate.replay.breaks import break_law
from kvstate.replay.config import GENERATED_REQUESTS, Progress, ReplayConfig
from kvstate.replay.player import Player
from kvstate.replay.result import ReplayResult
from kvstate.replay.stack import Stack
from kvstate.replay.trace import Request, TraceError, TraceReader, count_lines
from kvstate.replay.workload import generate

__all__ = ["ReplayResult", "run"]

ENTERS_QUARANTINE = ("B22", "B27", "B36", "B39", "B42", "B63")
AUDITS = 12
"""So often are the books audited during a run, and once at the end."""
LONG = 3900
"""A run of so many requests has to race in earnest."""
HOME_SECONDS = 60.0
"""All must be at rest so long after the last request, or what is left is a leak."""


def run(config: ReplayConfig, progress: Progress) -> ReplayResult:
    """Replay as `config` says. Raises `TraceError` for a trace that can't be read; all else is in the result."""
    result = ReplayResult(hits={"device": 0, "host": 0}, settings=config.as_dict())
    with ExitStack() as closing:
        record = None
        if config.trace_out is not None:
            record = closing.enter_context(config.trace_out.open("w", encoding="utf-8"))
        total, requests = _requests(config, result, closing)
        stack = _stack(config, record)
        closing.callback(stack.copier.close, 5.0)
        player = Player(config, stack, result)
        start = time.perf_counter()
        _play(player, requests, total, progress)
        _bring_home(player)
        result.seconds = time.perf_counter() - start
        _count(player)
    _judge(config, stack, result)
    return result


def _stack(config: ReplayConfig, record: TextIO | None) -> Stack:
    return Stack(config, None if config.break_law is None else break_law(config.break_law), record)


def _requests(config: ReplayConfig, result: ReplayResult, closing: ExitStack) -> tuple[int | None, Iterator[Request]]:
    """The requests, and how many there are if that is known."""
    if config.trace is None:
        count = config.limit or GENERATED_REQUESTS
        return count, generate(count, config.seed)
    try:
        stream = closing.enter_context(config.trace.open("rb"))
    except OSError as error:
        raise TraceError(str(config.trace), 0, f"could not be opened: {error.strerror or error}") from error
    lines = count_lines(config.trace)
    reader = TraceReader(stream, str(config.trace), skip_bad=config.skip_bad)

    def limited() -> Iterator[Request]:
        for number, request in enumerate(reader, 1):
            result.skipped_lines = reader.skipped
            yield request
            if number == config.limit:
                break
        result.skipped_lines = reader.skipped

    return (lines if config.limit is None or lines is None else min(lines, config.limit)), limited()


def _play(player: Player, requests: Iterator[Request], total: int | None, progress: Progress) -> None:
    every = max(1, (total or 10_000) // AUDITS)
    for number, request in enumerate(requests, 1):
        player.play(request)
        if number % 64 == 0:
            progress(number, total)
            player.watch.forget_lives()
            player.relieve()
        if number % every == 0:
            player.watch.audit()
        if player.stalled or player.ledger.fatal is not None:
            break
    progress(player.admitted, total)


def _bring_home(player: Player) -> None:
    """End every request, let the copies end, fence, and see what is left."""
    stack, ledger = player.stack, player.ledger
    player.drain()
    until = stack.clock.now() + HOME_SECONDS
    while ledger.fatal is None and stack.clock.now() < until:
        player.turn(wait=True)
        if not (ledger.books.job_ids or ledger.books.load_ids):
            break
    if ledger.fatal is None:
        ledger.drain()
        stack.engine.fence()
        stack.note("fence")
        player.turn()
        ledger.shut()


def _count(player: Player) -> None:
    """Read off what the ledger, the watch and the copier counted."""
    result, ledger, watch = player.result, player.ledger, player.watch
    books = ledger.books
    watch.audit()
    if ledger.fatal is None:
        watch.untold(player.untold)
        for sentence in ledger.rest():
            watch.violation("L11.home", sentence)
    result.unique_blocks = len(player.unique)
    result.bytes_copied = watch.copied * player.config.block_bytes
    busy = player.stack.copier.seconds
    result.copy_gb_per_s = round(result.bytes_copied / busy / 1e9, 3) if busy else 0.0
    result.memcpy_gb_per_s = round(_memcpy(), 3)
    result.failures = dict(sorted(watch.failures.items()))
    result.retries = books.retries
    result.recomputes = result.loads.get(Ending.RECOMPUTE, 0)
    result.stale_reports = books.stale
    result.unknown_reports = books.unknown
    fired = ledger.fired()
    result.quarantined_blocks = sum(fired[row] for row in ENTERS_QUARANTINE)
    counts = [sum(pool.counts[state] for pool in books.pools) for state in B]
    result.quarantined_after_fence = counts[B.QUARANTINED]
    result.leaked_blocks = sum(counts) - counts[B.FREE] - counts[B.CACHED] - counts[B.QUARANTINED]
    result.violations = watch.violations
    result.reuses_after_drain = watch.reuses
    result.late_landings = len(watch.landed_late)
    result.drain_blocks_p99 = int(np.percentile(player.draining, 99)) if player.draining else 0
    result.rows_fired = sum(1 for count in fired.values() if count)
    result.rows_never_fired = [row for row, count in fired.items() if not count]


def _memcpy() -> float:
    """GB/s of one large copy between two buffers that were touched before."""
    source = np.ones(256 << 20, np.uint8)
    target = np.zeros_like(source)
    start = time.perf_counter()
    np.copyto(target, source)
    return float(source.nbytes / (time.perf_counter() - start) / 1e9)


def _judge(config: ReplayConfig, stack: Stack, result: ReplayResult) -> None:
    """What makes the run a failure."""
    problems = list(stack.watch.sentences)
    if not result.requests:
        problems.append("there was no request to replay")
    hidden = result.violations - len(problems)
    if hidden > 0:
        problems.append(f"and {hidden} violations more")
    if result.wrong_bytes:
        problems.append(f"{result.wrong_bytes} blocks did not hold the bytes of their key")
    if result.leaked_blocks:
        problems.append(f"{result.leaked_blocks} blocks are held at the end by nobody")
    if result.quarantined_after_fence:
        problems.append(f"{result.quarantined_after_fence} blocks are in quarantine after the final fence")
    if config.break_law is not None and not problems:
        problems.append(f"{config.break_law} was taken out and nobody noticed; a longer or wilder run may")
    if config.must_race and not problems:
        problems.extend(_no_race(config, result))
    result.problems = problems


def _at_least(expected: float) -> int:
    """What a count with this mean falls short of once in a thousand runs; and one, since none proves nothing."""
    return max(1, int(expected - 3 * expected**0.5))


def _no_race(config: ReplayConfig, result: ReplayResult) -> Iterator[str]:
    """A run in which little happened at once proves nothing. A short one is asked for what can be expected of it, and
    for one of each at the least."""
    requests = result.requests
    enough = requests >= LONG
    wanted = {
        "max_inflight_jobs": 50 if enough else max(2, requests // 78),
        "aborts_while_copying": 100 if enough else min(100, _at_least(requests * config.abort)),
        "reuses_after_drain": 100 if enough else max(1, requests // 39),
        "late_landings": 100 if enough else min(100, _at_least(requests * config.late / 2)),
    }
    for name, number in wanted.items():
        if getattr(result, name) < number:
            found = getattr(result, name)
            yield (
                f"the run proved nothing: {name} is {found}, {number} or more would count as a race; "
                "replay more, or give --no-race"
            )
