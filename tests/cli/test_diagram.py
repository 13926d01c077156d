"""`kvstate diagram`: formats, couplings, a recorded run, and one sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvstate.cli import run
from kvstate.spec import diagram_render, spec_dir

Captured = pytest.CaptureFixture[str]
needs_pure = pytest.mark.skipif(
    diagram_render.pure_renderer() is None, reason="the package graphviz-pure is not installed"
)


@needs_pure
@pytest.mark.parametrize(("name", "start"), [("d.svg", b"<?xml"), ("d.png", b"\x89PNG"), ("d", b"<?xml")])
def test_a_picture_needs_nothing_that_pip_does_not_bring(
    name: str, start: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert run(["diagram", "service", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_where_nothing_draws_one_sentence_says_what_to_install(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(diagram_render, "renderer", lambda: None)
    assert run(["diagram", "part", "--format", kind]) == 1
    said = capsys.readouterr().err
    assert "pip install 'kvstate[diagram]'" in said
    assert "apt-get install graphviz" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("args", [["couplings"], ["--couplings"], ["couplings", "--couplings"]])
def test_the_couplings_by_word_or_option(args: list[str], capsys: Captured) -> None:
    assert run(["diagram", *args, "--format", "dot"]) == 0
    assert capsys.readouterr().out.startswith('digraph "couplings"')


def test_a_file_of_ones_own(tmp_path: Path, capsys: Captured) -> None:
    mine = tmp_path / "mine.toml"
    text = (spec_dir() / "service.toml").read_text(encoding="utf-8")
    mine.write_text(text.replace('"service"', '"mine"'), encoding="utf-8")
    assert run(["diagram", str(mine), "--format", "mermaid"]) == 0
    assert "serving --> draining : drain" in capsys.readouterr().out


def test_a_recorded_run(tmp_path: Path, capsys: Captured) -> None:
    record = tmp_path / "run.jsonl"
    rows = '{"n":1,"t":0.0,"row":"S02","m":"service","id":0,"from":"serving","to":"draining"}\n'
    record.write_text('{"kvstate":2,"spec":"0.1.0","settings":{}}\n' + rows, encoding="utf-8")
    assert run(["diagram", "service", "--format", "mermaid", "--highlight", str(record)]) == 0
    assert "serving --> draining : drain ×1\n" in capsys.readouterr().out
    assert run(["diagram", "couplings", "--format", "dot", "--highlight", str(record)]) == 0
    assert "0 happened in this run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "status", "sentence"),
    [
        (["--couplings", "block"], 2, "--couplings draws all machines of the spec, so name none."),
        (["coupling"], 2, "there is no machine 'coupling'"),
        (["block", "--format", "gif"], 2, "Invalid value for '--format'"),
        (["block", "--highlight", "none.jsonl"], 1, "none.jsonl could not be read: No such file or directory."),
    ],
)
def test_a_mistake_is_one_sentence(args: list[str], status: int, sentence: str, capsys: Captured) -> None:
    assert run(["diagram", *args]) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_bytes_are_not_for_a_terminal(kind: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(["diagram", "block", "--format", kind]) == 2
    assert f"{kind.upper()} is not for a terminal" in capsys.readouterr().err
