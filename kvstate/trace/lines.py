"""The lines of a record, one by one, each looked at before anybody relies on it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvstate.spec.diagram_record import FORMAT

KINDS = ("row", "born", "in", "out", "verdict")
"""What a line can be: the key that it has says which."""


class RecordError(ValueError):
    """What can't be read as a record; the sentence names file, line and remedy."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a record."""

    number: int
    """Its number in the file, from 1."""
    kind: str
    """One of `KINDS`."""
    data: Mapping[str, Any]
    """What stands in it."""

    @property
    def time(self) -> float:
        """The ledger's time in seconds."""
        return float(self.data["t"])

    @property
    def record(self) -> tuple[str, int]:
        """Of a row or a birth: the machine, and the number of the record."""
        return self.data["m"], self.data["id"]


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a record."""

    spec: str
    """The version of the spec that ran."""
    params: Mapping[str, int]
    """The params of the machines, by name."""
    lost: int = 0
    """How many lines there were before the second that are not in the file; more than none in what a ring wrote."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the run, in plain values; whose they are and what they mean is the writer's."""


def read(path: Path) -> tuple[Header, Iterator[Line]]:
    """The first line, and then the others as they are asked for.

    Errors: `RecordError`, here for the first line and from the iterator for the others: no JSON, no record, a line that
    is missing or cut off.
    """
    lines = _objects(path)
    first = next(lines, None)
    if first is None:
        raise RecordError(f"{path} is empty; a record begins with a line that says what wrote it")
    _, data = first
    if data.get("kvstate") != FORMAT:
        raise RecordError(
            f"{path}:1: this is no record of format {FORMAT} (it says {data.get('kvstate')!r}); record the run again "
            "with kvstate replay --trace-out"
        )
    params = data.get("params")
    if not isinstance(params, dict) or not all(type(value) is int for value in params.values()):
        raise RecordError(f"{path}:1: the params of the machines are missing; record the run again")
    lost = data.get("lost", 0)
    if type(lost) is not int or lost < 0:
        raise RecordError(f"{path}:1: {lost!r} lines are said to be lost, which is no count; write the record again")
    settings = data.get("settings")
    said = settings if isinstance(settings, dict) else {}
    return Header(str(data.get("spec")), params, lost, said), _lines(path, lines)


def _lines(path: Path, objects: Iterator[tuple[int, Mapping[str, Any]]]) -> Iterator[Line]:
    for number, data in objects:
        kind = next((kind for kind in KINDS if kind in data), None)
        if kind is None:
            raise RecordError(f"{path}:{number}: neither row nor input nor effect nor verdict; is this a record?")
        if data.get("n") != number - 1:
            raise RecordError(
                f"{path}:{number}: this is line {data.get('n')!r} of its record and should be {number - 1}"
            )
        if type(data.get("t")) not in (int, float):
            raise RecordError(f"{path}:{number}: the time is {data.get('t')!r} and no number of seconds")
        if kind in ("row", "born") and (type(data.get("m")) is not str or type(data.get("id")) is not int):
            raise RecordError(
                f"{path}:{number}: a {kind} names no record; it has a machine under m and a number under id"
            )
        yield Line(number, kind, data)


def _objects(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                try:
                    data = json.loads(text)
                except (ValueError, RecursionError):
                    cut = "" if text.endswith("\n") else "; it is the last one, so the record may have been cut off"
                    raise RecordError(f"{path}:{number}: the line is no JSON{cut}") from None
                if not isinstance(data, dict):
                    raise RecordError(f"{path}:{number}: the line is no JSON object")
                yield number, data
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise RecordError(f"{path} can't be read: {reason}") from None
