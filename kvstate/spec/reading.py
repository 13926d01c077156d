"""Reading TOML from a stranger: typed, bounded, and able to say where it went wrong.

`Table` wraps one table of a file. Its methods never raise: what is missing or of the wrong kind goes onto the file's
list of problems with the place and the word, and a harmless value is returned, so that one pass finds all of them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kvstate.spec.expr import MAX_INT, TRUE, Expr, ExprError, Type, article, did_you_mean, parse

MAX_BYTES = 2**20
"""Of a file."""
MAX_ROWS = 1000
"""Entries of an array of tables."""
MAX_NAMES = 200
"""Entries of a table of tables."""
MAX_TEXT = 20_000
"""Characters of words for people."""

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""What a machine, a state, an event, a variable may be called."""
ROW_ID = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,31}")
"""The ids of rows, couplings and acts."""


class SpecError(ValueError):
    """One thing that is wrong with a spec: the file, the place in it, the word, and a sentence."""

    def __init__(self, file: str, place: str, word: str, sentence: str) -> None:
        whole = f"{file}, {place}: {sentence}" if place else f"{file}: {sentence}"
        super().__init__("".join(character if character.isprintable() else " " for character in whole))
        self.file = file
        self.place = place
        self.word = word
        self.sentence = sentence


class SpecErrors(ValueError):  # noqa: N818, it is several
    """All that is wrong with a spec; never empty. Prints one line each."""

    def __init__(self, errors: Iterable[SpecError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


class Problems:
    """The list that the tables of one file complain to."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.errors: list[SpecError] = []

    def add(self, place: str, word: str, sentence: str) -> None:
        """One thing that is wrong; `place` is empty where it is the file itself."""
        self.errors.append(SpecError(self.file, place, word, sentence))

    def raise_if_any(self) -> None:
        """Errors: `SpecErrors` with all that was added; nothing where nothing was."""
        if self.errors:
            raise SpecErrors(self.errors)


def read_toml(path: Path) -> dict[str, Any]:
    """The file as nested dictionaries; `SpecErrors` where it cannot be read, is too large or is no TOML."""
    problems = Problems(path.name)
    raw = b""
    try:
        if not path.is_file():
            problems.add("", path.name, "there is no such file" if not path.exists() else "this is not a file")
            problems.raise_if_any()
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            problems.add("", path.name, f"the file is larger than {MAX_BYTES} bytes")
            problems.raise_if_any()
        return tomllib.loads(raw.decode("utf-8"))
    except tomllib.TOMLDecodeError as problem:
        found = re.fullmatch(r"(?s)(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(problem))
        reason, line = (found[1], found[2]) if found else (str(problem), None)
        problems.add(f"line {line}" if line else "last line", "", f"not TOML: {reason[:1].lower()}{reason[1:]}")
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        problems.add(f"line {line}", "", "not UTF-8 text")
    except RecursionError:
        problems.add("", "", "tables or arrays are nested too deep")
    except OSError as problem:
        problems.add("", path.name, f"cannot be read: {problem.strerror}")
    raise SpecErrors(problems.errors)


class Table:
    """One table of a file and the keys that it may have. Unknown keys are refused at once."""

    def __init__(self, data: object, place: str, problems: Problems, keys: Iterable[str]) -> None:
        self.place = place
        self.problems = problems
        self.data: Mapping[str, Any] = data if isinstance(data, dict) else {}
        known = tuple(keys)
        if not isinstance(data, dict):
            self.complain("", f"expected a table, found {kind_of(data)}")
        for key in self.data:
            if key not in known:
                self.complain(key, f'unknown key "{key}"{did_you_mean(key, known)}')

    def complain(self, word: str, sentence: str) -> None:
        """Put a sentence about a word of this table onto the file's list."""
        self.problems.add(self.place, word, sentence)

    def _get(self, key: str, want: str, fits: Callable[[Any], bool], default: Any, required: bool) -> Any:
        if key not in self.data:
            if required:
                self.complain(key, f'"{key}" is missing')
            return default
        value = self.data[key]
        if fits(value):
            return value
        self.complain(key, f'"{key}" must be {want}, not {kind_of(value)}')
        return default

    def text(self, key: str) -> str:
        """Words for people: required, not blank."""
        value: str = self._get(key, "a text", lambda it: isinstance(it, str), "?", required=True)
        if not value.strip():
            self.complain(key, f'"{key}" is empty')
        if len(value) > MAX_TEXT:
            self.complain(key, f'"{key}" is longer than {MAX_TEXT} characters')
        return value.strip()

    def word(self, key: str, default: str | None = None) -> str:
        """A string that stands for something; `default` where the key is not there, required without one."""
        value: str = self._get(key, "a text", lambda it: isinstance(it, str), default or "", default is None)
        return value

    def flag(self, key: str, default: bool) -> bool:
        """`true` or `false`; `default` where the key is not there."""
        return bool(self._get(key, "true or false", lambda it: isinstance(it, bool), default, required=False))

    def number(self, key: str) -> int:
        """A whole number, required, within `MAX_INT` on either side of zero."""
        value: int = self._get(key, "a whole number", is_int, 0, required=True)
        if abs(value) > MAX_INT:
            self.complain(key, f'"{key}" is beyond {MAX_INT}')
        return value

    def words(self, key: str, required: bool) -> tuple[str, ...]:
        """A list of strings, not empty where it is required."""
        value: list[str] = self._get(key, "a list of texts", is_texts, [], required)
        if required and key in self.data and not self.data[key]:
            self.complain(key, f'"{key}" is empty')
        return tuple(value)

    def table(self, key: str, required: bool = False) -> dict[str, Any]:
        """A sub-table as it is, for whoever wraps its entries."""
        value: dict[str, Any] = self._get(key, "a table", lambda it: isinstance(it, dict), {}, required)
        return value

    def tables(self, key: str, required: bool = False) -> list[object]:
        """An array of tables, not longer than a file may have."""
        value: list[object] = self._get(key, "a list of tables", lambda it: isinstance(it, list), [], required)
        if len(value) > MAX_ROWS:
            self.complain(key, f'there are {len(value)} of "{key}"; {MAX_ROWS} is the limit')
        return value[:MAX_ROWS]

    def named(self, key: str, kind: str, keys: tuple[str, ...], required: bool = False) -> Iterator[tuple[str, Table]]:
        """The entries of a table of tables (`[states.free]`), each with the name that it stands under."""
        entries = self.table(key, required)
        if len(entries) > MAX_NAMES:
            self.complain(key, f'there are {len(entries)} of "{key}"; {MAX_NAMES} is the limit')
        for name, data in list(entries.items())[:MAX_NAMES]:
            entry = Table(data, f"{kind} {name}", self.problems, keys)
            if not NAME.fullmatch(name):
                entry.complain(name, f'the name "{name}" is not made of small letters, digits and _')
            yield name, entry

    def known(self, word: str, kind: str, names: Iterable[str]) -> bool:
        """Is this one of the names? If not, say so, with the name that is nearest."""
        names = tuple(names)
        if word not in names:
            self.complain(word, f'unknown {kind} "{word}"{did_you_mean(word, names)}')
        return word in names

    def expression(self, where: str, source: str, types: Mapping[str, Type], want: Type) -> Expr:
        """A parsed expression of the wanted type; `True` stands in for a broken one, which is on the list then."""
        try:
            expr = parse(source, types)
        except ExprError as problem:
            self.complain(problem.word, f"{where}: {problem.sentence}")
            return TRUE
        if expr.type != want:
            self.complain(source, f'{where}: "{source}" is {article(expr.type)}, and must be {article(want)}')
            return TRUE
        return expr


def place_of(data: object, kind: str, key: str, otherwise: str) -> str:
    """Where one is in a list of tables: `row B21` where the table has a usable id, else what the caller says."""
    name = data.get(key) if isinstance(data, dict) else None
    return f"{kind} {name}" if isinstance(name, str) and ROW_ID.fullmatch(name) else otherwise


def is_int(value: object) -> bool:
    """A whole number of TOML; `true` and `false` are none, though Python takes them for numbers."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_texts(value: object) -> bool:
    """A list, maybe empty, of nothing but texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def kind_of(value: object) -> str:
    """What a value of TOML is called in a sentence."""
    match value:
        case bool():
            return "true or false"
        case int():
            return f"the number {value}" if abs(value) < 10**12 else "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"
