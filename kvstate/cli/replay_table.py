"""The table that `kvstate replay` ends with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvstate.cli.output import console, shown

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "requests": ("requests", "aborts", "preempts", "recomputes", "too_long", "skipped_lines"),
    "cache": (
        "block_refs",
        "unique_blocks",
        "hits",
        "recovered",
        "sought_keys",
        "misses",
        "pending_lookups",
        "loaded_blocks",
        "stored_blocks",
    ),
    "copies": ("bytes_copied", "seconds", "copy_gb_per_s", "memcpy_gb_per_s"),
    "failures": (
        "failures",
        "retries",
        "stale_reports",
        "unknown_reports",
        "quarantined_blocks",
        "workers_killed",
        "leases_lost",
    ),
    "races": (
        "max_inflight_jobs",
        "aborts_while_copying",
        "reuses_after_drain",
        "late_landings",
        "drain_blocks_p99",
        "drain_share_p99",
        "drain_seconds_p99",
    ),
    "spec": ("rows_fired", "rows_never_fired"),
    "must be 0": ("wrong_bytes", "violations", "leaked_blocks", "quarantined_after_fence"),
}
"""Which number of a result stands where in the table; what is in none of these comes under `more`."""

LABELS = {
    "copy_gb_per_s": "copy GB/s",
    "memcpy_gb_per_s": "memcpy GB/s",
    "drain_blocks_p99": "draining blocks, p99",
    "drain_share_p99": "their share of the device",
    "drain_seconds_p99": "seconds of a drain, p99",
}
"""Where the name with its underscores taken out does not read well."""

NOT_SHOWN = frozenset({"settings", "problems"})
"""What whoever called knows already, and what is said below the table."""


def show(result: Mapping[str, Any]) -> None:
    """Print the numbers of a result, section by section; what must be 0 and is not stands out."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("", "", "", box=box.SIMPLE, show_header=False)
    placed = {name for names in SECTIONS.values() for name in names} | NOT_SHOWN
    sections = {**SECTIONS, "more": tuple(name for name in result if name not in placed)}
    for section, names in sections.items():
        lines = [(name, result[name]) for name in names if name in result]
        for index, (name, value) in enumerate(lines):
            bad = section == "must be 0" and bool(value)
            cells = section if index == 0 else "", LABELS.get(name) or name.replace("_", " "), shown(value)
            style = "bold red" if bad else ""
            table.add_row(
                Text(cells[0], style="bold"),
                Text(cells[1]),
                Text(cells[2], style=style),
                end_section=index == len(lines) - 1,
            )
    console().print(table)
