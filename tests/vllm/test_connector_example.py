"""The example: its configuration is one that vLLM takes, and what it says of itself is so."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from examples.serve_vllm import CONFIG

pytest.importorskip("vllm")


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "examples.serve_vllm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


def test_the_configuration_is_printed_as_it_is_given() -> None:
    assert json.loads(run("--config")) == CONFIG


def test_most_of_what_is_shared_comes_from_below() -> None:
    (line,) = [line for line in run().splitlines() if "shared prompt tokens" in line]
    found = re.fullmatch(r"(\d+) of (\d+) shared prompt tokens came from host memory; the tokens agree", line)
    assert found
    assert int(found[1]) >= 0.9 * int(found[2])
