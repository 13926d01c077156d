"""Prints `codes.py` from `spec/errors.toml`: `python -m kvstate.errors.generate [--check]`.

The text comes out as `ruff format` would leave it, without needing ruff. Of the data only names, numbers and sentences
get into it, and those as literals. The package imports the old `codes.py` while the new one is printed: where a merge
left it broken, take either side first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from kvstate.errors.registry import CodeEntry, Driver, Registry, SpecErrors, load_errors
from kvstate.spec import spec_dir

ROOT = Path(__file__).resolve().parents[2]
CODES = "kvstate/errors/codes.py"
"""The file that is printed, from `ROOT`, which is the checkout."""
WIDTH = 120
"""Of a line. The text begins with `HEADER`, and has `PROPERTIES` in the middle."""
HEADER = '''# Generated from spec/errors.toml by `make tables`; do not edit.
"""The error codes, what is true of each, and how drivers' own codes translate. Nothing is parsed at import."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

'''
PROPERTIES = '''

class Properties(NamedTuple):
    """What the registry says of one code."""

    outcome: str
    """What a copier reports for a part that failed for this reason alone (`kvstate.machines.messages.Outcome`)."""
    stages: tuple[str, ...]
    """Where the code may be used."""
    retryable: bool
    """The part may be tried again at once. Beyond these, what a driver marks transient."""
    fatal: bool
    """The runtime cannot go on."""
    condemns: bool
    """The key is to blame: a miss until it is stored anew."""
    sentence: str
    """What happened, in one line."""
    remedy: str
    """What to do, in one line."""

'''


def render_errors(path: Path | None = None) -> dict[str, str]:
    """Path of each generated file, relative to the root of the repository -> its text.

    The same data gives the same text, byte for byte. Raises `SpecErrors` where the registry is refused.
    """
    return {CODES: render(load_errors(spec_dir() / "errors.toml" if path is None else path))}


def render(registry: Registry) -> str:
    """The text of `codes.py`."""
    lines = [
        HEADER.rstrip("\n"),
        "",
        *_tuple("STAGES: Final = ", (stage.name for stage in registry.stages)),
        '"""Where an error can happen, in the order of a block\'s way."""',
        "",
        "",
        *_enum(registry.codes),
        PROPERTIES.rstrip("\n"),
        "",
        "",
        *_properties(registry.codes, tuple(stage.name for stage in registry.stages)),
        "",
        *_translations(registry.drivers),
        "",
        *_transient(registry.drivers),
    ]
    return "\n".join(lines) + "\n"


def _text(words: str) -> str:
    """A literal of it, in double quotes."""
    return json.dumps(words, ensure_ascii=False)


def _tuple(head: str, words: Iterable[str], indent: str = "", tail: str = "") -> list[str]:
    items = [_text(word) for word in words]
    line = f"{indent}{head}({', '.join(items)}{',' if len(items) == 1 else ''}){tail}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{indent}{head}(", *(f"{indent}    {item}," for item in items), f"{indent}){tail}"]


def _enum(codes: Sequence[CodeEntry]) -> list[str]:
    lines = ["class Code(IntEnum):", '    """Why something did not work. The numbers are stable for ever."""', ""]
    for code in codes:
        sentence = code.sentence.replace("\\", "/").replace('"', "'")
        lines += [f"    {code.name} = {code.number}", f'    """{sentence}"""']
    return lines


def _properties(codes: Sequence[CodeEntry], stages: tuple[str, ...]) -> list[str]:
    lines = ["PROPERTIES: Final[dict[Code, Properties]] = {"]
    for code in codes:
        lines += [f"    Code.{code.name}: Properties(", f"        outcome={_text(code.outcome)},"]
        lines += ["        stages=STAGES,"] if code.stages == stages else _tuple("stages=", code.stages, " " * 8, ",")
        lines += [f"        {name}={getattr(code, name)}," for name in ("retryable", "fatal", "condemns")]
        lines += [f"        {name}={_text(getattr(code, name))}," for name in ("sentence", "remedy")]
        lines.append("    ),")
    return [*lines, "}", '"""For each code: what the registry says of it."""']


def _translations(drivers: Sequence[Driver]) -> list[str]:
    lines = ["TRANSLATIONS: Final[dict[str, dict[str, Code]]] = {"]
    for driver in drivers:
        lines.append(f"    {_text(driver.name)}: {{")
        lines += [f"        {_text(raw)}: Code.{code}," for raw, code in driver.raw]
        lines.append("    },")
    return [*lines, "}", '"""For each driver: its raw code, by name or number as a text, and what it means."""']


def _transient(drivers: Sequence[Driver]) -> list[str]:
    lines = ["TRANSIENT: Final[dict[str, frozenset[str]]] = {"]
    for driver in drivers:
        words = ", ".join(_text(raw) for raw in driver.transient)
        lines.append(f"    {_text(driver.name)}: frozenset({f'{{{words}}}' if words else ''}),")
    return [*lines, "}", '"""For each driver: the raw codes that may work another time."""']


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or with `--check` say which of them are not what the data gives; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m kvstate.errors.generate", description="Print codes.py.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file is out of date")
    check: bool = parser.parse_args(arguments).check
    try:
        files = render_errors()
    except SpecErrors as problems:
        print(problems, file=sys.stderr)
        return 2
    stale = [name for name, text in files.items() if _read(ROOT / name) != text]
    for name in stale:
        print(f"{name} is not what spec/errors.toml gives; run make tables" if check else f"wrote {name}")
        if not check:
            (ROOT / name).write_text(files[name], encoding="utf-8")
    return 1 if check and stale else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
