"""docs/laws.md is what the laws, the lists of the tests and the results give, and what runs each check is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvstate.proof.theorems import THEOREMS
from kvstate.spec.properties import load_properties, missing
from tests.properties import page
from tests.properties.page import AUDIT, GROUPS, caught, groups, main
from tests.tidy.files import ROOT

LAWS = load_properties(ROOT / "spec" / "properties.toml", root=ROOT)
BY_NAME = {each.name: each for each in LAWS.properties}

pytest.importorskip("z3", reason="theorems are listed by their own modules, which need z3 to be asked")


def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, "run make docs"
    assert capsys.readouterr().err == ""


def test_a_page_that_is_not_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "laws.md")
    assert main(["--check"]) == 1
    assert "run make docs" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_a_check_that_is_gone_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "spec" / "properties.toml").read_text(encoding="utf-8")
    assert "Laws.turn_taken" in text
    spec = tmp_path / "properties.toml"
    spec.write_text(text.replace("Laws.turn_taken", "Laws.turn_take"), encoding="utf-8")
    monkeypatch.setattr(page, "load_properties", lambda path, root: load_properties(spec, root=root))
    assert main(["--check"]) == 1
    assert capsys.readouterr().err == (
        "properties.toml, property L11.turn: it is checked by tests/stateful/laws.py::Laws.turn_take, and the file has "
        'no "Laws.turn_take" (did you mean "Laws.turn_taken"?)\n'
    )


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.how)
def test_what_runs_a_check_is_there(group: page.Group) -> None:
    assert all(missing(test, ROOT) == "" for test in group.tests)
    assert group.about in ("model", "code")
    assert not group.runs or page.calls_the_audit(group.runs), f"{group.runs} does not call the audit"


@pytest.mark.parametrize("name", BY_NAME)
def test_every_check_is_of_a_kind(name: str) -> None:
    for check in BY_NAME[name].checked_by:
        found = list(groups(check))
        assert found
        assert (len(found) > 1) == check.startswith(AUDIT)


def test_every_theorem_is_cited_by_a_property_of_its_law() -> None:
    cited = {page.THEOREM_OF[check].name: {each.law for each in LAWS.properties if check in each.checked_by}
             for each in LAWS.properties for check in each.checked_by if check in page.THEOREM_OF}  # fmt: skip
    assert set(cited) == {theorem.name for theorem in THEOREMS}
    assert all(theorem.law in cited[theorem.name] for theorem in THEOREMS)
    places = [check for each in LAWS.properties for check in each.checked_by if check.startswith("kvstate/proof/")]
    assert set(places) <= set(page.THEOREM_OF), "a proof is cited that is no theorem's"


RESULTS: dict[str, Any] = {
    "spec": "0.0.9",
    "mutants": [
        {"name": "B21 leads to free", "verdict": "killed",
         "killed_by": [{"means": "explorer", "what": "batch", "law": "L3.no_reuse"}]},
        {"name": "B01 stays", "verdict": "harmless", "killed_by": []},
    ],
    "code": [{"name": "a copy too many", "verdict": "killed",
              "killed_by": [{"means": "walk", "what": "x", "law": "L3.no_reuse"}]}],
}  # fmt: skip


def test_what_mutants_were_killed_by_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mutation.json").write_text(json.dumps(RESULTS), encoding="utf-8")
    monkeypatch.setattr(page, "RESULTS", tmp_path / "mutation.json")
    text = " ".join(page.page().split())
    assert "for spec 0.0.9: 1 of 2 killed." in text
    assert "mutants, by explorer: B21 leads to free; mutants, by walk: a copy too many" in text
    monkeypatch.setattr(page, "RESULTS", tmp_path / "none.json")
    assert "have not been run" in " ".join(page.page().split())


SEARCHES: dict[str, Any] = {
    "spec": "0.0.9",
    "scopes": [
        {"name": "soak", "title": "much", "prefix": 0, "states": 12345, "moves": 54321, "depth": 12, "frontier": 678,
         "finished": False},
        {"name": "soak-late", "title": "more", "prefix": 12, "states": 10, "moves": 20, "depth": 3, "frontier": 0,
         "finished": True},
    ],
    "violation": None,
}  # fmt: skip


def test_how_far_the_large_scopes_were_searched_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "SEARCHES", tmp_path / "explore.json")
    assert "have not been searched" in page.page()
    page.SEARCHES.write_text(json.dumps(SEARCHES), encoding="utf-8")
    text = page.page()
    assert "over spec 0.0.9." in " ".join(text.split())
    assert "| `soak` | much | 0 | 12,345 | 54,321 | 12 | 678 |" in text
    assert "| `soak-late` | more | 12 | 10 | 20 | 3 | none: to its end |\n\nNo law was broken." in text
    broken = {"scope": "soak", "law": "L3.no_reuse", "sentence": "block 0 is free"}
    page.SEARCHES.write_text(json.dumps(SEARCHES | {"violation": broken}), encoding="utf-8")
    assert "Broken in `soak`: L3.no_reuse, block 0 is free." in page.page()


def test_every_property_has_caught_something() -> None:
    assert [each.name for each in LAWS.properties if not list(caught(each, None))] == []
    assert all(missing(test, ROOT) == "" for test in page.SEEN.values())
