"""What the README shows is run: its examples, its commands, and its list of the ledger's files."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from kvstate.cli import run
from kvstate.spec import spec_dir
from kvstate.spec.diagram_render import renderer
from tests.tidy.files import PACKAGE, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"(?ms)^```python\n(.*?)^```", README)
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for block in re.findall(r"(?ms)^```sh\n(.*?)^```", README)
    for line in block.splitlines()
    if line.startswith(".venv/bin/kvstate")
]
REPLAYS = [command for command in COMMANDS if command[0] == "replay"]
QUICK = [command for command in COMMANDS if command[0] != "replay"]
NOT_THE_LEDGER = {"__init__", "columns_base", "interpreted", "step"}
"""Files of `kvstate/machines` that stand elsewhere in the reading order, or that nobody has to read for the ledger."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[0])
def test_the_examples_run(example: str) -> None:
    if "kvstate.runtime" in example:
        pytest.importorskip("torch", reason="the loop copies real bytes, and torch is not installed")
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102  the project's own text


def test_there_is_something_to_run() -> None:
    assert len(EXAMPLES) == 2
    assert {command[0] for command in COMMANDS} == {"replay", "spec", "explain", "diagram", "doctor"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the commands speak of."""
    mine = (spec_dir() / "service.toml").read_text(encoding="utf-8").replace('"service"', '"mine"')
    (tmp_path / "mine.toml").write_text(mine, encoding="utf-8")
    for name in ("old-spec", "spec"):
        shutil.copytree(spec_dir(), tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert run(["workload", "--requests", "60", "-o", "trace.jsonl"]) == 0
    return tmp_path


@pytest.mark.parametrize("command", QUICK, ids=" ".join)
def test_a_command_does_what_it_says(command: list[str], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if command[0] == "diagram" and renderer() is None:
        pytest.skip("neither graphviz-pure nor the program `dot` is installed")
    assert run(command) == 0, capsys.readouterr().err
    if "-o" in command:
        assert (here / command[-1]).stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.parametrize("command", REPLAYS, ids=" ".join)
def test_a_replay_ends_as_it_should(command: list[str], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The short trace has no races, which is not the point here; a law that was taken out is missed."""
    pytest.importorskip("torch", reason="a replay copies real bytes, and torch is not installed")
    options = ["--quiet", "--no-race", "--block-bytes", "256"]
    assert run([*command, *options]) == (1 if "--break" in command else 0), capsys.readouterr().err


def test_every_file_of_the_ledger_is_in_the_reading_order() -> None:
    table = README.partition("\n| file | what to look for |\n")[2].partition("\n## ")[0]
    files = {path.stem for path in (PACKAGE / "machines").iterdir() if path.suffix == ".py" or path.name == "tables"}
    missing = files - set(re.findall(r"`([a-z_]+)`", table)) - NOT_THE_LEDGER
    assert not missing, f"the README's table of the ledger lacks {', '.join(sorted(missing))}"
    for cell in re.findall(r"(?m)^\| (`.+?) \|", table):
        for name in re.findall(r"`([a-z_]+)`", cell):
            assert name in files, f"the README's table of the ledger names {name}"
