"""The command line as a whole: what every command does with help, with mistakes and with a closed pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from kvstate import __version__
from kvstate.cli import COMMANDS, INTERRUPTED, run

Captured = pytest.CaptureFixture[str]


def test_the_version(capsys: Captured) -> None:
    assert run(["--version"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"kvstate {__version__} (spec ")
    assert "unknown" not in out


def test_without_a_command_it_shows_what_there_is(capsys: Captured) -> None:
    assert run([]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_whose_first_line_agrees_with_the_list(name: str, capsys: Captured) -> None:
    assert run([name, "--help"]) == 0
    assert f"Usage: kvstate {name}" in capsys.readouterr().out
    assert import_module(COMMANDS[name][0]).command.name == name


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["repaly"], "kvstate: there is no command 'repaly'; did you mean replay?"),
        (["--vers"], "kvstate: No such option '--vers'"),
        (["spec", "blok"], "kvstate spec show: there is no machine 'blok'; did you mean block?"),
        (["explain", "CRC_MISMACH"], "kvstate explain: there is no code, raw code or row 'CRC_MISMACH'; did you mean"),
        (["diagram"], "kvstate diagram: name a machine or a file; there are block,"),
        (["diagram", "block", "--format", "gif"], "kvstate diagram: Invalid value for '--format'"),
        (["workload", "--requests", "0"], "kvstate workload: Invalid value for '--requests'"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(args: list[str], sentence: str, capsys: Captured) -> None:
    assert run(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(sentence)
    assert captured.err.count("\n") == 1


def test_control_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(click.Group, "main", interrupted)
    assert run(["spec"]) == INTERRUPTED
    assert capsys.readouterr().err == "kvstate: interrupted\n"


def test_what_must_be_quick_imports_neither_torch_nor_numpy() -> None:
    """Each in a process of its own: what an earlier test has imported does not count."""
    code = (
        "import sys, kvstate.cli\n"
        "kvstate.cli.run(sys.argv[1:])\n"
        "heavy = {'torch', 'numpy', 'z3', 'rich', 'hypothesis'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    for args in (
        ["--version"],
        ["--help"],
        ["spec", "--json"],
        ["explain", "404", "--json"],
        ["diagram", "key", "--format", "dot"],
    ):
        done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (args, done.stderr)
    done = subprocess.run(
        [sys.executable, "-c", "import sys, kvstate; print({'torch', 'numpy'} & set(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"


def test_as_a_module_and_into_a_closed_pipe() -> None:
    done = subprocess.run([sys.executable, "-m", "kvstate", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kvstate ")
    read, write = os.pipe()
    os.close(read)
    torn = subprocess.run(
        [sys.executable, "-m", "kvstate", "spec", "--json"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert torn.returncode == 1
    assert "Traceback" not in torn.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["spec --json", "workload --requests 50", "explain B21"])
def test_a_full_disk_is_one_sentence(command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        line = [sys.executable, "-m", "kvstate", *command.split()]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
