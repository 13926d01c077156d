"""Four implementations of the same data agree: the reference step, the generated table, the interpreted table, and a
`transitions.Machine`.

They are held against each other on every (state, event) with every small valuation of the variables that the state's
invariant allows, and on random walks from birth. `step` is what the others are compared with; the expressions are all
that they share (and the generated tables not even these: they print them as Python).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstate.machines.interpreted import interpreted
from kvstate.machines.step import Values, choose, step
from kvstate.machines.table import REFUSED, Table
from kvstate.machines.tables import TABLES
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Machine, Spec
from kvstate.spec.transitions_export import Model, to_transitions

MACHINES = {machine.name: machine for machine in load_spec().machines}
SMALL = {"int": (0, 1, 2, 3), "bool": (False, True)}


def params_of(machine: Machine) -> Iterator[dict[str, int]]:
    """Every param at 1 and at 2, where its bounds allow."""
    choices = [[value for value in (1, 2) if param.min <= value <= param.max] for param in machine.params]
    for values in product(*choices):
        yield dict(zip([param.name for param in machine.params], values, strict=True))


def valuations(machine: Machine, state: str, params: dict[str, int]) -> Iterator[Values]:
    """Every small valuation of the variables with which the machine may rest in `state`."""
    names = [var.name for var in machine.vars]
    invariant = machine.state(state).invariant
    for values in product(*(SMALL[var.type] for var in machine.vars)):
        case: Values = {**dict(zip(names, values, strict=True)), **params}
        if invariant.evaluate(case):
            yield case


@dataclass
class Tabled:
    """A table with one record, that can be put into any state and asked what it is in."""

    table: Table
    slot: int

    @classmethod
    def of(cls, kind: type[Table], params: dict[str, int]) -> Tabled:
        table = kind(**params)
        return cls(table, table.add(**dict.fromkeys(kind.GIVEN, 1)))

    def put(self, state: str, case: Values) -> None:
        columns = cast("dict[str, array[int]]", self.table.columns)
        columns["state"][self.slot] = self.table.STATES.index(state)
        for name in self.table.VARS:
            columns[name][self.slot] = int(case[name])

    def get(self) -> tuple[str, dict[str, int]]:
        columns = cast("dict[str, array[int]]", self.table.columns)
        record = {name: column[self.slot] for name, column in columns.items()}
        return self.table.STATES[record.pop("state")], record

    def fire(self, event: str) -> str | None:
        number = self.table.EVENTS.index(event)
        before = self.get()
        chosen = self.table.choose(self.slot, number)
        assert self.get() == before, f"choose({event}) moved a record from {before} to {self.get()}"
        fired = self.table.fire(self.slot, number)
        assert fired == chosen, f"{before}: choose({event}) said row {chosen}, fire row {fired}"
        return None if fired == REFUSED else self.table.ROWS[fired]


class Exported:
    """The `transitions` model, behind the same three methods."""

    def __init__(self, machine: Machine, params: dict[str, int]) -> None:
        given = {var.name: 1 for var in machine.vars if var.initial is None}
        self.names = [var.name for var in machine.vars]
        self.built, self.model = to_transitions(machine, params=params, given=given)

    def put(self, state: str, case: Values) -> None:
        self.built.set_state(state)
        self.model.set({name: case[name] for name in self.names})

    def get(self) -> tuple[str, dict[str, int]]:
        return self.model.state, {name: int(self.model.values()[name]) for name in self.names}

    def fire(self, event: str) -> str | None:
        self.model.fired.clear()
        self.model.effects.clear()
        moved = self.model.trigger(event)
        assert moved == bool(self.model.fired), f"trigger({event}) returned {moved}, and {self.model.fired} fired"
        return self.model.fired[0] if self.model.fired else None


def implementations(machine: Machine, params: dict[str, int]) -> dict[str, Tabled | Exported]:
    return {
        "generated table": Tabled.of(TABLES[machine.name], params),
        "interpreted table": Tabled.of(interpreted(machine), params),
        "transitions": Exported(machine, params),
    }


def agree(
    machine: Machine, others: dict[str, Tabled | Exported], state: str, case: Values, event: str
) -> tuple[str | None, str, Values]:
    """Fire `event` in all of them, from this state; returns what the reference did."""
    answer = step(machine, state, case, event)
    row, after, values = (None, state, dict(case)) if answer is None else (answer[0], answer[1], answer[2])
    expected = (after, {var.name: int(values[var.name]) for var in machine.vars})
    for name, other in others.items():
        fired = other.fire(event)
        said = f"{machine.name}, {state} {case}, {event}: {name}"
        assert fired == (None if row is None else row.id), f"{said} fired {fired}, the reference {row and row.id}"
        assert other.get() == expected, f"{said} is then in {other.get()}, the reference in {expected}"
        if isinstance(other, Exported) and row is not None:
            assert tuple(other.model.effects) == row.effects, f"{said} has effects {other.model.effects}"
    return None if row is None else row.id, after, values


def test_every_state_event_and_guard_case(machine: Machine) -> None:
    fired: set[str] = set()
    refused = 0
    for params in params_of(machine):
        others = implementations(machine, params)
        for state in machine.states:
            for case in valuations(machine, state.name, params):
                for event in machine.events:
                    for other in others.values():
                        other.put(state.name, case)
                    row, after, values = agree(machine, others, state.name, case, event.name)
                    if row is None:
                        assert (after, values) == (state.name, case), "the reference moved on a refused event"
                        refused += 1
                    else:
                        fired.add(row)
    never = [row.id for row in machine.rows if row.id not in fired]
    assert not never, f"{machine.name}: the enumeration never fired {', '.join(never)}"
    assert refused, f"{machine.name}: the enumeration never met a refusal"


def test_guards_agree_outside_the_invariants_too(machine: Machine) -> None:
    """A broken spec, or a bug of the ledger, can bring a record where it may not be. The table must not go astray."""
    for params in params_of(machine):
        tabled = Tabled.of(TABLES[machine.name], params)
        for state, event in product(machine.states, machine.events):
            names = {name for row in machine.cell(state.name, event.name) for name in row.when.names}
            asked = [var for var in machine.vars if var.name in names]
            for values in product(*(SMALL[var.type] for var in asked)):
                case: Values = {var.name: 0 for var in machine.vars} | params
                case |= dict(zip([var.name for var in asked], values, strict=True))
                tabled.put(state.name, case)
                row = choose(machine, state.name, case, event.name)
                assert tabled.fire(event.name) == (None if row is None else row.id), f"{state.name} {case} {event.name}"


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_random_walks(name: str, data: st.DataObject) -> None:
    """From birth, half of the events drawn from those that are accepted, so that the walk gets somewhere."""
    machine = MACHINES[name]
    params = {param.name: data.draw(st.integers(1, 3), param.name) for param in machine.params}
    born = {var.name: data.draw(st.integers(1, 3), var.name) for var in machine.vars if var.initial is None}
    others = implementations(machine, params)
    state = machine.initial
    values: Values = {var.name: born[var.name] if var.initial is None else var.initial for var in machine.vars}
    values |= params
    for other in others.values():
        other.put(state, values)
    events = [event.name for event in machine.events]
    for number, willing in data.draw(st.lists(st.tuples(st.integers(0, 99), st.booleans()), max_size=40), "walk"):
        accepted = [event for event in events if choose(machine, state, values, event)] if willing else []
        event = (accepted or events)[number % len(accepted or events)]
        _, state, values = agree(machine, others, state, values, event)
        assert machine.state(state).invariant.evaluate(values), f"{event} broke the invariant of {state}: {values}"


# --- transitions, for those who embed it ------------------------------------------------------------------------------


def test_a_model_of_transitions_can_be_used_as_it_is(block: Machine) -> None:
    built, model = to_transitions(block, params={"ranks": 2})
    assert built.initial == "free"
    walk = ["reserve", "claim", "write_begin", "evict", "write_begin", "write_begin", "release"]
    assert [model.trigger(event) for event in walk] == [True, True, True, False, True, False, True]
    assert model.state == "draining"
    assert model.values() == {
        "owners": 0, "readers": 0, "writers": 2, "lost": 0, "published": False, "generation": 0, "ranks": 2,
    }  # fmt: skip
    assert model.fired == ["B01", "B03", "B04", "B04", "B21"]


def test_effects_come_in_order(spec: Spec) -> None:
    _, model = to_transitions(spec.machine("part"))
    assert [model.trigger(event) for event in ("launch", "done", "done")] == [True, True, True]
    assert model.effects == ["touch", "let_go", "ok", "stale"]


def test_more_models_have_variables_of_their_own(block: Machine) -> None:
    built, first = to_transitions(block)
    second = Model(block, {}, {})
    built.add_model(second)
    assert first.trigger("reserve")
    assert (first.state, first.values()["owners"]) == ("open", 1)
    assert (second.state, second.values()["owners"]) == ("free", 0)


def test_wrong_births_are_refused(odd: Machine) -> None:
    with pytest.raises(TypeError, match="odd is born with flag, i, not with none"):
        to_transitions(odd)
    with pytest.raises(TypeError, match="odd has no param 'least'"):
        to_transitions(odd, given={"i": 1, "flag": False}, params={"least": 1})


def test_names_that_would_clash_on_the_model_are_refused(odd: Machine) -> None:
    clashing = replace(odd, vars=(replace(odd.vars[0], name="swap"), *odd.vars[1:]))
    with pytest.raises(ValueError, match="odd: 'swap' would be two attributes of one model"):
        to_transitions(clashing, given={"i": 1, "flag": False})


def test_without_the_package_a_sentence_says_what_to_install(block: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transitions", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'kvstate\[transitions\]'"):
        to_transitions(block)
