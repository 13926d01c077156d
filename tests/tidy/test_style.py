"""Sizes and words. What is said of public names is `test_documented`'s."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.files import ROOT, functions, is_generated, parsed, python_files, shown

FILE_LINES = {"kvstate": 300, "bench": 300, "tests": 500}
FUNCTION_LINES = 70
INTERPRETER_LINES = 80

WRITTEN = [path for path in python_files("kvstate", "bench", "tests") if not is_generated(path)]

FORBIDDEN = {
    # The texts speak of the project, not of how it came about or of one machine's folders.
    "ses" + "sion": re.compile(r"\bses" + r"sions?\b(?<!scope=\"ses" + r"sion)", re.IGNORECASE),
    "/wo" + "rk/": re.compile(r"(?<![\w.])/wo" + r"rk/"),
    "/tm" + "p/": re.compile(r"(?<![\w.])/tm" + r"p/"),
    "helper ag" + "ent": re.compile(r"\b(helper|sub)[ -]?ag" + r"ents?\b", re.IGNORECASE),
    "to" + "do": re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"),
}


def test_a_file_can_be_read_in_one_go() -> None:
    for path in WRITTEN:
        limit = FILE_LINES[path.relative_to(ROOT).parts[0]]
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= limit, f"{shown(path)} has {lines} lines; {limit} is the limit"


def test_a_function_can_be_seen_at_once() -> None:
    for path in WRITTEN:
        for function in functions(parsed(path)):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            where = f"{shown(path)}:{function.lineno} {function.name}"
            assert lines <= FUNCTION_LINES, f"{where} has {lines} lines; {FUNCTION_LINES} is the limit"


def test_the_interpreter_is_short() -> None:
    path = ROOT / "kvstate" / "machines" / "step.py"
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= INTERPRETER_LINES, f"{shown(path)} has {lines} lines; the reference must be seen at once"


def texts() -> list[Path]:
    """All that a reader sees: code, data, documents, scripts."""
    found = [
        *python_files("kvstate", "bench", "tests"),
        *ROOT.glob("*.md"),
        ROOT / "Makefile",
        ROOT / "pyproject.toml",
        ROOT / "NOTICE",
    ]
    for folder in ("spec", "docs", "tests", ".ci"):
        found += [
            path
            for path in sorted((ROOT / folder).rglob("*"))
            if path.is_file() and path.suffix not in (".py", ".pyc", ".svg")
        ]
    return found


def test_no_text_speaks_of_anything_but_the_project() -> None:
    for path in texts():
        try:
            content = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # no text
        for number, line in enumerate(content.splitlines(), start=1):
            for word, pattern in FORBIDDEN.items():
                assert not pattern.search(line), f"{shown(path)}:{number} says {word}: {line.strip()}"
