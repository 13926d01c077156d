"""What a replay with peers found: every number is counted or measured during the run, none is set."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class PeersResult:
    """The object that `kvstate replay --peers 2 --json` prints, and the sentences that make a run fail."""

    requests: int = 0
    """Requests that the decode has answered."""
    seconds: float = 0.0
    """Wall time, from the first request to the last."""
    kills: dict[str, int] = field(default_factory=dict)
    """How often each process was killed, and started again."""
    stops: dict[str, int] = field(default_factory=dict)
    """How often each process was stopped for a while."""
    resent: int = 0
    """Requests that a killed process had not answered, and that its successor was given."""
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the last process of each role counted, since it was started: `hits` and `loaded` blocks by tier, `computed`
    blocks, `loads` and `handoffs` by how they ended, `failures` by code, `messages` that changed nothing."""
    wrong_bytes: int = 0
    """Blocks that did not hold the bytes of their key, in any process. 0, or the run failed."""
    violations: int = 0
    """What was found that no law allows, likewise."""
    leaked_blocks: int = 0
    """Blocks that nobody held at the end and that were not free, likewise."""
    quarantined_after_fence: int = 0
    """Blocks in quarantine when all copies were proved over, likewise."""
    longest_handoff: float = 0.0
    """Seconds that one handoff took at most, as far as its process lived to tell."""
    troubles: list[str] = field(default_factory=list)
    """What the processes told an operator, the first few; the run went on."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the run was told."""
    problems: list[str] = field(default_factory=list)
    """Why the run failed, a sentence each."""

    def as_dict(self) -> dict[str, Any]:
        """Every field by its name, as plain values."""
        return {item.name: getattr(self, item.name) for item in fields(self)}
