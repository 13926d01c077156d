"""`kvstate spec diff`: its table, its data, its status, and the mistakes it is given."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kvstate.cli import run
from kvstate.proof import rows
from kvstate.proof.terms import ProverMissingError
from kvstate.spec import spec_dir

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A copy of the spec, to be changed at will."""
    return Path(shutil.copytree(spec_dir(), tmp_path / "new"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_same_is_compatible(new: Path, capsys: Captured) -> None:
    assert run(["spec", "diff", str(spec_dir()), str(new)]) == 0
    assert capsys.readouterr().out == "the same: VERSION need not move.\n"


def test_a_narrower_guard_breaks_and_the_last_line_says_which_number_moves(new: Path, capsys: Captured) -> None:
    pytest.importorskip("z3")
    text = (new / "block.toml").read_text(encoding="utf-8")
    before, after = text.split('id = "B13"\n', 1)
    assert 'when = "readers == 0"' in after.split("why")[0]
    narrow = after.replace('when = "readers == 0"', 'when = "readers == 0 and generation > 3"', 1)
    (new / "block.toml").write_text(before + 'id = "B13"\n' + narrow, encoding="utf-8")
    assert run(["spec", "diff", str(spec_dir()), str(new)]) == 1
    out = capsys.readouterr().out
    assert "block row B13" in out
    assert "narrower" in out
    assert "records embedders" in out
    last = out.splitlines()[-1]
    assert last.startswith("breaking (1 breaking): the second part of VERSION must move, from 0.")


def test_the_data_says_the_same(new: Path, capsys: Captured) -> None:
    edit(new / "errors.toml", 'sentence = "', 'sentence = "Now: ')
    assert run(["spec", "diff", "--json", str(spec_dir()), str(new)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["format"] == "kvstate-spec-diff-1"
    assert (data["compatible"], data["weight"], data["version_is_enough"]) == (True, "words", False)
    assert data["old_version"] == data["new_version"]
    assert [list(change) for change in data["changes"]] == [["where", "is", "what", "breaks"]]


def test_two_files_of_one_machine(new: Path, capsys: Captured) -> None:
    edit(new / "service.toml", 'id = "S06"', 'id = "S99"')
    assert run(["spec", "diff", str(spec_dir() / "service.toml"), str(new / "service.toml")]) == 1
    out = capsys.readouterr().out
    assert "S99 says the same, but an id is given once" in out
    assert out.splitlines()[-1] == (
        "breaking (1 breaking, 1 added): the first part of VERSION must move "
        "(up to 1.0.0 the second stands for the first)."
    )


def test_without_z3_a_changed_guard_is_undecided(new: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ProverMissingError("not here")

    monkeypatch.setattr(rows, "import_z3", missing)
    edit(new / "block.toml", 'when = "lost < readers + writers"', 'when = "lost + 1 <= readers + writers"')
    assert run(["spec", "diff", str(spec_dir()), str(new)]) == 1
    assert "undecided" in capsys.readouterr().out


def test_codes_that_are_gone(new: Path, capsys: Captured) -> None:
    (new / "errors.toml").unlink()
    assert run(["spec", "diff", str(spec_dir()), str(new)]) == 1
    assert "the error codes are gone" in capsys.readouterr().out
    assert run(["spec", "diff", str(new), str(spec_dir())]) == 0


def test_a_promise_that_is_gone_is_breaking(new: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = (new / "properties.toml").read_text(encoding="utf-8")
    start = text.index('[[property]]\nname = "L11.turn"')
    end = text.index("[[property]]", start + 1)
    (new / "properties.toml").write_text(text[:start] + text[end:], encoding="utf-8")
    assert run(["spec", "diff", str(spec_dir()), str(new)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "property L11.turn breaking gone: it is promised no more embedders ledgers" in out
    assert run(["spec", "diff", str(new), str(spec_dir())]) == 0
    assert "property L11.turn added new" in " ".join(capsys.readouterr().out.split())


def test_laws_that_are_gone(new: Path, capsys: Captured) -> None:
    (new / "properties.toml").unlink()
    assert run(["spec", "diff", str(spec_dir()), str(new)]) == 1
    assert "the laws are gone" in capsys.readouterr().out
    assert run(["spec", "diff", str(new), str(spec_dir())]) == 0


def test_laws_that_can_not_be_read_are_named(new: Path, capsys: Captured) -> None:
    edit(new / "properties.toml", 'kind = "always"', 'kind = "mostly"')
    assert run(["spec", "diff", str(spec_dir()), str(new)]) == 2
    err = capsys.readouterr().err
    assert err.startswith('properties.toml, property L1.verdict_once: unknown kind "mostly"\n')
    assert err.endswith("nothing was compared: 1 fault.\n")


def test_what_can_not_be_compared_is_a_mistake_of_the_caller(new: Path, capsys: Captured) -> None:
    block = str(spec_dir() / "block.toml")
    assert run(["spec", "diff", block, str(new)]) == 2
    assert "both be directories" in capsys.readouterr().err
    assert run(["spec", "diff", block, str(new / "part.toml")]) == 2
    assert "OLD is the machine block and NEW is part" in capsys.readouterr().err
    assert run(["spec", "diff", block, str(new / "none.toml")]) == 2
    assert run(["spec", "diff", block]) == 2
    edit(new / "block.toml", 'to = "draining"', 'to = "drowning"')
    for old, other in ((block, new / "block.toml"), (str(spec_dir()), new)):
        capsys.readouterr()
        assert run(["spec", "diff", old, str(other)]) == 2
        err = capsys.readouterr().err
        assert "drowning" in err
        assert "nothing was compared: 1 fault." in err
