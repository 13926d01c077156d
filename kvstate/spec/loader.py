"""From the files of `spec/` to a `Machine` or a `Spec`, or to a list of sentences that say why not.

It knows no machine by name: every `*.toml` of the directory with a top-level `machine` key is one. The loader checks
that each file is whole and that every name in it stands for something; `rules` then says what else is wrong. Both
collect all they find before they refuse. A file is data from a stranger: its size and its counts are limited, and
nothing in it is ever run.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from kvstate.spec import rules, spec_dir
from kvstate.spec.expr import MAX_INT, Expr, Type, conjunction
from kvstate.spec.model import Act, Coupling, Event, EventKind, Machine, Param, Relation, Row, Spec, State, Var
from kvstate.spec.reading import (
    NAME,
    ROW_ID,
    Problems,
    SpecError,
    SpecErrors,
    Table,
    is_int,
    kind_of,
    place_of,
    read_toml,
)

__all__ = ["SpecError", "SpecErrors", "load_machine", "load_spec"]

COUPLING_FILE = "coupling.toml"
VERSION_FILE = "VERSION"
"""`COUPLING_FILE` and this stand beside the machine files."""

RESERVED = frozenset({"state", "name", "columns", "add", "extend", "renew", "choose", "fire", "copy", "slot", "event"})
"""Names that a table has already; a variable becomes an attribute beside them."""

_MACHINE_KEYS = ("machine", "title", "doc", "initial", "many", "invariant", "params", "vars", "states", "events", "row")
_ROW_KEYS = ("id", "from", "event", "when", "to", "set", "effects", "why")


def load_machine(path: Path, *, check: bool = True) -> Machine:
    """Read one machine file and hold it to the rules for a single machine (not with `check=False`).

    Raises `SpecErrors` with one sentence for each thing that is wrong.
    """
    machine = _machine(path, read_toml(path))
    if check:
        _refuse(rules.check_machine(machine))
    return machine


def load_spec(directory: Path | None = None, *, check: bool = True) -> Spec:
    """Read a whole directory, the package's own without an argument, and hold it to all rules.

    Machines come in order of their files' names. Raises `SpecErrors` with what is wrong in all of the files.
    """
    directory = spec_dir() if directory is None else directory
    errors: list[SpecError] = []
    machines: list[Machine] = []
    coupling: dict[str, Any] = {}
    for path in sorted(directory.glob("*.toml")):
        try:
            data = read_toml(path)
            if path.name == COUPLING_FILE:
                coupling = data
            elif "machine" in data:
                machines.append(_machine(path, data))
        except SpecErrors as found:
            errors += found.errors
    version = _version(directory, errors)
    if errors:
        raise SpecErrors(errors)
    if not machines:
        raise SpecErrors([SpecError(directory.name, "", "machine", "there is no machine file in this directory")])
    spec = _couple(version, tuple(machines), coupling)
    if check:
        _refuse(rules.check_spec(spec))
    return spec


def _refuse(errors: list[SpecError]) -> None:
    if errors:
        raise SpecErrors(errors)


def _version(directory: Path, errors: list[SpecError]) -> str:
    try:
        version = (directory / VERSION_FILE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        version = ""
    if not version or len(version) > 64 or not version.isprintable():
        errors.append(SpecError(VERSION_FILE, "", VERSION_FILE, "the version of the spec is missing or not one word"))
    return version


# --- One machine ----------------------------------------------------------------------------------------------------


def _machine(path: Path, data: Mapping[str, Any]) -> Machine:
    problems = Problems(path.name)
    top = Table(data, "the machine", problems, _MACHINE_KEYS)
    name = top.word("machine")
    _well_named(top, "machine", name)
    if name != path.stem:
        top.complain(name, f'the machine is called "{name}" and its file "{path.name}"; the names must be the same')
    params = _params(top)
    variables = _vars(top, {param.name for param in params})
    types: dict[str, Type] = {var.name: var.type for var in variables}
    types.update({param.name: "int" for param in params})
    general = top.expression("invariant", top.word("invariant", "True"), types, "bool")
    states = _states(top, types, general)
    events = tuple(
        Event(event, _kind(entry), entry.text("doc"))
        for event, entry in top.named("events", "event", ("kind", "doc"), required=True)
    )
    if initial := top.word("initial"):
        top.known(initial, "state", (state.name for state in states))
    rows = tuple(
        _row(number, row, problems, states, events, variables, types)
        for number, row in enumerate(top.tables("row", required=True), 1)
    )
    if (many := top.flag("many", False)) and any(var.initial is None for var in variables):
        top.complain("many", 'a machine with "many" has no variables that are given at birth')
    title, doc = top.text("title"), top.text("doc")
    machine = Machine(name, title, doc, initial, variables, params, states, events, rows, many, path.name)
    problems.raise_if_any()
    return machine


def _params(top: Table) -> tuple[Param, ...]:
    params = []
    for name, entry in top.named("params", "param", ("default", "min", "max", "doc")):
        param = Param(name, entry.number("default"), entry.number("min"), entry.number("max"), entry.text("doc"))
        whole = all(is_int(entry.data.get(key)) for key in ("default", "min", "max"))
        if whole and not param.min <= param.default <= param.max:
            entry.complain("default", f"the default {param.default} is not within {param.min} to {param.max}")
        _usable(name, entry, ())
        params.append(param)
    return tuple(params)


def _vars(top: Table, taken: Iterable[str]) -> tuple[Var, ...]:
    variables = []
    for name, entry in top.named("vars", "variable", ("type", "initial", "doc")):
        kind = entry.word("type")
        if kind not in ("int", "bool"):
            entry.complain(kind, f'the type "{kind}" is neither "int" nor "bool"')
            kind = "bool" if isinstance(entry.data.get("initial"), bool) else "int"
        value = entry.data.get("initial")
        if value is None:
            entry.complain("initial", '"initial" is missing')
        elif value != "given" and (type(value).__name__ != kind or (is_int(value) and abs(value) > MAX_INT)):
            entry.complain("initial", f'"initial" must be a value of type {kind} or "given", not {kind_of(value)}')
        _usable(name, entry, taken)
        initial = value if isinstance(value, int) else None
        variables.append(Var(name, cast(Type, kind), initial, entry.text("doc")))
    return tuple(variables)


def _usable(name: str, entry: Table, taken: Iterable[str]) -> None:
    if name in taken:
        entry.complain(name, f'"{name}" is a param and a variable')
    if name in RESERVED or keyword.iskeyword(name):
        entry.complain(name, f'the name "{name}" is taken: a table or the language has one already')


def _states(top: Table, types: Mapping[str, Type], general: Expr) -> tuple[State, ...]:
    states = []
    for name, entry in top.named("states", "state", ("home", "invariant", "doc"), required=True):
        own = entry.expression("invariant", entry.word("invariant", "True"), types, "bool")
        states.append(State(name, conjunction((own, general)), entry.flag("home", False), entry.text("doc")))
    return tuple(states)


def _kind(entry: Table) -> EventKind:
    kind = entry.word("kind")
    if kind not in ("request", "report", "signal"):
        entry.complain(kind, f'the kind "{kind}" is none of request, report, signal')
    return cast(EventKind, kind)


def _row(
    number: int,
    data: object,
    problems: Problems,
    states: tuple[State, ...],
    events: tuple[Event, ...],
    variables: tuple[Var, ...],
    types: Mapping[str, Type],
) -> Row:
    table = Table(data, place_of(data, "row", "id", f"row number {number}"), problems, _ROW_KEYS)
    row_id = _id(table)
    sources, fired, target = table.words("from", required=True), table.words("event", required=True), table.word("to")
    for source in sources:
        table.known(source, "state", (state.name for state in states))
    for event in fired:
        table.known(event, "event", (event.name for event in events))
    if target and target != "=":
        table.known(target, "state", (state.name for state in states))
    effects = table.words("effects", required=False)
    for effect in effects:
        _well_named(table, "effect", effect)
    when = table.expression("when", table.word("when", "True"), types, "bool")
    sets = _sets(table, variables, types)
    return Row(row_id, sources, fired, when, None if target == "=" else target, sets, effects, table.text("why"))


def _sets(table: Table, variables: tuple[Var, ...], types: Mapping[str, Type]) -> tuple[tuple[str, Expr], ...]:
    kinds = {var.name: var.type for var in variables}
    sets = []
    for name, value in table.table("set").items():
        if name in types and name not in kinds:
            table.complain(name, f'"{name}" is a param, which no row may set')
        elif table.known(name, "variable", kinds):
            source = value if isinstance(value, str) else str(value) if isinstance(value, int) else None
            if source is None:
                table.complain(name, f'"set" of {name} must be an expression, not {kind_of(value)}')
            else:
                sets.append((name, table.expression(f"set {name}", source, types, kinds[name])))
    return tuple(sets)


def _id(table: Table) -> str:
    word = table.word("id")
    if word and not ROW_ID.fullmatch(word):
        table.complain(word, f'the id "{word}" is not made of letters, digits and _ . -')
    return word


def _well_named(table: Table, kind: str, word: str) -> None:
    if not NAME.fullmatch(word):
        table.complain(word, f'the {kind} "{word}" is not made of small letters, digits and _')


# --- What couples them ----------------------------------------------------------------------------------------------


def _couple(version: str, machines: tuple[Machine, ...], data: Mapping[str, Any]) -> Spec:
    problems = Problems(COUPLING_FILE)
    top = Table(data, "the file", problems, ("relation", "coupling", "act"))
    by_name = {machine.name: machine for machine in machines}
    relations = tuple(_relation(entry, problems, by_name) for entry in top.tables("relation"))
    couplings = tuple(_coupling(entry, problems, by_name, relations) for entry in top.tables("coupling"))
    acts = tuple(_act(entry, problems, by_name) for entry in top.tables("act"))
    problems.raise_if_any()
    return Spec(version, machines, relations, couplings, acts)


def _relation(data: object, problems: Problems, machines: Mapping[str, Machine]) -> Relation:
    table = Table(data, place_of(data, "relation", "name", "a relation"), problems, ("name", "of", "to", "doc"))
    relation = Relation(table.word("name"), table.word("of"), table.word("to"), table.text("doc"))
    _well_named(table, "relation", relation.name)
    for end in (relation.of, relation.to):
        table.known(end, "machine", machines)
    return relation


def _coupling(
    data: object, problems: Problems, machines: Mapping[str, Machine], relations: tuple[Relation, ...]
) -> Coupling:
    table = Table(
        data, place_of(data, "coupling", "id", "a coupling"), problems, ("id", "effect", "event", "over", "ask", "why")
    )
    machine, effect = _effect(table, machines)
    target, _, event = table.word("event").partition(".")
    known = table.known(target, "machine", machines)
    if known:
        table.known(event, f"event of {target}", (event.name for event in machines[target].events))
    over = table.word("over")
    if table.known(over, "relation", (relation.name for relation in relations)):
        relation = next(relation for relation in relations if relation.name == over)
        if known and machine in machines and (relation.of, relation.to) != (machine, target):
            table.complain(
                over,
                f'the relation "{over}" leads from {relation.of} to {relation.to}, '
                f"and this coupling from {machine} to {target}",
            )
    return Coupling(_id(table), machine, effect, target, event, over, table.flag("ask", False), table.text("why"))


def _act(data: object, problems: Problems, machines: Mapping[str, Machine]) -> Act:
    table = Table(data, place_of(data, "act", "id", "an act"), problems, ("id", "effect", "act", "order", "why"))
    machine, effect = _effect(table, machines)
    act, order = table.word("act"), table.word("order")
    _well_named(table, "act", act)
    if order not in ("before", "after"):
        table.complain(order, f'the order "{order}" is neither "before" nor "after"')
    return Act(_id(table), machine, effect, act, cast(Literal["before", "after"], order), table.text("why"))


def _effect(table: Table, machines: Mapping[str, Machine]) -> tuple[str, str]:
    """The machine and the effect of `"part.touch"`, both of which must exist."""
    machine, _, effect = table.word("effect").partition(".")
    if table.known(machine, "machine", machines):
        table.known(effect, f"effect of {machine}", machines[machine].effects)
    return machine, effect
