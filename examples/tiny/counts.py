"""What a server counts, for the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counts:
    """What happened."""

    turns: int = 0
    steps: int = 0
    finished: int = 0
    aborted: int = 0
    aborted_in_load: int = 0
    """Of these, while a load was writing into their blocks."""
    preempted: int = 0
    readmitted: int = 0
    waited: int = 0
    """So often somebody went without a block for a turn and preempted nobody, since enough of them were draining."""
    fences: int = 0
    from_device: int = 0
    """Tokens whose keys and values an admission found on the device."""
    from_host: int = 0
    """Tokens whose keys and values were loaded."""
    computed: int = 0
    recomputed: int = 0
    """Of these, tokens that a load should have brought."""
    loads: Counter[str] = field(default_factory=Counter)
    stores: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    """The errors of loads that failed, by code."""
