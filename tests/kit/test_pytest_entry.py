"""The suite as an embedder runs it: a class of his own, and the option of the plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.naive_engines.tiny import Tiny
from kvstate.testing.kit.oracle import Stats
from kvstate.testing.suite import KVStateSuite, sights
from tests.tidy.files import ROOT

MINE = """
from pathlib import Path
from examples.naive_engines.{name} import {cls} as Mine
from kvstate.testing.suite import KVStateSuite

class TestMine(KVStateSuite):
    adapter = Mine
    steps = 400
    examples = 20
    out = Path(__file__).parent / "found"
"""


class TestTiny(KVStateSuite):
    """Runs here, as it would there."""

    adapter = Tiny
    steps = 500
    examples = 15


def pytest_with(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_a_class_of_ones_own_fails_with_the_story(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(MINE.format(name="listed_twice", cls="Engine"), encoding="utf-8")
    done = pytest_with(str(tmp_path / "test_mine.py"))
    assert done.returncode == 1
    assert "BROKEN L8.balance" in done.stdout
    assert "STEPS = [" in done.stdout
    assert (tmp_path / "found" / "test_l8_balance.py").exists()


def test_the_option_runs_the_kit_alone(tmp_path: Path) -> None:
    option = ["-p", "kvstate.testing.plugin", "--kvstate-steps", "300", "--kvstate-out", str(tmp_path)]
    done = pytest_with(*option, "--kvstate-adapter", "examples.naive_engines.publish_before_copy:Engine")
    assert done.returncode == 1
    assert "BROKEN L9.index" in done.stdout
    assert "8 failed, 1 passed" in done.stdout
    assert (tmp_path / "test_l9_index.py").exists()


def test_a_wrong_adapter_is_one_sentence() -> None:
    done = pytest_with("-p", "kvstate.testing.plugin", "--kvstate-adapter", "examples.naive_engines.tiny:Tinny")
    assert done.returncode == 4
    assert "did you mean Tiny?" in done.stderr
    assert "Traceback" not in done.stderr


def test_with_a_path_the_kit_runs_beside_it(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("def test_other() -> None: ...\n", encoding="utf-8")
    option = ["-p", "kvstate.testing.plugin", "--kvstate-steps", "100"]
    done = pytest_with(*option, "--kvstate-adapter", "examples.naive_engines.tiny:Tiny", str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout


def test_a_class_without_an_adapter_says_so() -> None:
    with pytest.raises(pytest.fail.Exception, match="write adapter = MyAdapter"):
        KVStateSuite().test_the_walks_get_somewhere()


def test_an_engine_to_which_nothing_happens_is_told() -> None:
    class Idle(Tiny):
        def offload(self, request: str) -> None:
            pass

    class Sleeping(KVStateSuite):
        adapter = Idle

    with pytest.raises(pytest.fail.Exception, match="no copy was ever stored: does offload"):
        Sleeping().test_the_walks_get_somewhere()
    assert len(sights(Tiny, Stats())) == 3
