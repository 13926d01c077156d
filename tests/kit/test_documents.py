"""docs/testing.md and the README of the naive engines: what they show is run, what they list is what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvstate.cli import run
from kvstate.testing import LAWS, Adapter, search
from kvstate.testing.adapter import FAULTS
from kvstate.testing.kit.play import VERBS
from kvstate.testing.kit.story import literal
from tests.kit.engines import NAIVE, naive
from tests.tidy.files import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
STORIES = (ROOT / "examples" / "naive_engines" / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", PAGE)


def test_the_python_of_the_page_runs() -> None:
    exec(compile("\n".join(blocks("python")), "testing.md", "exec"), {"__name__": "page"})  # noqa: S102  our own text


def test_the_example_is_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    command, *shown = blocks("console")[0].splitlines()
    assert run([*command.split()[2:], "--quiet"]) == 1
    said = capsys.readouterr()
    out = (said.out + said.err).splitlines()
    assert shown[1] == "..."
    assert shown[2:] == [line for line in out if line][-len(shown[2:]) :]
    assert re.sub(r"kvstate \S+,", "kvstate <version>,", out[0]) == shown[0]


def test_the_steps_and_the_test_shown_are_those() -> None:
    done = search(naive("free_at_abort"), steps=500)
    assert "\n".join(f"    {literal(step)}," for step in done.steps) in blocks("text")[1]


def test_the_tables_are_complete() -> None:
    rows = re.findall(r"(?m)^\| (`.+?) \| (.+?) \|", PAGE)
    told = {re.sub(r"`", "", name): what for name, what in rows}
    assert {law: told.get(law) for law in LAWS} == LAWS
    assert {fault: told.get(fault) for fault in FAULTS} == FAULTS
    assert {verb.split()[0] for name in told for verb in name.split(", ")} >= set(VERBS)
    for attribute in ("loads", "steps", "resets", "discards"):
        assert f"| `{attribute}` | `{getattr(Adapter, attribute)}` |" in PAGE
    assert str(Adapter.faults).replace("'", '"') in PAGE


@pytest.mark.parametrize(("engine", "status"), [("tiny:Tiny", 0), ("publish_before_copy:Engine", 1)])
def test_the_script_runs(engine: str, status: int, tmp_path: Path) -> None:
    [script] = blocks("sh")
    script = script.replace("--seconds 60", "--seconds 0.5").replace("python -m", f"{sys.executable} -m")
    (tmp_path / "fuzz.sh").write_text(script, encoding="utf-8")
    done = subprocess.run(
        ["sh", "fuzz.sh", f"examples.naive_engines.{engine}"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert (tmp_path / "counterexample").exists() == bool(status)


def test_the_recipe_asks_for_what_there_is() -> None:
    [recipe] = blocks("yaml")
    from kvstate.cli.fuzz import command
    from kvstate.testing import plugin

    text = Path(plugin.__file__).read_text(encoding="utf-8")
    options = {option for param in command.params for option in param.opts}
    for line in recipe.splitlines():
        for option in re.findall(r"(--[a-z-]+)", line):
            assert option in (options if "fuzz --" in line else text), line


def test_every_naive_engine_has_a_line_and_a_story_of_three_sentences() -> None:
    table = {name: (int(steps), set(re.findall(r"`(.+?)`", laws))) for name, steps, laws in
             re.findall(r"(?m)^\| \[(\w+)\]\(\w+\.py\) \| (\d+) \| (.+?) \|", STORIES)}  # fmt: skip
    assert {name: laws for name, (_, laws) in table.items()} == NAIVE
    stories = dict(re.findall(r"(?ms)^\*\*(\w+)\.\*\* (.+?)\n\n", STORIES))
    assert stories.keys() == NAIVE.keys()
    for name, story in stories.items():
        assert len(re.findall(r"\.(?:\s|$)", story)) == 3, name
    for name, (steps, _) in table.items():
        assert len(search(naive(name), seconds=10).steps) <= steps or steps == 8, name
    files = {path.stem for path in (ROOT / "examples" / "naive_engines").glob("*.py")}
    assert files == {*NAIVE, "tiny", "__init__"}
