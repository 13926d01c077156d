"""The main job from end to end: build the stack, play the trace, bring everything home, and say what was found."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

import numpy as np

from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Ending
from kvstate.replay.breaks import break_law
from kvstate.replay.config import Progress, ReplayConfig
from kvstate.replay.kills import Kills
from kvstate.replay.player import Player
from kvstate.replay.requests import requests_of
from kvstate.replay.result import ReplayResult
from kvstate.replay.series import Series
from kvstate.replay.serving import Serving
from kvstate.replay.stack import Stack
from kvstate.replay.trace import Request

__all__ = ["ReplayResult", "run"]

ENTERS_QUARANTINE: Final = ("B22", "B27", "B36", "B39", "B42", "B63")
"""The rows of `block.toml` that lead into quarantine from another state."""
AUDITS: Final = 12
"""So often are the books audited during a run, and once at the end."""
LONG: Final = 3900
"""A run of so many requests has to race in earnest."""
HOME_SECONDS: Final = 60.0
"""All must be at rest so long after the last request, or what is left is a leak."""
COLLECT_EVERY: Final = 50_000
"""So many objects are made before Python looks for cycles among them; by default it is 700."""
MEMCPY_BYTES: Final = 64 << 20
"""How much is copied to see what this machine can do: more than its caches hold, and no more, since the first touch of
fresh memory takes ten times as long as the copy."""


def run(config: ReplayConfig, progress: Progress) -> ReplayResult:
    """Replay as `config` says, and tell `progress` how far it is.

    Raises `TraceError` for a trace that can't be read, `ConfigError` of the machines for a disk or
    a store that can't be used, and
    `OSError` where a record can't be written; all else that goes wrong is a sentence in the result. With `kill_after`
    it may not return at all.
    """
    below = {"disk": config.disk, "store": config.store}
    tiers = ("device", "host", *[name for name, given in below.items() if given is not None])
    result = ReplayResult(hits=dict.fromkeys(tiers, 0), settings=config.as_dict())
    with ExitStack() as closing:
        record = None
        if config.trace_out is not None:
            record = closing.enter_context(config.trace_out.open("w", encoding="utf-8"))
        total, requests = requests_of(
            config.trace, config.limit, config.seed, closing, skip_bad=config.skip_bad,
            skipped=partial(setattr, result, "skipped_lines"),
        )  # fmt: skip
        broken = None if config.break_law is None else break_law(config.break_law)
        stack = Stack(config, broken, record)
        closing.callback(stack.close)
        if config.disk is not None:
            result.recovered = _recovered(stack)
        player = Player(config, stack, result)
        closing.enter_context(_few_collections())
        closing.enter_context(_killed_after(config.kill_after))
        series = Series(stack.ledger, stack.watch, result, config.block_bytes * max(1, config.workers))
        start = time.perf_counter()
        _play(config, player, requests, total, progress, series)
        _bring_home(player)
        series.look(stack.clock.now())
        result.seconds = time.perf_counter() - start
        _count(config, stack, player.serving, result)
    _judge(config, stack, result)
    if config.report is not None:
        from kvstate.replay.report import write_report

        write_report(config.report, result, series)
    return result


@contextmanager
def _few_collections() -> Iterator[None]:
    """Look for cycles seldom, and not in what was there before: a run makes millions of values and next to no cycles.

    Else up to a tenth of the time goes into passes over all keys, and over the modules of torch.
    """
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()


@contextmanager
def _killed_after(seconds: float | None) -> Iterator[None]:
    """End this process in the middle of whatever it does then, unless it has come out of here."""
    end = threading.Timer(seconds or 0.0, os.kill, (os.getpid(), signal.SIGKILL))
    end.daemon = True
    if seconds is not None:
        end.start()
    try:
        yield
    finally:
        end.cancel()


def _recovered(stack: Stack) -> dict[str, int]:
    """What the disk held when the run began."""
    found = stack.engine.recoveries.done["disk"]
    return {name: value for name, value in found._asdict().items() if name != "pool"}


def _play(
    config: ReplayConfig, player: Player, requests: Iterator[Request], total: int | None, progress: Progress,
    series: Series,
) -> None:  # fmt: skip
    watch = player.stack.watch
    every = max(1, (total or 10_000) // AUDITS)
    kills = Kills(config, total or 1000)
    for number, request in enumerate(requests, 1):
        player.play(request)
        kills.after(number, player)
        series.look(player.stack.clock.now())
        if number % 64 == 0:
            progress(number, total)
            watch.forget_lives()
            player.relieve()
        if number % every == 0:
            watch.audit()
        if player.stalled or player.ledger.fatal is not None:
            break
    kills.rest(player)
    progress(player.serving.admitted, total)


def _bring_home(player: Player) -> None:
    """End every request, let the copies end, fence, and see what is left."""
    stack, ledger = player.stack, player.ledger
    player.drain()
    player.serving.tiering.close()
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
    if ledger.fatal is not None:
        stack.poll()  # what the ledger has said of it is still to be heard, and to be written down


def _count(config: ReplayConfig, stack: Stack, serving: Serving, result: ReplayResult) -> None:
    """Read off what the ledger, the watch and the copier counted."""
    ledger, watch = stack.ledger, stack.watch
    books = ledger.books
    watch.audit()
    stack.hardware.settle()
    result.wrong_bytes = stack.hardware.wrong
    if ledger.fatal is None:
        watch.untold(serving.untold)
        for sentence in ledger.rest():
            watch.violation("L11.home", sentence)
    result.unique_blocks = len(serving.unique)
    result.bytes_copied = watch.copied * config.block_bytes
    busy = stack.hardware.seconds
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
    result.drain_blocks_p99 = _p99(serving.draining)
    result.drain_share_p99 = round(result.drain_blocks_p99 / config.device_blocks, 4)
    result.drain_seconds_p99 = round(_p99([int(1e6 * seconds) for seconds in watch.drains[0]]) / 1e6, 4)
    result.rows_fired = sum(1 for count in fired.values() if count)
    result.rows_never_fired = [row for row, count in fired.items() if not count]


def _p99(counts: Sequence[int]) -> int:
    """What 99 of 100 counts do not exceed, between two of them the share of the way; 0 of none."""
    if not counts:
        return 0
    ordered = sorted(counts)
    at, share = divmod(99 * (len(ordered) - 1), 100)
    return (ordered[at] * (100 - share) + ordered[min(at + 1, len(ordered) - 1)] * share) // 100


def _memcpy() -> float:
    """GB/s of one large copy between two buffers that were touched before."""
    source = np.ones(MEMCPY_BYTES, np.uint8)
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
    if result.workers_killed != config.kill_workers and not problems:
        problems.append(f"{result.workers_killed} workers were lost, and {config.kill_workers} were to be killed")
    if config.break_law is not None and not problems:
        problems.append(f"{config.break_law} was taken out and nobody noticed; a longer or wilder run may")
    if config.must_race and not problems:
        problems.extend(_no_race(config, result))
    if problems and stack.crash is not None:
        problems.append(stack.crash.said)
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
