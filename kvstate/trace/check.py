"""A record held against the spec, row by row: is each row one that the spec allows there?

The checker keeps, for every record of every machine, the state and the variables that the spec says it has, and fires
each row of the record on them: the row must be known, leave the state that the record is in, be allowed by its guard,
and lead where the line says. Beside the rows it looks at the verdicts: one for each job and load, and the settlement of
a load not before its verdict (law L1). Nothing is guessed: what a record was born with is a line of its own.

Of what a ring wrote the beginning is missing. A record whose birth is not in it is believed to be in the state that its
first row leaves. Its variables are unknown until a row sets them; a guard that asks for one of them is not held against
it, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kvstate.machines.step import Values
from kvstate.spec.model import Machine, Row, Spec
from kvstate.trace.lines import Line, RecordError, read


class Violation(NamedTuple):
    """The first line of a record that the spec does not allow."""

    line: Line
    """The line, with its number in the file."""
    sentence: str
    """What is wrong with it."""
    record: tuple[str, int] | None
    """Machine and number of the record that it is about; None where it is about none."""


@dataclass(slots=True)
class Checked:
    """What a check has found."""

    lines: int = 0
    """How many lines were read, the first included."""
    rows: Counter[str] = field(default_factory=Counter)
    """How often each row has fired, by id."""
    violation: Violation | None = None
    """The first violating line; reading ends there."""
    lost: int = 0
    """How many lines are missing before the second: the record is the end of a run."""
    unasked: int = 0
    """How many guards could not be asked, since what is missing said the values of their variables."""


@dataclass(slots=True)
class _Record:
    state: str
    values: Values


class Checker:
    """Takes lines one after the other; see the module."""

    def __init__(self, spec: Spec, params: Mapping[str, int], lost: int = 0) -> None:
        """`params` are the values that the run had, by name; where it says nothing the spec's default holds. `lost` is
        how many lines are missing before the first.
        """
        self.unasked = 0
        """How many guards could not be asked, since a variable of theirs is unknown."""
        self._partial = lost > 0
        self._machines = {machine.name: machine for machine in spec.machines}
        self._rows = {(machine.name, row.id): row for machine in spec.machines for row in machine.rows}
        self._params: dict[str, Values] = {
            machine.name: {param.name: params.get(param.name, param.default) for param in machine.params}
            for machine in spec.machines
        }
        self._records: dict[tuple[str, int], _Record] = {}
        self._told: set[tuple[str, int]] = set()
        self._time = 0.0

    def feed(self, line: Line) -> str | None:
        """Take a line; None, or the sentence that says why the spec does not allow it."""
        if line.time < self._time:
            return f"the time goes back from {self._time:g} to {line.time:g} s"
        self._time = line.time
        match line.kind:
            case "row":
                return self._fire(line)
            case "born":
                return self._bear(line)
            case "verdict":
                return self._tell(line)
            case _:
                return None

    def _bear(self, line: Line) -> str | None:
        name, number = line.record
        machine = self._machines.get(name)
        if machine is None:
            return f"there is no machine {name!r}; there are {', '.join(self._machines)}"
        given = {var.name for var in machine.vars if var.initial is None}
        said = line.data["born"]
        if not isinstance(said, dict) or set(said) != given:
            return f"{name} {number} is born with {said!r}, and is to be told {', '.join(sorted(given)) or 'nothing'}"
        if line.record in self._records:
            return f"{name} {number} is born twice"
        self._records[line.record] = _Record(machine.initial, self._newborn(machine) | said)
        return None

    def _newborn(self, machine: Machine) -> Values:
        return {var.name: var.initial for var in machine.vars if var.initial is not None}

    def _fire(self, line: Line) -> str | None:
        name, number = line.record
        machine, row = self._machines.get(name), self._rows.get((name, str(line.data["row"])))
        if machine is None:
            return f"there is no machine {name!r}; there are {', '.join(self._machines)}"
        if row is None:
            return f"{name} {number} fires {line.data['row']!r}, and the machine has no such row"
        record = self._records.get(line.record)
        if record is None:
            if self._partial:
                record = _Record(str(line.data.get("from")), {})
            elif any(var.initial is None for var in machine.vars):
                return f"{name} {number} fires {row.id} and was never born"
            else:
                record = _Record(machine.initial, self._newborn(machine))
            self._records[line.record] = record
        wrong = self._refusal(row, record, line, self._params[name])
        if wrong is not None:
            return f"{name} {number} fires {row.id} {wrong}"
        values = record.values | self._params[name]
        for var, right in row.sets:
            if right.names <= values.keys():
                record.values[var] = right.evaluate(values)
            else:
                record.values.pop(var, None)
        record.state = line.data["to"]
        return None

    def _refusal(self, row: Row, record: _Record, line: Line, params: Values) -> str | None:
        """Why the row can't fire on this record; None if it can."""
        said = line.data.get("from"), line.data.get("to")
        if said[0] != record.state:
            return f"from {said[0]}, and is {record.state}"
        if record.state not in row.sources:
            return f"in {record.state}, which it does not leave; it leaves {', '.join(row.sources)}"
        values = record.values | params
        if not row.when.names <= values.keys():
            self.unasked += 1
        elif not row.when.evaluate(values):
            asked = {name: values[name] for name in sorted(row.when.names)}
            shown = ", ".join(f"{name} {value}" for name, value in asked.items())
            return f"though its guard does not hold: {row.when.source} with {shown}"
        after = record.state if row.to is None else row.to
        return None if said[1] == after else f"to {said[1]}, and the row leads to {after}"

    def _tell(self, line: Line) -> str | None:
        kind = line.data["verdict"]
        if kind == "fatal":
            return f"the ledger was poisoned: {line.data.get('law')}: {line.data.get('sentence')}"
        number = line.data.get("job" if kind == "job" else "load")
        if type(number) is not int or kind not in ("job", "load", "settled"):
            return f"a verdict of kind {kind!r} about {number!r}"
        what = "job" if kind == "job" else "load"
        if kind == "settled" and ("load", number) not in self._told and not self._partial:
            return f"load {number} is settled before it was told (law L1)"
        if (kind, number) in self._told:
            return f"{what} {number} is {'settled' if kind == 'settled' else 'told'} a second time (law L1)"
        self._told.add((kind, number))
        return None


def check_lines(checker: Checker, lines: Iterable[Line]) -> Checked:
    """Feed all lines up to the first that is not allowed. Errors: `RecordError` as `read`."""
    found = Checked(lines=1)
    for line in lines:
        found.lines = line.number
        sentence = checker.feed(line)
        if sentence is not None:
            record = line.record if line.kind in ("row", "born") else None
            found.violation = Violation(line, sentence, record)
            break
        if line.kind == "row":
            found.rows[line.data["row"]] += 1
    found.unasked = checker.unasked
    return found


def check(path: Path, spec: Spec) -> Checked:
    """Read a whole record and hold it against the spec.

    Errors: `RecordError` where the file can't be read as a record, or is of another version of the spec.
    """
    header, lines = read(path)
    if header.spec != spec.version:
        raise RecordError(
            f"{path}:1: the record is of spec {header.spec} and held against spec {spec.version}; give the spec "
            "that ran with --spec"
        )
    found = check_lines(Checker(spec, header.params, header.lost), lines)
    found.lost = header.lost
    return found
