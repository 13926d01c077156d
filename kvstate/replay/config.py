"""What a replay is told to do: one frozen value, checked when it is made.

Whoever builds a `ReplayConfig`, the command line or a test, gets a `ConfigError` for a value that makes no sense: one
sentence that names the option as the command line spells it, the value, and what to give instead. So the driver checks
nothing again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, Protocol, get_args

from kvstate.machines.config import ConfigError as LedgerConfigError
from kvstate.replay.checks import ConfigError as ConfigError  # noqa: PLC0414 - it is had from here
from kvstate.replay.checks import choice, number, share, whole
from kvstate.runtime.tiers.objects.settings import place_of
from kvstate.runtime.tiers.settings import room_of

Integrity = Literal["off", "boundary", "host"]
"""Where bytes are hashed and verified: the values of `kvstate.runtime.copy.Integrity`, which can't be imported here
without torch."""
Law = Literal[
    "no-draining",
    "match-by-block",
    "publish-before-commit",
    "timeout-frees",
    "no-condemned-keys",
    "end-at-first-failure",
]
"""What can be taken out of a run, to see that it is missed; `kvstate.replay.breaks` says of each what it is."""
LAWS: Final[tuple[Law, ...]] = get_args(Law)
"""All of `Law`."""
Policy = Literal["adaptive", "lru"]
"""Which cached block leaves first: the policies of `kvstate.machines`."""
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
"""All of `Policy`."""
Sync = Literal["none", "data", "full"]
"""What a commit on the disk survives: the values of `kvstate.runtime.tiers.settings.Sync`."""
SYNCS: Final[tuple[Sync, ...]] = get_args(Sync)
"""All of `Sync`."""
Feed = Literal["through", "back"]
"""When the disk is given a block: as soon as the host has it, or when the host is about to be full."""
FEEDS: Final[tuple[Feed, ...]] = get_args(Feed)
"""All of `Feed`."""
INTEGRITY: Final[tuple[Integrity, ...]] = get_args(Integrity)
"""All of `Integrity`."""

MAX_BLOCKS: Final = 1 << 24
"""Of a pool: as many as the content oracle can name."""
MIN_BLOCK_BYTES: Final = 64
"""Eight words of the content oracle."""
MAX_BLOCK_BYTES: Final = 1 << 30
"""As far as the content oracle counts positions."""
MAX_POOL_BYTES: Final = 1 << 40
"""More than any machine has; what this one has is for the command line to ask."""
MAX_CONCURRENCY: Final = 256
"""Threads."""
MAX_WORKERS: Final = 64
"""Processes, each with both pools."""
MAX_KILLS: Final = 10_000
"""Each takes as long as a process needs to start."""
MAX_REQUESTS: Final = 1 << 31
"""Of a run."""
MAX_HOLD: Final = 1000.0
"""A decode that holds its lease a thousand times as long as its answer takes never ends in any trace."""
MAX_KILL_SECONDS: Final = 1_000_000.0
"""Eleven days."""
MAX_DELAY_MS: Final = 60_000.0
"""Milliseconds: twice what any copy of a replay is waited for."""
MAX_SEED: Final = (1 << 63) - 1
"""Any number of 63 bits."""
GENERATED_REQUESTS: Final = 2000
"""How many requests a generated workload has, where `limit` does not say."""

RATES: Final = ("abort", "preempt", "fail", "late", "duplicate", "lost", "corrupt")
"""The settings that are shares of requests or parts; with any of them above 0 a run is chaotic."""
CHAOS: Final[dict[str, float]] = {
    "abort": 0.05,
    "preempt": 0.05,
    "fail": 0.02,
    "late": 0.02,
    "duplicate": 0.02,
    "lost": 0.002,
    "corrupt": 0.005,
}
"""The rates of `--chaos`. An option that is given beside it wins."""
CHAOS_DELAY_MS: Final = (2.0, 60.0)
"""The delay of landings where there is chaos and nothing else is said: copies have to be slow for anything to happen
while one is in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig:
    """All settings of a replay. Rates are shares from 0 to 1, of requests (abort, preempt) or of parts (the rest).

    Raises `ConfigError` for a value that makes no sense, alone or beside the others.
    """

    trace: Path | None = None
    """A request trace; without one, a workload is generated from `seed`."""
    device_blocks: int = 4000
    """Blocks of the device pool."""
    host_blocks: int = 20000
    """0 switches the lower tier off: nothing is stored, nothing loaded."""
    block_bytes: int = 4096
    """Bytes of a block, a multiple of 8, since every 8 bytes say whose they are."""
    concurrency: int = 2
    """Threads of the copier; of each, where there are several workers."""
    workers: int = 0
    """Processes that hold a piece of every block each, a rank a process; 0 is one rank, in this very process."""
    kill_workers: int = 0
    """How often a worker is killed in the middle of what it does, and another one started in its place."""
    hold: float = 1.0
    """How long a request's decode holds its lease, as a factor on what `output_length` gives; 0 closes it at once."""
    limit: int | None = None
    """At most so many requests are replayed."""
    seed: int = 0
    """Of the chaos, of the dice of requests, and of the workload if there is no `trace`."""
    abort: float = 0.0
    """Requests that are aborted."""
    preempt: float = 0.0
    """Requests that are preempted, besides those that are for want of room."""
    fail: float = 0.0
    """Parts that fail with some code, each code as often as the others."""
    fail_codes: tuple[tuple[str, float], ...] = ()
    """Parts that fail with the code that is named; these come on top of `fail`."""
    late: float = 0.0
    """Parts whose bytes land, and whose report comes, after their deadline."""
    duplicate: float = 0.0
    """Reports that come twice."""
    lost: float = 0.0
    """Reports that never come."""
    corrupt: float = 0.0
    """Parts one of whose blocks gets a wrong byte in the lower tier."""
    delay: tuple[float, float] = (0.0, 0.0)
    """Landings wait a seeded time between these two, in milliseconds."""
    deterministic: bool = False
    """Copies land and report in a seeded order and in virtual time, so that a seed gives one record."""
    integrity: Integrity = "boundary"
    """Where bytes are hashed and verified."""
    break_law: Law | None = None
    """Run with this law taken out of the spec, or of the copier."""
    skip_bad: bool = False
    """Count broken lines of the trace and go on."""
    policy: Policy = "adaptive"
    """Which cached block leaves first, in every pool."""
    disk: Path | None = None
    """A folder for a third tier, which outlives the run; none is no such tier."""
    disk_bytes: int = 1 << 30
    """What that tier takes, over all ranks."""
    disk_sync: Sync = "none"
    """What a commit there survives."""
    tiers: Feed = "through"
    """When it, and the store, are given a block."""
    store: str | None = None
    """The URL of an object store for the lowest tier; none is no such tier."""
    store_blocks: int = 20000
    """So many of its objects may be known at once."""
    kill_after: float | None = None
    """The process kills itself so many seconds after its first request, if it has not ended by then."""
    commits_to: Path | None = None
    """Append there what the disk has from now on, and what it has no more, a line a key: `+ key`, `- key`."""
    report: Path | None = None
    """Write the result and plots of how it went over time there, as one HTML file."""
    trace_out: Path | None = None
    """Write every decision there, as NDJSON."""
    crash_dump: Path | None = None
    """Keep the last events in memory, and write them there when the ledger is poisoned."""
    must_race: bool = False
    """Fail a run in which too little happened at the same time to prove anything."""

    def __post_init__(self) -> None:
        whole("--device-blocks", self.device_blocks, 1, MAX_BLOCKS)
        whole("--host-blocks", self.host_blocks, 0, MAX_BLOCKS)
        whole("--block-bytes", self.block_bytes, MIN_BLOCK_BYTES, MAX_BLOCK_BYTES)
        if self.block_bytes % 8:
            raise ConfigError("--block-bytes", f"is {self.block_bytes}; it must be a multiple of 8.")
        whole("--concurrency", self.concurrency, 1, MAX_CONCURRENCY)
        whole("--workers", self.workers, 0, MAX_WORKERS)
        whole("--kill-workers", self.kill_workers, 0, MAX_KILLS)
        if self.kill_workers and not self.workers:
            raise ConfigError("--kill-workers", f"is {self.kill_workers}, and there are none; give --workers as well.")
        if self.workers and self.deterministic:
            raise ConfigError("--workers", "and --deterministic: processes have no virtual time; give one of the two.")
        whole("--seed", self.seed, 0, MAX_SEED)
        if self.limit is not None:
            whole("--limit", self.limit, 1, MAX_REQUESTS)
        number("--hold", self.hold, 0.0, MAX_HOLD)
        for name in RATES:
            share(f"--{name}", getattr(self, name))
        self._check_sums()
        choice("--integrity", self.integrity, INTEGRITY)
        choice("--policy", self.policy, POLICIES)
        choice("--disk-sync", self.disk_sync, SYNCS)
        choice("--tiers", self.tiers, FEEDS)
        if self.kill_after is not None:
            number("--kill-after", self.kill_after, 0.0, MAX_KILL_SECONDS)
        if self.disk is not None and not 1 <= self.disk_blocks <= MAX_BLOCKS:
            blocks = f"room for {self.disk_blocks} blocks of {self.block_bytes} bytes"
            raise ConfigError("--disk-bytes", f"is {self.disk_bytes}, which is {blocks}; it must be 1 to {MAX_BLOCKS}.")
        if self.store is not None:
            try:
                place_of(self.store)
            except LedgerConfigError as error:
                raise ConfigError("--store", f"is no store: {str(error).removeprefix('url: ')}.") from None
            whole("--store-blocks", self.store_blocks, 1, MAX_BLOCKS)
        if self.break_law is not None:
            choice("--break", self.break_law, LAWS)
        for end in self.delay:
            number("--delay", end, 0.0, MAX_DELAY_MS)
        if self.delay[0] > self.delay[1]:
            raise ConfigError("--delay", f"is {self.delay[0]:g}:{self.delay[1]:g}; give the smaller number first.")

    def _check_sums(self) -> None:
        """What a single value can't show: pools that no machine has, and shares of one whole that are more than it."""
        pool = max(self.device_blocks, self.host_blocks) * self.block_bytes
        if pool > MAX_POOL_BYTES:
            raise ConfigError(
                "--block-bytes",
                f"times the larger pool is {pool >> 30} GiB; make a pool or a block smaller.",
            )
        for code, rate in self.fail_codes:
            share(f"--fail {code}", rate)
        total = self.fail + sum(rate for _, rate in self.fail_codes)
        if total > 1.0:
            raise ConfigError("--fail", f"adds up to {total:.0%} of all parts; leave at most 100%.")

    @property
    def disk_blocks(self) -> int:
        """Blocks of the disk pool; 0 where there is none."""
        return 0 if self.disk is None else self.disk_bytes // max(1, self.workers) // room_of(self.block_bytes)

    @property
    def pool_bytes(self) -> int:
        """Memory that the pools in memory take together, over all ranks."""
        return (self.device_blocks + self.host_blocks) * self.block_bytes * max(1, self.workers)

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values, for records and `--json`."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def parse_rate(option: str, text: str) -> float:
    """The share that `text` says: `5%`, `0.05`. Raises `ConfigError`."""
    body, percent = (text[:-1], 100.0) if text.endswith("%") else (text, 1.0)
    try:
        value = float(body) / percent
    except ValueError:
        raise ConfigError(option, f"is {text!r}; give a share such as 5% or 0.05.") from None
    if not 0.0 <= value <= 1.0:
        raise ConfigError(option, f"is {text!r}, which is no share of a whole; give 0% to 100%, or 0 to 1.")
    return value


def parse_fail(option: str, text: str) -> tuple[str | None, float]:
    """`2%` is some code or other at that rate; `CRC_MISMATCH=1%` is that code. Raises `ConfigError`."""
    code, equals, rate = text.rpartition("=")
    if not equals:
        return None, parse_rate(option, text)
    code = code.strip().upper()
    if not code:
        raise ConfigError(option, f"is {text!r}; name a code before the =, such as CRC_MISMATCH=1%.")
    return code, parse_rate(option, rate)


def parse_bytes(option: str, text: str) -> int:
    """So many bytes: `4096`, `64MiB`, `2G` (powers of 1024). Raises `ConfigError`."""
    body = text.strip().upper().removesuffix("B").removesuffix("I")
    power = "KMGT".find(body[-1:]) + 1 if body[-1:] else 0
    try:
        return int(float(body[:-1] if power else body) * 1024**power)
    except (ValueError, OverflowError):
        raise ConfigError(option, f"is {text!r}; give bytes such as 4096, 64MiB or 2GiB.") from None


def parse_delay(option: str, text: str) -> tuple[float, float]:
    """`1:20` is between 1 and 20 ms; `5` is always 5 ms. Raises `ConfigError`."""
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise ConfigError(option, f"is {text!r}; give MIN:MAX in milliseconds, such as 1:20.") from None


class Progress(Protocol):
    """What the driver calls now and then to say how far it is; in its own thread, so it should be quick."""

    def __call__(self, done: int, total: int | None) -> None:
        """So many requests are done, of so many; None while nobody knows how many there are."""
        ...
