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

from kvstate.machines.tables import TABLES
from tests.tidy.files import ROOT

CONTRACTS = ROOT / "tests" / "proof" / "contracts"
CONFIRMED = {"tables.py": 8, "values.py": 10}
"""How many contracts each file has. They are counted here so that none goes unseen."""
BIG = ("block_table", "offload_table", "transfer_table")
"""The contracts that take most of the time: they have a test of their own, each."""
PAIRS = ("transfer", "offload", "foreign", "block", "part", "load", "key", "service")
"""The machines, those first whose table and reference take `diffbehavior` longest; see `contracts/pairs.py`."""
WIDE = ("block", "transfer", "offload", "foreign", "part")
"""Those that are compared for `make test-long`; their contracts say the same of them, for `make proof`."""
PAIR_OF = "tests.proof.contracts.pairs"
PER_CONTRACT = "90"
"""Seconds after which CrossHair gives a contract up; then it is not confirmed, and that is a failure."""
PER_PAIR = "600"
"""The same for two functions of a machine: on an idle core the longest take about a minute."""


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


def differs(table: str, data: str) -> subprocess.CompletedProcess[str]:
    """CrossHair looks for numbers on which two functions do not do the same."""
    return crosshair("diffbehavior", "--per_condition_timeout", PER_PAIR, table, data)


def test_every_machine_is_compared() -> None:
    assert sorted(PAIRS) == sorted(TABLES)


@pytest.mark.parametrize(
    "machine", [pytest.param(each, marks=pytest.mark.long if each in WIDE else pytest.mark.proof) for each in PAIRS]
)
def test_the_table_and_the_data_do_not_differ(machine: str) -> None:
    done = differs(f"{PAIR_OF}.{machine}_by_table", f"{PAIR_OF}.{machine}_by_data")
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


PLANTED = """\
import inspect
from kvstate.machines.tables import load
source = inspect.getsource(load._fire_waiting_batch_committed)
assert source.count('+ 1 < batches') == 1
space = dict(vars(load))
exec(source.replace('+ 1 < batches', '< batches'), space)
fire = list(load.FIRE)
fire[fire.index(load._fire_waiting_batch_committed)] = space['_fire_waiting_batch_committed']
load.FIRE = tuple(fire)
STATE, EVENT = int(load.State.WAITING), int(load.Event.BATCH_COMMITTED)
"""
"""The load's table with one number of it changed: A11 fires one batch too late."""
BROKEN_CONTRACT = """
from tests.proof.contracts.tables import LOAD, agrees  # not what has a contract: it would be believed
def broken(batches: int, committed: int, fallen: int) -> bool:
    '''
    post: _
    '''
    values = {'batches': batches, 'committed': committed, 'fallen': fallen, 'over': 0}
    return agrees(load, LOAD, STATE, EVENT, values)
"""
BROKEN_PAIR = """
from tests.proof.contracts.pairs import LOAD, Result, by_data, by_table
def values(batches: int, committed: int) -> dict[str, int]:
    return {'batches': batches, 'committed': committed, 'fallen': 0, 'over': 0}
def table(batches: int, committed: int) -> Result:
    return by_table(load, LOAD, STATE, EVENT, values(batches, committed))
def data(batches: int, committed: int) -> Result:
    return by_data(LOAD, STATE, EVENT, values(batches, committed))
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that CrossHair can import, to be written."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    return tmp_path / "planted.py"


@pytest.mark.proof
def test_a_table_that_differs_from_the_data_is_seen(planted: Path) -> None:
    planted.write_text(PLANTED + BROKEN_CONTRACT, encoding="utf-8")
    said = confirmed("planted.broken")
    assert any("error: false when calling broken" in line for line in said), said


@pytest.mark.proof
def test_a_difference_is_seen(planted: Path) -> None:
    planted.write_text(PLANTED + BROKEN_PAIR, encoding="utf-8")
    done = differs("planted.table", "planted.data")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "planted.table : returns" in done.stdout
    assert "No differences found" not in done.stdout
