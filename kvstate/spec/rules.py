"""The rules that a machine and a whole spec must keep, beyond reading well.

Each is a small generator of complaints with a docstring that says why; `check_machine` runs those that one file can be
held to (so also somebody's own machine), `check_spec` all of them. What needs arithmetic (guards that overlap, reports
with a gap, broken invariants) is the prover's: `kvstate.proof`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from kvstate.spec.expr import Name
from kvstate.spec.model import Machine, Row, Spec
from kvstate.spec.reading import SpecError

Complaints = Iterator[SpecError]
"""What a rule finds, in file order; nothing where it is kept."""
MachineRule = Callable[[Machine], Complaints]
"""A rule that one machine can be held to alone."""
SpecRule = Callable[[Spec], Complaints]
"""A rule that only the whole spec can be held to."""

COUPLING_FILE = "coupling.toml"
"""The file that complaints about relations, couplings and acts name."""


def check_machine(machine: Machine) -> list[SpecError]:
    """Every break of the rules for one machine, in the order of `MACHINE_RULES`."""
    return [error for rule in MACHINE_RULES for error in rule(machine)]


def check_spec(spec: Spec) -> list[SpecError]:
    """Every break of any rule: first machine by machine, then what only the whole can show."""
    alone = [error for machine in spec.machines for error in check_machine(machine)]
    return alone + [error for rule in SPEC_RULES for error in rule(spec)]


# --- One machine ----------------------------------------------------------------------------------------------------


def ids_are_unique(machine: Machine) -> Complaints:
    """An id names one row for ever: records, scenarios and properties point at it."""
    for row_id, count in Counter(row.id for row in machine.rows).items():
        if count > 1:
            yield _row_error(machine, row_id, row_id, f'the id "{row_id}" is used {count} times')


def rows_say_each_word_once(machine: Machine) -> Complaints:
    """A state or an event listed twice in one row is a slip of the pen, often for another name."""
    for row in machine.rows:
        for kind, words in (("state", row.sources), ("event", row.events)):
            for word in _twice(words):
                yield _row_error(machine, row.id, word, f'the {kind} "{word}" is listed twice')


def staying_is_written_as_staying(machine: Machine) -> Complaints:
    """`=` says that nothing moves; the state's own name leaves the reader to find that out."""
    for row in machine.rows:
        if row.to is not None and row.sources == (row.to,):
            yield _row_error(machine, row.id, row.to, f'"to" names its only source "{row.to}"; write to = "="')


def sets_change_something(machine: Machine) -> Complaints:
    """A counter set to itself does nothing; something else was meant."""
    for row in machine.rows:
        for name, value in row.sets:
            if value.node == Name(name, value.type):
                yield _row_error(machine, row.id, name, f'"{name}" is set to itself')


def variables_are_read(machine: Machine) -> Complaints:
    """A boolean or a counter beside the state is allowed only where a guard or an invariant speaks of it."""
    read = _names_in_conditions(machine)
    for var in machine.vars:
        if var.name not in read:
            sentence = f'no guard and no invariant reads the variable "{var.name}"'
            yield SpecError(machine.file, f"variable {var.name}", var.name, sentence)


def params_are_used(machine: Machine) -> Complaints:
    """A param that nothing reads promises a choice that makes no difference."""
    used = _names_in_conditions(machine)
    used.update(name for row in machine.rows for _, value in row.sets for name in value.names)
    for param in machine.params:
        if param.name not in used:
            yield SpecError(machine.file, f"param {param.name}", param.name, f'nothing uses the param "{param.name}"')


def events_are_answered(machine: Machine) -> Complaints:
    """An event that no row answers in any state is a word without a meaning."""
    answered = {event for row in machine.rows for event in row.events}
    for event in machine.events:
        if event.name not in answered:
            yield SpecError(machine.file, f"event {event.name}", event.name, f'no row answers "{event.name}"')


def reports_have_rows_everywhere(machine: Machine) -> Complaints:
    """The world may report at any time (L6), so each state needs a row for each report; guards are the prover's."""
    for event in machine.events:
        if event.kind == "report":
            for state in machine.states:
                if not machine.cell(state.name, event.name):
                    sentence = f'no row answers the report "{event.name}" in the state "{state.name}"'
                    yield SpecError(machine.file, f"event {event.name}", state.name, sentence)


def rows_of_a_cell_differ(machine: Machine) -> Complaints:
    """Two rows of one cell with the same guard, or one of them without any, overlap for all to see."""
    told = set()
    for state in machine.states:
        for event in machine.events:
            for one, other in combinations(machine.cell(state.name, event.name), 2):
                same = one.when.node == other.when.node
                if (same or one.when.is_true or other.when.is_true) and (one.id, other.id) not in told:
                    told.add((one.id, other.id))
                    guards = "have the same guard" if same else "overlap: one of them has no guard"
                    sentence = f'{one.id} and this row both answer "{event.name}" in "{state.name}" and {guards}'
                    yield _row_error(machine, other.id, one.id, sentence)


def states_are_reachable(machine: Machine) -> Complaints:
    """A state that no path of rows leads to is dead, and what is written about it untested."""
    reached = _reachable(machine, machine.initial)
    for state in machine.states:
        if state.name not in reached:
            sentence = f'no path of rows leads from "{machine.initial}" to "{state.name}"'
            yield SpecError(machine.file, f"state {state.name}", state.name, sentence)


def states_lead_home(machine: Machine) -> Complaints:
    """Where no home state can be reached, a record is stuck for ever (L11)."""
    home = {state.name for state in machine.states if state.home}
    if not home:
        yield SpecError(machine.file, "", "home", "no state is a home; mark where a record may rest with home = true")
        return
    for state in machine.states:
        if not home & _reachable(machine, state.name):
            sentence = f'no path of rows leads from "{state.name}" to a home state'
            yield SpecError(machine.file, f"state {state.name}", state.name, sentence)


MACHINE_RULES: tuple[MachineRule, ...] = (
    ids_are_unique,
    rows_say_each_word_once,
    staying_is_written_as_staying,
    sets_change_something,
    variables_are_read,
    params_are_used,
    events_are_answered,
    reports_have_rows_everywhere,
    rows_of_a_cell_differ,
    states_are_reachable,
    states_lead_home,
)
"""In the order in which their complaints are told."""


# --- The whole spec -------------------------------------------------------------------------------------------------


def ids_are_unique_everywhere(spec: Spec) -> Complaints:
    """Rows, couplings and acts share one space of ids, so that an id alone says what is meant."""
    home: dict[str, str] = {}
    for machine in spec.machines:
        for row_id in dict.fromkeys(row.id for row in machine.rows):
            if row_id in home:
                yield _row_error(machine, row_id, row_id, f'the id "{row_id}" is a row of {home[row_id]} already')
            home.setdefault(row_id, machine.file)
    for kind, name in [("coupling", it.id) for it in spec.couplings] + [("act", it.id) for it in spec.acts]:
        if name in home:
            sentence = f'the id "{name}" stands in {home[name]} already'
            yield SpecError(COUPLING_FILE, f"{kind} {name}", name, sentence)
        home.setdefault(name, COUPLING_FILE)
    for name in _twice(relation.name for relation in spec.relations):
        yield SpecError(COUPLING_FILE, f"relation {name}", name, f'the name "{name}" is used twice')


def effects_mean_something(spec: Spec) -> Complaints:
    """An effect that nothing answers is a cry into the void: couple it, act on it, or take it out of the row."""
    heard = {(it.machine, it.effect) for it in spec.couplings} | {(it.machine, it.effect) for it in spec.acts}
    for machine in spec.machines:
        for effect in machine.effects:
            if (machine.name, effect) not in heard:
                row = next(row for row in machine.rows if effect in row.effects)
                yield _row_error(machine, row.id, effect, f'the effect "{effect}" has neither a coupling nor an act')


def signals_are_fired(spec: Spec) -> Complaints:
    """A signal comes from another machine only; one that no coupling fires never comes."""
    fired = {(coupling.target, coupling.event) for coupling in spec.couplings}
    for machine in spec.machines:
        for event in machine.events:
            if event.kind == "signal" and (machine.name, event.name) not in fired:
                sentence = f'no coupling fires the signal "{event.name}"'
                yield SpecError(machine.file, f"event {event.name}", event.name, sentence)


def only_requests_are_asked(spec: Spec) -> Complaints:
    """`ask` forgives a refusal. A signal is never refused and a report always answered: nothing to forgive there."""
    for coupling in spec.couplings:
        kind = spec.machine(coupling.target).event(coupling.event).kind
        if coupling.ask and kind != "request":
            sentence = f'"ask" is for requests, and {coupling.target}.{coupling.event} is a {kind}'
            yield SpecError(COUPLING_FILE, f"coupling {coupling.id}", coupling.event, sentence)


def couplings_differ(spec: Spec) -> Complaints:
    """The same event fired twice through one relation at one effect counts everything double."""
    first: dict[tuple[str, ...], str] = {}
    for it in spec.couplings:
        other = first.setdefault((it.machine, it.effect, it.target, it.event, it.over), it.id)
        if other != it.id:
            yield SpecError(COUPLING_FILE, f"coupling {it.id}", other, f"says the same as {other}")
    for act in spec.acts:
        other = first.setdefault((act.machine, act.effect, act.act), act.id)
        if other != act.id:
            yield SpecError(COUPLING_FILE, f"act {act.id}", other, f"says the same as {other}")


def relations_are_used(spec: Spec) -> Complaints:
    """A relation is a function that the ledger must bring; one that no coupling goes over is dead code."""
    used = {coupling.over for coupling in spec.couplings}
    for relation in spec.relations:
        if relation.name not in used:
            sentence = f'no coupling goes over the relation "{relation.name}"'
            yield SpecError(COUPLING_FILE, f"relation {relation.name}", relation.name, sentence)


SPEC_RULES: tuple[SpecRule, ...] = (
    ids_are_unique_everywhere,
    effects_mean_something,
    signals_are_fired,
    only_requests_are_asked,
    couplings_differ,
    relations_are_used,
)
"""In the order in which their complaints are told."""


# --- Small help -----------------------------------------------------------------------------------------------------


def _row_error(machine: Machine, row_id: str, word: str, sentence: str) -> SpecError:
    return SpecError(machine.file, f"row {row_id}", word, sentence)


def _twice(words: Iterable[str]) -> list[str]:
    return [word for word, count in Counter(words).items() if count > 1]


def _names_in_conditions(machine: Machine) -> set[str]:
    conditions = [row.when for row in machine.rows] + [state.invariant for state in machine.states]
    return {name for condition in conditions for name in condition.names}


def _reachable(machine: Machine, start: str) -> set[str]:
    """The states on some path of rows from `start`, guards not looked at; `start` is one of them."""
    steps: dict[str, set[str]] = {}
    for row in machine.rows:
        for source in row.sources:
            steps.setdefault(source, set()).add(_target(row, source))
    reached, open_ends = {start}, [start]
    while open_ends:
        fresh = steps.get(open_ends.pop(), set()) - reached
        reached |= fresh
        open_ends += sorted(fresh)
    return reached


def _target(row: Row, source: str) -> str:
    return source if row.to is None else row.to
