"""What a replay found: every number is counted or measured during the run, none is set."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class ReplayResult:
    """The object that `kvstate replay --json` prints, and the sentences that make a run fail."""

    requests: int = 0
    """Requests that were taken from the trace, those that are `too_long` included."""
    block_refs: int = 0
    """Blocks of all prompts; `hits` and `misses` add up to it."""
    unique_blocks: int = 0
    """Different ids among `block_refs`."""
    hits: dict[str, int] = field(default_factory=dict)
    """Blocks of the longest cached prefix at a request's first lookup, by the tier that held them."""
    recovered: dict[str, int] = field(default_factory=dict)
    """What the disk held when the run began, where there is one: blocks that were `recovered`, that were `left_out` for
    want of room or of a piece on some rank; files that were `removed`, `refused`, or are `strange`, none of ours."""
    sought_keys: int = 0
    """Keys that the object store was asked for, where there is one."""
    misses: int = 0
    """Blocks behind that prefix."""
    loaded_blocks: int = 0
    """Blocks that a load brought to the device, of loads that committed them."""
    stored_blocks: int = 0
    """Blocks that an offload committed."""
    bytes_copied: int = 0
    """Bytes of copies that were reported done, stores and fetches."""
    seconds: float = 0.0
    """Wall time of the replay, the final drain included."""
    copy_gb_per_s: float = 0.0
    """`bytes_copied` over the time that the copying threads spent on copies, seals included."""
    memcpy_gb_per_s: float = 0.0
    """One large copy of the same machine, in the same run."""
    offloads: dict[str, int] = field(default_factory=dict)
    """Offload jobs by how they ended."""
    loads: dict[str, int] = field(default_factory=dict)
    """Loads by how they ended."""
    aborts: int = 0
    """Requests that were aborted, while they loaded or when they began to decode."""
    preempts: int = 0
    """How often a request was preempted, by the dice or for want of room."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failures of parts that were waited for, or given up, by the name of their code."""
    retries: int = 0
    """Jobs and batches that were tried again, counted each time."""
    recomputes: int = 0
    """Loads that ended with tokens left to compute."""
    stale_reports: int = 0
    """Reports for a part or attempt that is over."""
    unknown_reports: int = 0
    """Reports under a token that was never minted."""
    workers_killed: int = 0
    """Worker processes that were killed, noticed, and replaced by another."""
    leases_lost: int = 0
    """Leases that were open when a worker was found gone; their requests began anew."""
    quarantined_blocks: int = 0
    """Blocks that entered quarantine during the run."""
    quarantined_after_fence: int = 0
    """Blocks that are in quarantine still, when every copy has been proved over. 0, or the run failed."""
    wrong_bytes: int = 0
    """Blocks that did not hold what their key must hold, or bytes of them."""
    violations: int = 0
    """What was found that no law allows. 0, or the run failed."""
    leaked_blocks: int = 0
    """Blocks held at the end by nobody: neither free, nor cached, nor in quarantine for a reason."""
    max_inflight_jobs: int = 0
    """The most offloads and loads that were on record at once."""
    aborts_while_copying: int = 0
    """Aborts of requests some of whose blocks were read or written at that moment."""
    reuses_after_drain: int = 0
    """Blocks that drained, came free and were given to somebody again."""
    late_landings: int = 0
    """Copies that began to land when nobody waited for them, or in a block that its owner had left."""
    drain_blocks_p99: int = 0
    """Device blocks that were draining, at the 99th percentile of admissions."""
    drain_share_p99: float = 0.0
    """The same as a share of the device pool: what the drains cost, and so what it takes as headroom."""
    drain_seconds_p99: float = 0.0
    """From the release of a device block that a copy or a step still touched to its coming free, quarantine included,
    at the 99th percentile: what deadlines and grace should leave room for."""
    pending_lookups: int = 0
    """Lookups that were told to ask again, since another request was loading what they need."""
    too_long: int = 0
    """Requests whose prompt does not fit the device pool; they are counted as misses and not run."""
    skipped_lines: int = 0
    """Broken lines of the trace that were passed over."""
    rows_fired: int = 0
    """How many rows of all tables fired at least once."""
    rows_never_fired: list[str] = field(default_factory=list)
    """The ids of the others."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the run was told, as `ReplayConfig.as_dict`."""
    problems: list[str] = field(default_factory=list)
    """Why the run failed, a sentence each; empty when it did not."""

    def as_dict(self) -> dict[str, Any]:
        """Every field by its name, as plain values."""
        return {item.name: getattr(self, item.name) for item in fields(self)}
