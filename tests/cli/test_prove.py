"""`kvstate prove`: its table, its data, what a theorem that fails says, and the mistakes it is given."""

from __future__ import annotations

import json
import sys

import pytest

from kvstate.cli import prove, run
from kvstate.cli.words import own_spec
from kvstate.proof.theorems import THEOREMS
from kvstate.spec.model import Spec
from tests.proof.mutants import MUTANTS

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def prover() -> None:
    pytest.importorskip("z3", reason="theorems are proved by z3, which is not installed")


def planted(theorem: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> Spec:
    """The command proves a spec with this fault in it."""
    spec = MUTANTS[theorem][fault](own_spec())
    monkeypatch.setattr(prove, "own_spec", lambda: spec)
    return spec


@pytest.mark.usefixtures("prover")
def test_what_is_proved_is_a_table(capsys: Captured) -> None:
    assert run(["prove", "stale", "one_settlement"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines() if " proved " in line and "about" not in line]
    assert [line[:2] for line in lines[:2]] == [["one_settlement", "L2"], ["stale", "L2"]]
    assert out.splitlines()[-1] == "2 theorems proved, for any number of records"


@pytest.mark.usefixtures("prover")
def test_a_theorem_that_fails_names_the_row_and_what_it_owes(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    planted("stale", "P11 lets go", monkeypatch)
    assert run(["prove", "stale", "one_settlement"]) == 1
    out = capsys.readouterr().out
    assert "NOT PROVED" in out
    assert "stale: P11 on broken in new: C03 tells others" in out
    assert "findings more" in out
    assert out.splitlines()[-1] == "2 of 2 theorems not proved"


@pytest.mark.long
@pytest.mark.usefixtures("prover")
def test_a_row_that_breaks_an_invariant_is_told_with_values(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    planted("rows", "B04 without its guard", monkeypatch)
    assert run(["prove", "rows"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert 'rows: block.toml, row B04: leads from "loading" to "loading" and breaks its invariant' in out
    assert "writers = " in out
    assert out.endswith("1 of 1 theorem not proved")


@pytest.mark.usefixtures("prover")
def test_one_json_object(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["prove", "stale", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"spec", "theorems"}
    assert data["spec"] == own_spec().version
    [told] = data["theorems"]
    claim = next(theorem.claim for theorem in THEOREMS if theorem.name == "stale")
    assert isinstance(told.pop("seconds"), float)
    assert told == {"name": "stale", "law": "L2", "claim": claim, "about": "model", "proved": True, "findings": []}
    planted("stale", "P11 leads to landed", monkeypatch)
    assert run(["prove", "stale", "--json"]) == 1
    [told] = json.loads(capsys.readouterr().out)["theorems"]
    assert told["proved"] is False
    assert any(finding.startswith("P11 on ") and "the part changes" in finding for finding in told["findings"])


@pytest.mark.parametrize("words", [["prove"], ["prove", "stale"], ["prove", "rows", "--json"]])
def test_without_z3_nothing_is_proved_and_it_says_so(
    words: list[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    assert run(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "kvstate: nothing was proved: z3 is missing; pip install 'kvstate[proof]'\n"


@pytest.mark.usefixtures("prover")
def test_a_prover_that_gives_up_proves_nothing(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    import z3

    monkeypatch.setattr(z3.Solver, "check", lambda *_: z3.unknown)
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda _: "timeout")
    assert run(["prove", "stale"]) == 1
    assert "the prover gave up (timeout); nothing is proved" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["stail"], "kvstate prove: there is no theorem 'stail'; did you mean stale?"),
        (["stale", "nonsense"], "kvstate prove: there is no theorem 'nonsense'"),
        (["--jsn"], "kvstate prove: No such option '--jsn'."),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str, capsys: Captured) -> None:
    assert run(["prove", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith(sentence)
    assert err.count("\n") == 1
