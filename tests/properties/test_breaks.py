"""Each law that is taken out is missed by at least three independent means; three of the means are tested here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvstate.explore.stage import RuledStage, Rules
from kvstate.replay import driver
from kvstate.replay.breaks import break_law, broken_spec
from kvstate.replay.config import LAWS, Law
from kvstate.spec.loader import load_spec
from kvstate.spec.properties import load_properties, missing
from kvstate.testing.scenario import parse, play
from kvstate.trace.check import check
from tests.long import long_but
from tests.properties.breaks import AT_LEAST, BY_A_SCENARIO, BY_A_THEOREM, IN_A_RECORD, MEANS
from tests.replay.runs import replay
from tests.replay.test_breaks import RUN
from tests.tidy.files import ROOT

SPEC = load_spec(check=False)
HARD = ("publish-before-commit", "end-at-first-failure")
"""Breaks of theorems that take the prover many seconds."""


@pytest.mark.parametrize("law", LAWS)
def test_three_means_see_it_missed(law: Law) -> None:
    assert sum(law in means.seen for means in MEANS) >= AT_LEAST


@pytest.mark.parametrize("means", MEANS, ids=lambda means: means.name)
def test_each_means_has_a_test_and_speaks_of_laws_that_there_are(means: object) -> None:
    assert isinstance(means, tuple)
    _, about, test, seen = means
    assert missing(test, ROOT) == ""
    assert about in ("code", "model")
    assert set(seen) <= set(LAWS)


def test_a_finding_bears_the_name_of_a_property() -> None:
    """But for the kit, which has names of its own, and for what is no name."""
    known = {each.name for each in load_properties(ROOT / "spec" / "properties.toml").properties}
    said = [word for means in MEANS if means.name in ("replay", "walks on the ledger", "walks on the runtime")
            for words in means.seen.values() for word in words.split(", ") if word[:1] == "L"]  # fmt: skip
    assert set(said) <= known
    assert len(said) > 10


@pytest.mark.parametrize(
    "law", [pytest.param(law, marks=pytest.mark.long) if law in HARD else law for law in BY_A_THEOREM]
)
def test_a_theorem_is_not_proved(law: Law) -> None:
    pytest.importorskip("z3", reason="theorems are proved by z3, which is not installed")
    from kvstate.proof.theorems import THEOREMS

    theorem = next(one for one in THEOREMS if one.name == BY_A_THEOREM[law])
    findings = theorem.run(broken_spec(law, SPEC))
    assert findings
    assert not all("can't happen" in finding for finding in findings), "a way there, and not only nonsense"


@pytest.mark.parametrize("law", BY_A_SCENARIO)
def test_a_scenario_does_not_hold(law: Law) -> None:
    file, said = BY_A_SCENARIO[law]
    path = ROOT / "tests" / "scenarios" / f"{file}.txt"
    scenario = parse(path.read_text(encoding="utf-8"), path.name)
    broken = break_law(law)
    stage = RuledStage(Rules(broken.machines, broken.couplings, broken.acts))
    problems = play(scenario, stage=stage).problems
    assert any(said in problem for problem in problems), problems
    assert play(scenario).problems == ()


@pytest.mark.parametrize("law", long_but(list(IN_A_RECORD)[:1], IN_A_RECORD))
def test_a_record_is_not_allowed(law: Law, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of `tests/replay/test_breaks.py`, recorded, and its record held against the spec that ships."""
    monkeypatch.setattr(driver, "_memcpy", lambda: 1.0)
    path = tmp_path / "run.ndjson"
    replay(break_law=law, trace_out=path, **RUN)
    found = check(path, SPEC)
    assert found.violation is not None
    assert IN_A_RECORD[law] in found.violation.sentence


def test_the_record_of_a_sound_run_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_memcpy", lambda: 1.0)
    path = tmp_path / "run.ndjson"
    replay(trace_out=path, **RUN | {"limit": 60})
    assert check(path, SPEC).violation is None
