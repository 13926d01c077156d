"""From `spec/properties.toml` to the laws, what would break them and what is assumed, or to sentences that say why not.

Nothing of it runs. What the rules guard is what the pages and the tests that are made from it rely on: a name is given
once, a property stands under a law, a law that nothing could break says nothing, and what is said to check a property
is there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kvstate.spec.expr import did_you_mean
from kvstate.spec.reading import Problems, Table, read_toml

PROPERTIES_FILE = "properties.toml"
"""Stands beside the machine files."""
KINDS = ("always", "never", "leads-to", "sometimes")
"""How a property could be broken; the head of the file says what each means."""
PARTNERS = ("copiers", "engine", "clock", "peers", "transport")
"""Of whom something is assumed."""
LAW = re.compile(r"[LP][1-9]\d?")
"""The name of a law: L of the ledger, P of two parties."""
PROPERTY = re.compile(r"([LP][1-9]\d?)\.[a-z][a-z0-9_]*")
"""The name of a property: that of its law, a dot, a word."""


@dataclass(frozen=True, slots=True)
class Law:
    """A promise: its `name` (`L3`), a `title` of a few words, and the promise in a `sentence`."""

    name: str
    title: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Property:
    """One way in which a `law` could be broken, by `name` (`L3.no_reuse`), `kind` and `sentence`, and what looks."""

    name: str
    law: str
    kind: str
    sentence: str
    checked_by: tuple[str, ...]
    """`file::symbol`, or a scenario's file. Empty is a debt."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """What is taken on trust `of` somebody, by `name` (`copier.proof`) and in a `sentence`."""

    name: str
    of: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Properties:
    """The file as it was read: `laws`, `properties` and `assumptions`, in its order."""

    laws: tuple[Law, ...]
    properties: tuple[Property, ...]
    assumptions: tuple[Assumption, ...]


def load_properties(path: Path, *, root: Path | None = None) -> Properties:
    """Read the file and hold it to its rules; with the checkout at `root`, what `checked_by` names must be there, too.

    Errors: `SpecErrors` with one sentence for each thing that is wrong.
    """
    problems = Problems(path.name)
    top = Table(read_toml(path), "", problems, ("law", "property", "assumption"))
    laws = tuple(
        Law(name, entry.text("title"), entry.text("sentence"))
        for name, entry in _named(top, "law", ("name", "title", "sentence"))
    )
    found = tuple(
        Property(name, entry.word("law"), entry.word("kind"), entry.text("sentence"), entry.words("checked_by", False))
        for name, entry in _named(top, "property", ("name", "law", "kind", "sentence", "checked_by"))
    )
    assumptions = tuple(
        Assumption(name, entry.word("of"), entry.text("sentence"))
        for name, entry in _named(top, "assumption", ("name", "of", "sentence"))
    )
    _check_names(top, [*laws, *found, *assumptions])
    for law in laws:
        _check_law(law, found, problems)
    for each in found:
        _check_property(each, [law.name for law in laws], problems, root)
    for one in assumptions:
        _entry(f"assumption {one.name}", problems).known(one.of, "partner", PARTNERS)
    problems.raise_if_any()
    return Properties(laws, found, assumptions)


def _named(top: Table, kind: str, keys: tuple[str, ...]) -> Iterator[tuple[str, Table]]:
    """The entries of `[[kind]]` that have a name; the others are complained of."""
    for number, data in enumerate(top.tables(kind, True), 1):
        name: Any = data.get("name") if isinstance(data, dict) else None
        place = f"{kind} {name}" if isinstance(name, str) and name else f"{kind} number {number}"
        entry = Table(data, place, top.problems, keys)
        entry.word("name")
        for key in keys:
            if key == "checked_by" and key not in entry.data:
                entry.complain(key, '"checked_by" is missing; an empty list says that nothing checks it yet')
        if isinstance(name, str) and name:
            yield name, entry


def _entry(place: str, problems: Problems) -> Table:
    return Table({}, place, problems, ())


def _check_names(top: Table, all_of_them: Iterable[Law | Property | Assumption]) -> None:
    seen: set[str] = set()
    for each in all_of_them:
        if each.name in seen:
            top.problems.add(f"{type(each).__name__.lower()} {each.name}", each.name, f'"{each.name}" is there twice')
        seen.add(each.name)


def _check_law(law: Law, found: Iterable[Property], problems: Problems) -> None:
    entry = _entry(f"law {law.name}", problems)
    if not LAW.fullmatch(law.name):
        entry.complain(law.name, f'a law is called L or P and a number, not "{law.name}"')
    if all(each.law != law.name for each in found):
        entry.complain(law.name, f"no property stands under {law.name}: say how it could be broken, or take it out")
    _check_sentence(entry, law.sentence)


def _check_property(each: Property, laws: list[str], problems: Problems, root: Path | None) -> None:
    entry = _entry(f"property {each.name}", problems)
    named = PROPERTY.fullmatch(each.name)
    entry.known(each.law, "law", laws)
    entry.known(each.kind, "kind", KINDS)
    if named is None or named[1] != each.law:
        entry.complain(each.name, f'a property is called by its law, a dot and a word, as "{each.law}.some_word"')
    _check_sentence(entry, each.sentence)
    for check in sorted({check for check in each.checked_by if each.checked_by.count(check) > 1}):
        entry.complain(check, f'"{check}" is named twice')
    if root is not None:
        for check in each.checked_by:
            if fault := missing(check, root):
                entry.complain(check, f"it is checked by {check}, and {fault}")


def _check_sentence(entry: Table, sentence: str) -> None:
    if not sentence.endswith("."):
        entry.complain("sentence", '"sentence" must end with a full stop')


def missing(check: str, root: Path) -> str:
    """Why `file::symbol`, or the file of a scenario, is not there in the checkout at `root`; empty if it is."""
    file, separator, symbol = check.partition("::")
    path = root / file
    if not path.is_file():
        return "there is no such file"
    if path.suffix != ".py":
        return "a file that is no Python has no symbols; name the file alone" if separator else ""
    known = symbols(path)
    return "" if symbol in known else f'the file has no "{symbol}"{did_you_mean(symbol, sorted(known))}'


@cache
def symbols(path: Path) -> frozenset[str]:
    """Functions, classes and methods of a Python file, methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return frozenset(found)
