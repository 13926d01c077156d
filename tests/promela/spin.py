"""Runs Spin on a model, in a folder that is thrown away: translate, compile, search.

What Spin says is read word for word. Its status is 0 when it finds an error, and a search that was cut off at its
greatest depth still says "errors: 0", so each of the lines that can make a result worthless is looked for.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

DEPTH = 1_000_000
"""Steps of the longest path that is searched; far more than any scope has."""
COMPILER = next((name for name in ("cc", "gcc") if shutil.which(name)), None)
MISSING = "spin" if shutil.which("spin") is None else "a C compiler (cc, gcc)" if COMPILER is None else None
needs_spin = pytest.mark.skipif(
    MISSING is not None, reason=f"{MISSING} is missing: the Promela model is not searched (apt-get install spin gcc)"
)
"""For tests that search; where Spin is missing they are skipped, and say so."""


@dataclass(frozen=True)
class Found:
    """What a search has found."""

    states: int
    """States that were stored."""
    errors: int
    broken: str
    """The law that was seen broken: the flag that was asserted, or `acceptance cycle`; empty if none."""
    told: frozenset[tuple[int, ...]]
    """The vectors that the model has printed."""


def search(model: str, folder: Path, *, liveness: bool = False, fair: bool = True) -> Found:
    """Search the model: for broken assertions, or, with `liveness`, for a way to go on for ever without its claim.

    With `fair` no process that can always go on is passed over for ever (weak fairness).
    """
    (folder / "model.pml").write_text(model, encoding="utf-8")
    # -o2: what is written and never read is a part of the state all the same, so that states can be counted.
    _run(folder, "spin", "-o2", "-a", "model.pml")
    assert COMPILER is not None
    how = [] if liveness else ["-DSAFETY", "-DNOCLAIM"]
    _run(folder, COMPILER, "-w", "-O0", "-DNOREDUCE", "-DPRINTF", *how, "-o", "pan", "pan.c")
    said = _run(folder, "./pan", f"-m{DEPTH}", *(["-a", *(["-f"] if fair else [])] if liveness else []))
    assert "max search depth too small" not in said, "the search was cut off"
    assert "Search not completed" not in said or "pan:1: " in said, said[-2000:]
    counted = re.search(r"errors: (\d+)\n +(\d+) states, stored", said)
    assert counted is not None, said[-2000:]
    wrong = re.search(r"pan:1: (?:assertion violated )?(.+?) \(at depth \d+\)", said)
    told = frozenset(
        tuple(map(int, line.split()[1:])) for line in said.splitlines() if line.lstrip().startswith("STATE ")
    )
    return Found(int(counted[2]), int(counted[1]), "" if wrong is None else wrong[1].strip("()"), told)


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert "Error" not in done.stdout + done.stderr, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


def simulate(model: str, folder: Path) -> str:
    """What Spin says when it runs the model once, without a search."""
    (folder / "model.pml").write_text(model, encoding="utf-8")
    done = subprocess.run(["spin", "model.pml"], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
