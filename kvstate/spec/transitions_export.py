"""The same machines for the package `transitions`, for programs that have it already.

`to_transitions` builds a `transitions.Machine` and a model from the data: states and events by name, a guard as a
condition on the model, the changes of variables before the state moves, the id of the row and its effects noted after.
What that buys: everything that is written for the package (its diagrams, `on_enter_...` callbacks, introspection), and
here an oracle that shares no code with our tables but the expressions. What it costs: an event takes a hundred times as
long as `fire` of a table, and a model some kilobytes. Keep it off the hot path. Its `AsyncMachine` is not atomic; avoid
it.

An event that no row answers is refused as everywhere else: the trigger returns False and nothing has moved. The package
would raise where a state has no row for an event and return False where no guard holds; to us these are one thing, so
the machine is built with `ignore_invalid_triggers`. Mind that `model.trigger("a typo")` is then False, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from kvstate.spec.model import Machine, Row

if TYPE_CHECKING:
    import transitions

Value = int | bool
"""Of a variable or a param."""


class Model:
    """One record for `transitions`: variables and params are attributes, `state` is kept by the package.

    Errors: `TypeError` if it is not born with just the values that the machine wants given, or with an unknown param.
    """

    state: str
    trigger: Callable[[str], bool]
    """`model.trigger("release")` is `model.release()`; set by the package."""

    def __init__(self, machine: Machine, params: Mapping[str, int], given: Mapping[str, Value]) -> None:
        self.fired: list[str] = []
        """The ids of the rows that fired, oldest first. Whoever reads them may clear them."""
        self.effects: list[str] = []
        """Their effects, in order."""
        wanted = {var.name for var in machine.vars if var.initial is None}
        if given.keys() != wanted:
            needs = ", ".join(sorted(wanted)) or "no values"
            raise TypeError(f"a record of {machine.name} is born with {needs}, not with {', '.join(given) or 'none'}")
        unknown = params.keys() - {param.name for param in machine.params}
        if unknown:
            raise TypeError(f"{machine.name} has no param {min(unknown)!r}")
        self.names = tuple(var.name for var in machine.vars) + tuple(param.name for param in machine.params)
        self.set({var.name: var.initial for var in machine.vars if var.initial is not None})
        self.set({param.name: param.default for param in machine.params} | dict(params) | dict(given))

    def values(self) -> dict[str, Value]:
        """The variables and params as they are."""
        return {name: getattr(self, name) for name in self.names}

    def set(self, values: Mapping[str, Value]) -> None:
        """Change variables or params, all at once."""
        for name, value in values.items():
            setattr(self, name, value)


_OWN = frozenset({"state", "trigger", "may_trigger", "fired", "effects", "names", "values", "set"})


def to_transitions(
    machine: Machine,
    *,
    params: Mapping[str, int] | None = None,
    given: Mapping[str, Value] | None = None,
    machine_class: type[Any] | None = None,
) -> tuple[transitions.Machine, Model]:
    """A `transitions.Machine` of `machine` and its first model; more are added with `add_model(Model(...))`.

    `params` are the machine's params where they differ from their defaults, `given` the variables that are given at
    birth. `machine_class` is `transitions.Machine` or one that extends it (`GraphMachine`, `LockedMachine`).

    Errors: `ModuleNotFoundError` if the package is not installed, `ValueError` if a variable is called as an event or
    as something that the model has already, `TypeError` as `Model`.
    """
    try:
        import transitions
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "to_transitions() needs the package transitions; install it with: pip install 'kvstate[transitions]'",
            name="transitions",
        ) from None
    _no_clash(machine)
    model = Model(machine, params or {}, given or {})
    built: transitions.Machine = (machine_class or transitions.Machine)(
        model=model,
        name=machine.name,
        states=[state.name for state in machine.states],
        initial=machine.initial,
        transitions=[_transition(row, event) for row in machine.rows for event in row.events],
        auto_transitions=False,
        send_event=True,
        ignore_invalid_triggers=True,
    )
    return built, model


def _no_clash(machine: Machine) -> None:
    """A trigger is a method of the model, so no variable may have an event's name."""
    events = {event.name for event in machine.events}
    attributes = {var.name for var in machine.vars} | {param.name for param in machine.params}
    clash = (events & attributes) | ((events | attributes) & _OWN)
    if clash:
        raise ValueError(f"{machine.name}: {min(clash)!r} would be two attributes of one model; rename it")


def _transition(row: Row, event: str) -> dict[str, Any]:
    """One row and event in the package's words. `dest: None` is its word for staying without leaving and entering."""

    def holds(call: transitions.EventData) -> bool:
        return bool(row.when.evaluate(_model(call).values()))

    def change(call: transitions.EventData) -> None:
        model = _model(call)
        values = model.values()
        model.set({name: right_side.evaluate(values) for name, right_side in row.sets})

    def note(call: transitions.EventData) -> None:
        model = _model(call)
        model.fired.append(row.id)
        model.effects.extend(row.effects)

    holds.__name__ = row.when.source  # what the package's own diagrams print
    return {
        "trigger": event,
        "source": list(row.sources),
        "dest": row.to,
        "conditions": [] if row.when.is_true else [holds],
        "before": [change],
        "after": [note],
    }


def _model(call: transitions.EventData) -> Model:
    return cast(Model, call.model)
