"""The file of results, the list of known survivors, and what is told of both."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvstate._version import __version__
from kvstate.mutation.kills import Result
from kvstate.spec.reading import Problems, Table, read_toml

FILE = Path("docs/data/mutation.json")
"""Where the last run over all mutants lies, from the root of a checkout."""
KNOWN = Path(__file__).with_name("survivors.toml")
"""The list of known survivors."""


class ResultsError(ValueError):
    """A file that holds no results; a sentence."""


@dataclass(frozen=True)
class Results:
    """What a run found of `mutants` of the spec; `spec` and `kvstate` are the versions that it was made from."""

    spec: str
    mutants: tuple[Result, ...]
    code: tuple[Result, ...] = ()
    """Of the faults that are planted in the code."""
    kvstate: str = __version__

    @property
    def by_name(self) -> dict[str, Result]:
        """The results of mutants of the spec."""
        return {result.name: result for result in self.mutants}

    def text(self) -> str:
        """As it stands in the file: JSON, a line for each mutant."""
        head = f'{{"kvstate": {json.dumps(self.kvstate)}, "spec": {json.dumps(self.spec)}'
        return f'{head},\n"mutants": {_lines(self.mutants)},\n"code": {_lines(self.code)}}}\n'


def _lines(results: Iterable[Result]) -> str:
    lines = [json.dumps(result.as_dict(), ensure_ascii=False, separators=(",", ":")) for result in results]
    return "[\n" + ",\n".join(lines) + "\n]"


def read(file: Path) -> Results:
    """The results in a file. Errors: `ResultsError` for a file that holds none, `OSError` where it can't be read."""
    try:
        told: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        mutants, code = (tuple(Result.from_dict(one) for one in told[name]) for name in ("mutants", "code"))
        return Results(told["spec"], mutants, code, told["kvstate"])
    except (ValueError, KeyError, TypeError):
        raise ResultsError(f"{file} holds no results of kvstate mutate; remove it, or name another file") from None


def write(results: Results, file: Path) -> None:
    """Write them; an interrupted run leaves the file before it whole. Errors: `OSError`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(results.text(), encoding="utf-8")
    os.replace(beside, file)  # noqa: PTH105 - the one call that replaces a file in one step everywhere


@dataclass(frozen=True)
class Known:
    """The list of survivors: a sentence for each, by the mutant's name."""

    survivors: Mapping[str, str]
    former: Mapping[str, str]
    """Those that were noticed by nothing once."""


def known(file: Path = KNOWN) -> Known:
    """Read the list. Errors: `SpecErrors` for what is wrong with it."""
    problems = Problems(file.name)
    top = Table(read_toml(file), "the file", problems, ("survivor", "former"))
    lists: list[dict[str, str]] = []
    for kind in ("survivor", "former"):
        lists.append({})
        for number, data in enumerate(top.tables(kind), 1):
            entry = Table(data, f"{kind} number {number}", problems, ("name", "why"))
            name = entry.word("name")
            if name in lists[-1]:
                entry.complain(name, f'"{name}" is listed twice')
            lists[-1][name] = entry.text("why")
    problems.raise_if_any()
    return Known(*lists)


def faults(results: Iterable[Result], listed: Known) -> list[str]:
    """What is wrong with these results: a sentence for each, none if all is as it should be."""
    found = []
    for result in results:
        if result.verdict == "survived" and result.name not in listed.survivors:
            found.append(f"{result.name}: nothing notices it ({result.note}), and {KNOWN.name} does not say why")
        if result.verdict != "survived" and result.name in listed.survivors:
            found.append(f"{result.name}: is {result.verdict}, and {KNOWN.name} says that nothing notices it")
    return found
