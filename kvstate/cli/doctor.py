"""`kvstate doctor`: what this machine has, and what would run on it. Says nothing that it has not looked at."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from kvstate._version import __version__
from kvstate.cli.output import console, print_json, shown
from kvstate.cli.words import spec_version

PACKAGES = {
    "click": "",
    "rich": "",
    "msgspec": "",
    "torch": "runtime",
    "numpy": "runtime",
    "xxhash": "runtime",
    "z3-solver": "proof",
    "crosshair-tool": "proof",
    "graphviz-pure": "diagram",
    "transitions": "transitions",
}
"""Package: the extra that brings it; none for those that kvstate always needs."""

RUNTIME = ("torch", "numpy", "xxhash")
"""What a replay can't do without."""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(as_json: bool) -> int:
    """Say what is installed here, what the hardware is, and which copier would run, and why.

    The status is 1 when none can, and so `kvstate replay` can't either.
    """
    facts = examine()
    if as_json:
        print_json(facts)
    else:
        _show(facts)
    return 0 if facts["ready"] else 1


def examine() -> dict[str, Any]:
    """Everything that `doctor` looks at, as plain data."""
    packages = {name: _version_of(name) for name in PACKAGES}
    torch = _torch(packages["torch"])
    missing = [name for name in RUNTIME if packages[name] is None]
    runs, copier = _copier(missing, torch)
    return {
        "kvstate": __version__,
        "spec": spec_version(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": memory_bytes("MemTotal"),
        "memory_available_bytes": memory_bytes("MemAvailable"),
        "packages": packages,
        "torch": torch,
        "dot": _dot(),
        "copier": copier,
        "ready": runs,
    }


def memory_bytes(field: str) -> int | None:
    """A line of the kernel's account of memory; None on systems that have no /proc."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024
    return None


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch(version: str | None) -> dict[str, Any]:
    if version is None:
        return {"cuda": False, "devices": []}
    try:
        import torch

        devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return {
            "cuda": torch.cuda.is_available(),
            "cuda_version": torch.version.cuda,
            "devices": devices,
            "threads": torch.get_num_threads(),
        }
    except Exception as error:  # a broken installation is what a doctor is called for
        return {"cuda": False, "devices": [], "error": f"{type(error).__name__}: {error}"}


def _dot() -> str | None:
    """What `dot` says of itself; None where it is not installed or does not run."""
    path = shutil.which("dot")
    if path is None:
        return None
    try:
        answer = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    # It prints its version on stderr.
    return (answer.stderr or answer.stdout).strip().removeprefix("dot - ")


def _copier(missing: list[str], torch: dict[str, Any]) -> tuple[bool, str]:
    """Does a copier run, for a device pool where this machine would have it? Which one, and why."""
    if missing:
        return False, f"none: {', '.join(missing)} not installed (pip install 'kvstate[runtime]')"
    if "error" in torch:
        return False, "none: torch is installed and can't be imported"
    from kvstate.runtime.copiers.batch_call import find_batch_call, load_library
    from kvstate.runtime.copiers.choice import ChoiceError, choose

    try:
        copier, reason = choose("cuda" if torch["cuda"] else "cpu")
    except ChoiceError as error:
        return False, f"none: {error}"
    text = f"{copier}: {reason}"
    if copier == "cuda":
        library = load_library()
        has = library is not None and find_batch_call(library) is not None
        text += "; batched by cuMemcpyBatchAsync" if has else "; this driver has no cuMemcpyBatchAsync"
    return True, text


def _show(facts: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    torch = facts["torch"]
    gib = {
        name: facts[name] and f"{facts[name] / 2**30:.1f} GiB" for name in ("memory_bytes", "memory_available_bytes")
    }
    lines = [
        ("kvstate", f"{facts['kvstate']} (spec {facts['spec']})"),
        ("python", f"{facts['python']}  {facts['executable']}"),
        ("system", facts["platform"]),
        ("cores", shown(facts["cores"])),
        (
            "memory",
            f"{gib['memory_bytes']}, {gib['memory_available_bytes']} available" if all(gib.values()) else "unknown",
        ),
    ]
    for name, version in facts["packages"].items():
        extra = PACKAGES[name]
        lines.append((name, version or f"not installed (pip install 'kvstate[{extra}]')"))
    cuda = f"{torch.get('cuda_version')}: {', '.join(torch['devices'])}" if torch["cuda"] else "not available"
    lines += [
        ("cuda", torch.get("error", cuda)),
        ("dot", facts["dot"] or "not installed; graphviz-pure draws without it"),
        ("copier", facts["copier"]),
    ]
    for name, value in lines:
        table.add_row(name, Text(value))
    console().print(table)
