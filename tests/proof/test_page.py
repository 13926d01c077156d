"""The tables of docs/proofs.md are those of the lists, and a page that has others, or no place for one, is told."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("z3", reason="theorems are listed by their own modules, which need z3 to be asked")

from kvstate.spec.properties import load_properties
from tests.proof import page
from tests.tidy.files import ROOT


def test_the_tables_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert page.main(["--check"]) == 0, "run make docs"
    assert capsys.readouterr().err == ""


def test_a_table_that_is_not_is_told_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", tmp_path / "proofs.md")
    page.PAGE.write_text(text.replace("| `queue` |", "| `queues` |"), encoding="utf-8")
    assert page.main(["--check"]) == 1
    assert "run make docs" in capsys.readouterr().err
    assert page.main([]) == 0
    assert page.PAGE.read_text(encoding="utf-8") == text


def test_every_table_has_one_place() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="a place for each of these tables, once: laws, ways, scopes, theorems"):
        page.printed(text.replace("<!-- table: ways -->", ""))


def test_every_law_is_shown_of_the_model_or_of_the_code_and_kills_something() -> None:
    listed = load_properties(ROOT / "spec" / "properties.toml", root=ROOT)
    lines = page.laws().splitlines()[2:]
    assert len(lines) == len(listed.laws)
    for line in lines:
        _, _, model, code, killed, _ = (cell.strip() for cell in line.split("|"))
        assert model or code, line
        assert killed != "none by name", line
