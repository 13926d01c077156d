"""The scheduler and its workers in processes of their own, one worker and two: what crosses between them is bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vllm.apart import MARK, PROMPTS, TOKENS
from tests.vllm.conftest import Plain
from tests.vllm.tiny import ENVIRON

pytest.importorskip("vllm")

LOADED = 192
"""Of the 200 tokens that the prompts share, so many are in full blocks."""


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_halves_in_processes_of_their_own(ranks: int, folder: Path, plain: Plain) -> None:
    plain.learn(PROMPTS, TOKENS)
    command = [sys.executable, "-m", "tests.vllm.apart", str(folder), str(ranks)]
    ended = subprocess.run(
        command, cwd=Path.cwd(), env=os.environ | ENVIRON, capture_output=True, text=True, timeout=900, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith(MARK)]
    found = json.loads(line.removeprefix(MARK))
    assert found["processes"]
    assert found["tokens"] == [plain.tokens(one, TOKENS) for one in PROMPTS] * 2
    assert found["cached"][1:] == [LOADED] * 3, (
        "the first prompt is new; of all others the shared part comes from below"
    )
