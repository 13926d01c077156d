"""CrossHair confirms the contracts of the pure functions over all paths, and anything else than that is a failure.

CrossHair's status is 0, too, for "Not confirmed." and for "Unable to meet precondition.", so the lines are counted: one
"Confirmed over all paths." for each contract, and no other line.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.files import ROOT

CONTRACTS = ROOT / "tests" / "proof" / "contracts"
CONFIRMED = {"tables.py": 7, "values.py": 10}
"""How many contracts each file has. They are counted here so that none goes unseen."""
BIG = ("block_table", "offload_table", "transfer_table")
"""The contracts that take most of the time: they have a test of their own, each."""
PER_CONTRACT = "90"
"""Seconds after which CrossHair gives a contract up; then it is not confirmed, and that is a failure."""


def crosshair(*words: str) -> subprocess.CompletedProcess[str]:
    """Run CrossHair in one process, with the contracts' own folder on the path."""
    command = [sys.executable, "-m", "crosshair", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def contracts(path: Path) -> list[str]:
    """The names of the functions of a file that have a contract."""
    text = path.read_text(encoding="utf-8")
    return re.findall(r'(?ms)^def (\w+)\((?:[^"]*?)\) -> [^"]*?:[^"]*?\n    """\n(?:    pre:[^\n]*\n)*    post:', text)


def confirmed(*targets: str) -> list[str]:
    """The lines that are no confirmation, and one more if there are not as many confirmations as targets."""
    done = crosshair("check", "--report_all", "--per_condition_timeout", PER_CONTRACT, *targets)
    lines = done.stdout.splitlines()
    good = [line for line in lines if line.endswith(": info: Confirmed over all paths.")]
    bad = [line for line in lines if line not in good]
    if len(good) != len(targets):
        bad.append(f"{len(good)} of {len(targets)} confirmed; {done.stderr}")
    return bad


@pytest.mark.parametrize("file", CONFIRMED)
def test_every_contract_is_counted(file: str) -> None:
    found = contracts(CONTRACTS / file)
    assert len(found) == len(set(found)) == CONFIRMED[file]
    assert (CONTRACTS / file).read_text(encoding="utf-8").count("    post:") == CONFIRMED[file]


@pytest.mark.proof
@pytest.mark.parametrize("file", CONFIRMED)
def test_small_contracts_are_confirmed(file: str) -> None:
    names = [name for name in contracts(CONTRACTS / file) if name not in BIG]
    assert confirmed(*(f"tests.proof.contracts.{file.removesuffix('.py')}.{name}" for name in names)) == []


@pytest.mark.proof
@pytest.mark.parametrize("name", BIG)
def test_a_big_table_is_confirmed(name: str) -> None:
    assert confirmed(f"tests.proof.contracts.tables.{name}") == []


@pytest.mark.proof
def test_the_table_and_the_data_do_not_differ() -> None:
    pairs = "tests.proof.contracts.pairs"
    done = crosshair("diffbehavior", "--per_condition_timeout", "60", f"{pairs}.load_by_table", f"{pairs}.load_by_data")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No differences found." in done.stdout
    assert "All paths exhausted" in done.stdout


FAULTY = '''
def halved(number: int) -> int:
    """
    post: _ + _ == number
    """
    return number // 2


def impossible(number: int) -> int:
    """
    pre: number < 0 and number > 0
    post: True
    """
    return number


def fine(number: int) -> int:
    """
    post: _ == number
    """
    return number
'''


@pytest.mark.proof
@pytest.mark.parametrize(
    ("name", "said"), [("halved", "error: false when calling"), ("impossible", "Unable to meet precondition")]
)
def test_the_gate_takes_nothing_else_for_a_confirmation(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty.py").write_text(FAULTY, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert confirmed("faulty.fine") == []
    faults = confirmed("faulty.fine", f"faulty.{name}")
    assert any(said in line for line in faults)
    assert faults[-1].startswith("1 of 2 confirmed")


@pytest.mark.proof
def test_a_table_that_differs_from_the_data_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The contract of the load's table, with one number of the table changed: A11 fires one batch too late."""
    text = (
        "import re, inspect\n"
        "from kvstate.machines.tables import load\n"
        "source = inspect.getsource(load._fire_waiting_batch_committed)\n"
        "assert source.count('+ 1 < batches') == 1\n"
        "space = dict(vars(load))\n"
        "exec(source.replace('+ 1 < batches', '< batches'), space)\n"
        "fire = list(load.FIRE)\n"
        "fire[fire.index(load._fire_waiting_batch_committed)] = space['_fire_waiting_batch_committed']\n"
        "load.FIRE = tuple(fire)\n"
        "from tests.proof.contracts.tables import LOAD, agrees\n"  # not what has a contract: it would be believed
        "def broken(batches: int, committed: int, fallen: int) -> bool:\n"
        '    """\n    post: _\n    """\n'
        "    state, event = int(load.State.WAITING), int(load.Event.BATCH_COMMITTED)\n"
        "    values = {'batches': batches, 'committed': committed, 'fallen': fallen, 'over': 0}\n"
        "    return agrees(load, LOAD, state, event, values)\n"
    )
    (tmp_path / "planted.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    said = confirmed("planted.broken")
    assert any("error: false when calling broken" in line for line in said), said
