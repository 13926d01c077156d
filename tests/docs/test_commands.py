"""docs/commands.md: its examples are run as they stand there, and it has every command and every option.

The rule of its `console` blocks. Those of a section are run in their order, by bash, in a folder that holds the files
of the page's `toml` blocks (each begins with a comment that is its name). A line `$ ...` is a command; what stands
below it, up to the next one, is all that it prints, on stdout and stderr. A line `...` stands for any number of lines,
`<seconds>` (any word in angle brackets) for one word that is not the same in every run; all else must be the same, but
for empty lines and for blanks at the end of a line. A command must end with status 0, unless the next one is
`$ echo $?`, which shows it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from kvstate.cli import app
from kvstate.spec.diagram_render import renderer
from tests.docs import prefork
from tests.tidy.files import ROOT

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
WIDTH = "110"
"""Columns of the terminal that the examples were shown in."""
MARK = "@@@"
"""Printed between the outputs of a section, with the status."""


@dataclass(frozen=True)
class Example:
    """A command of the page, and what is shown below it."""

    command: str
    shown: tuple[str, ...]


def sections() -> dict[str, str]:
    """The text below each heading that is a command, up to the next heading."""
    parts = re.split(r"(?m)^##+ (.+)$", PAGE)
    return {head.strip("`"): text for head, text in zip(parts[1::2], parts[2::2], strict=True) if head.startswith("`")}


def examples(text: str) -> list[Example]:
    found: list[Example] = []
    for block in re.findall(r"(?ms)^```console\n(.*?)^```$", text):
        assert block.startswith("$ "), block
        for part in re.split(r"(?m)^\$ ", block)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            found.append(Example(command, tuple(shown)))
    return found


def files() -> dict[str, str]:
    blocks = re.findall(r"(?ms)^```toml\n(# (\S+\.toml)\n.*?)^```$", PAGE)
    return {name: text for text, name in blocks}


def agrees(shown: Iterable[str], out: str) -> bool:
    """Is this what was printed? By the rule above."""
    lines = []
    for line in filter(str.strip, shown):
        words = re.split(r"<[a-z]+>", line.rstrip())
        lines.append(r"(?:[^\n]*\n)*?" if line == "..." else r"\S+".join(map(re.escape, words)) + r"\n")
    said = "".join(f"{line.rstrip()}\n" for line in out.splitlines() if line.strip())
    return re.fullmatch("".join(lines), said) is not None


def play(told: list[Example], folder: Path, ready: Path) -> list[tuple[int, str]]:
    """Run the commands one after the other in one shell; of each the status and all that it printed."""
    script = ['kvstate() { "$PYTHON" -I -S "$PREFORK" "$READY" "$@"; }', "status=0"]
    for example in told:
        script += [f"(exit $status); {{ {example.command}\n}} 2>&1", f'status=$?; echo "{MARK} $status"']
    environment = os.environ | {"COLUMNS": WIDTH, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    environment |= {"PREFORK": prefork.__file__, "READY": str(ready)}
    environment.pop("PYTEST_CURRENT_TEST", None)
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    parts = re.split(rf"(?m)^{MARK} (\d+)\n", done.stdout)
    assert len(parts) == 2 * len(told) + 1, done.stdout + done.stderr
    return [(int(status), out) for out, status in zip(parts[::2], parts[1::2], strict=False)]


SECTIONS = sections()


@pytest.mark.parametrize("name", SECTIONS)
def test_the_examples_are_what_happens(name: str, tmp_path: Path, ready: Path) -> None:
    told = examples(SECTIONS[name])
    commands = " ".join(example.command for example in told)
    if "kvstate replay" in commands or "kvstate doctor" in commands:
        pytest.importorskip("torch", reason="a replay copies real bytes, and torch is not installed")
    if re.search(r"\.(svg|png)\b", commands) and renderer() is None:
        pytest.skip("neither graphviz-pure nor the program `dot` is installed")
    if re.search(r"spec (check|diff)", commands) and find_spec("z3") is None:
        pytest.skip("guards are checked by z3, which is not installed")
    for file, text in files().items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    following = [example.command for example in told[1:]] + [""]
    for example, after, (status, out) in zip(told, following, play(told, tmp_path, ready), strict=True):
        if after != "echo $?":
            assert status == 0, f"$ {example.command}\n{out}"
        assert agrees(example.shown, out), f"$ {example.command} prints\n{out}"


@pytest.mark.parametrize(
    ("shown", "out", "same"),
    [
        ("a\n\nb", "a  \nb\n\n", True),
        ("a\n...\nd", "a\nb\nc\nd\n", True),
        ("...\nd", "d\n", True),
        ("took <seconds> s", "took 0.25 s\n", True),
        ("took <seconds> s", "took a while s\n", False),
        ("took <seconds> s", "took  s\n", False),
        ("a\n...\nd", "a\nd\ne\n", False),
        ("a", "a\nb\n", False),
        ("a\nb", "a\n", False),
        ("a.b", "axb\n", False),
        ("", "a\n", False),
    ],
)
def test_the_rule(shown: str, out: str, same: bool) -> None:
    assert agrees(shown.split("\n"), out) is same


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, each with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}")


COMMANDS = dict(commands(app, "kvstate"))


def test_every_command_has_its_section_and_every_section_its_command() -> None:
    assert set(SECTIONS) == set(COMMANDS)


def test_no_example_stands_where_it_is_not_run() -> None:
    run = [f"$ {example.command}" for text in SECTIONS.values() for example in examples(text)]
    assert run == re.findall(r"(?m)^ *(\$ .*)$", PAGE)
    assert set(re.findall(r"(?m)^```(\w+)", PAGE)) == {"console", "toml"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_told_and_no_other(name: str) -> None:
    told = set(re.findall(r"`(--?[a-z][a-z-]*)", re.sub(r"(?ms)^```.*?^```", "", SECTIONS[name])))
    there = {word for param in COMMANDS[name].params for word in (*param.opts, *param.secondary_opts) if word[0] == "-"}
    there |= {"--help", "-h"} if name == "kvstate" else set()
    assert told == there


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_shown_at_work_and_with_a_mistake(name: str) -> None:
    told = [example.command for example in examples(SECTIONS[name])]
    calls = [(one, after) for one, after in zip(told, [*told[1:], ""], strict=True) if one.startswith(name)]
    assert any(after != "echo $?" for _, after in calls), "an example of what it is for"
    assert any(after == "echo $?" for _, after in calls), "an example of a mistake"
    assert "status" in SECTIONS[name] or name in ("kvstate", "kvstate spec"), "the status that it ends with"
