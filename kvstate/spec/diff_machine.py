"""What changed from one version of a machine to the next, and for whom; `kvstate.spec.diff` says what the words mean.

One rule a function. Each looks at one part of the file and knows only that part: a state that is gone is told here as a
state, and the rows that went with it as rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from kvstate.spec.diff_change import Change, Implies, Who, is_told
from kvstate.spec.expr import Expr
from kvstate.spec.model import EventKind, Machine, Param, Row, State, Var

AFFECTED: dict[EventKind, Who] = {"request": "embedders", "report": "workers", "signal": "ledgers"}
"""Who fires the events of a kind, and so misses one first."""


def machine_changes(old: Machine, new: Machine, implies: Implies) -> Iterator[Change]:
    """All changes of one machine, part by part in the order of the file."""
    name = old.name
    if old.many != new.many:
        yield Change(name, "words", "many: whether there are forms for many records")
    if (old.title, old.doc) != (new.title, new.doc):
        yield Change(name, "words", "title or doc")
    if old.initial != new.initial:
        what = f"records are born {new.initial}, and were born {old.initial}"
        yield Change(name, "breaking", what, ("records", "ledgers"))
    yield from _pairs(f"{name} param", old.params, new.params, _param, _new_param, ("embedders",))
    yield from _pairs(f"{name} variable", old.vars, new.vars, _var, _new_var, ("records", "ledgers"))
    yield from _numbers(name, "state", [one.name for one in old.states], [one.name for one in new.states])
    yield from _states(old, new, implies)
    yield from _numbers(name, "event", [one.name for one in old.events], [one.name for one in new.events])
    yield from _events(old, new)
    yield from _rows(old, new, implies)


Part = TypeVar("Part", Param, Var)


def _pairs(
    kind: str,
    old: Sequence[Part],
    new: Sequence[Part],
    changed: Callable[[str, Part, Part], Iterator[Change]],
    appeared: Callable[[str, Part], Change],
    missed_by: tuple[Who, ...],
) -> Iterator[Change]:
    after = {one.name: one for one in new}
    for one in old:
        place = f"{kind} {one.name}"
        if one.name in after:
            yield from changed(place, one, after[one.name])
        else:
            yield Change(place, "breaking", "gone", missed_by)
    before = {one.name for one in old}
    yield from (appeared(f"{kind} {one.name}", one) for one in new if one.name not in before)


def _param(place: str, old: Param, new: Param) -> Iterator[Change]:
    if old.default != new.default:
        what = f"whoever does not set it gets {new.default}, and got {old.default}"
        yield Change(place, "breaking", what, ("records", "embedders"))
    if new.min > old.min or new.max < old.max:
        what = f"takes {new.min} to {new.max}, and took {old.min} to {old.max}"
        yield Change(place, "breaking", what, ("embedders",))
    elif (new.min, new.max) != (old.min, old.max):
        yield Change(place, "added", f"takes {new.min} to {new.max}, and took {old.min} to {old.max}")
    if old.doc != new.doc:
        yield Change(place, "words", "doc")


def _new_param(place: str, new: Param) -> Change:
    return Change(place, "added", f"new, {new.default} where nobody sets it")


def _var(place: str, old: Var, new: Var) -> Iterator[Change]:
    if old.type != new.type:
        yield Change(place, "breaking", f"is of type {new.type}, and was {old.type}", ("records", "ledgers"))
    elif old.initial != new.initial:
        was, now = ("given" if value is None else value for value in (old.initial, new.initial))
        yield Change(place, "breaking", f"begins as {now}, and began as {was}", ("records", "ledgers"))
    if old.doc != new.doc:
        yield Change(place, "words", "doc")


def _new_var(place: str, new: Var) -> Change:
    if new.initial is None:
        return Change(place, "breaking", "new, and to be given by whoever makes the record", ("records", "ledgers"))
    return Change(place, "added", f"new, {new.initial} at first")


def _numbers(name: str, kind: str, old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """States and events are numbered by their place; what moves one of them moves what tables and records hold."""
    moved = [one for one in old if one in new and old.index(one) != new.index(one)]
    if moved:
        words = ", ".join(f"{one} {old.index(one)} -> {new.index(one)}" for one in moved)
        yield Change(f"{name} {kind}s", "breaking", f"numbers moved: {words}", ("records", "ledgers"))


# --- States and events ----------------------------------------------------------------------------------------------


def _states(old: Machine, new: Machine, implies: Implies) -> Iterator[Change]:
    after = {state.name: state for state in new.states}
    for state in old.states:
        place = f"{old.name} state {state.name}"
        other = after.get(state.name)
        if other is None:
            yield Change(place, "breaking", "gone", ("records", "embedders"))
            continue
        if state.home != other.home:
            what = "is a home no longer" if state.home else "is a home now: a record may be left here at rest"
            yield Change(place, "breaking", what, ("embedders",))
        yield from _invariant(place, (old, state), (new, other), implies)
        if state.doc != other.doc:
            yield Change(place, "words", "doc")
    before = {state.name for state in old.states}
    yield from (Change(f"{old.name} state {name}", "added", "new") for name in after if name not in before)


def _invariant(
    place: str, old: tuple[Machine, State], new: tuple[Machine, State], implies: Implies
) -> Iterator[Change]:
    """What is true here may become more, never less: somebody relies on it."""
    was, now = old[1].invariant, new[1].invariant
    if was.node == now.node:
        return
    holds = _asked(implies, new[0], old[0], [now], was)
    words = f'always true here is "{now.source}", and was "{was.source}"'
    if holds:
        yield Change(place, "added", f"{words}: not less than before")
    else:
        yield Change(
            place, "breaking", f"{words}: {'undecided' if holds is None else 'less'}", ("records", "embedders")
        )


def _events(old: Machine, new: Machine) -> Iterator[Change]:
    after = {event.name: event for event in new.events}
    for event in old.events:
        place = f"{old.name} event {event.name}"
        other = after.get(event.name)
        if other is None:
            yield Change(place, "breaking", f"the {event.kind} is gone", ("records", AFFECTED[event.kind]))
        elif event.kind != other.kind:
            who = dict.fromkeys((AFFECTED[event.kind], AFFECTED[other.kind]))
            yield Change(place, "breaking", f"is a {other.kind}, and was a {event.kind}", tuple(who))
        elif event.doc != other.doc:
            yield Change(place, "words", "doc")
    before = {event.name for event in old.events}
    for other in new.events:
        if other.name not in before:
            yield Change(f"{old.name} event {other.name}", "added", f"a new {other.kind}")


# --- Rows -----------------------------------------------------------------------------------------------------------


def _rows(old: Machine, new: Machine, implies: Implies) -> Iterator[Change]:
    before, after = {row.id: row for row in old.rows}, {row.id: row for row in new.rows}
    fresh = [row for row in new.rows if row.id not in before]
    for row in old.rows:
        if row.id in after:
            yield from _row(old, new, row, after[row.id], implies)
        else:
            twin = next((one.id for one in fresh if _meaning(one) == _meaning(row)), "")
            renamed = f"; {twin} says the same, but an id is given once" if twin else ""
            yield Change(f"{old.name} row {row.id}", "breaking", f"gone{renamed}", _misses(old, row))
    yield from (Change(f"{old.name} row {row.id}", "added", f"new: {_said(row)}") for row in fresh)


def _row(old: Machine, new: Machine, was: Row, now: Row, implies: Implies) -> Iterator[Change]:
    """One id in both versions: does it stand for the same?"""
    place, who = f"{old.name} row {was.id}", _misses(old, was)
    yield from _words(place, "from", was.sources, now.sources, who)
    yield from _words(place, "event", was.events, now.events, who)
    if was.to != now.to:
        yield Change(place, "breaking", f"leads to {now.to or '='}, and led to {was.to or '='}", who)
    if _sets(was) != _sets(now):
        what = f"sets {_shown_sets(now)}, and set {_shown_sets(was)}"
        yield Change(place, "breaking", what, who)
    if was.effects != now.effects:
        what = f"has the effects {' '.join(now.effects) or 'none'}, and had {' '.join(was.effects) or 'none'}"
        told = any(is_told(effect) for effect in set(was.effects) ^ set(now.effects))
        yield Change(place, "breaking", what, (*who, "verdicts") if told else who)
    yield from _guard(place, (old, was), (new, now), implies)
    if was.why != now.why:
        yield Change(place, "words", "why")


def _words(place: str, key: str, was: Sequence[str], now: Sequence[str], who: tuple[Who, ...]) -> Iterator[Change]:
    """`from` and `event`: with one more the row answers what it did not, with one less it is silent where it spoke."""
    less = [word for word in was if word not in now]
    more = [word for word in now if word not in was]
    if less:
        yield Change(place, "breaking", f"{key} is without {' '.join(less)}", who)
    if more:
        yield Change(place, "added", f"{key} has {' '.join(more)} besides")


def _guard(place: str, old: tuple[Machine, Row], new: tuple[Machine, Row], implies: Implies) -> Iterator[Change]:
    """Narrower refuses what was answered; wider answers what was not. Asked only where the state's invariant holds."""
    was, now = old[1].when, new[1].when
    if was.node == now.node:
        return
    common = [source for source in old[1].sources if source in new[1].sources]
    kept = _everywhere(old[0], new[0], common, was, now, implies)
    same = kept and _everywhere(new[0], old[0], common, now, was, implies)
    words = f'when "{now.source}", and was "{was.source}"'
    if kept is None:
        yield Change(place, "breaking", f"{words}: undecided", _misses(*old))
    elif not kept:
        yield Change(place, "breaking", f"{words}: narrower", _misses(*old))
    elif same:
        yield Change(place, "words", f"{words}: the same")
    else:
        yield Change(place, "added", f"{words}: wider")


def _everywhere(
    one: Machine, other: Machine, states: Iterable[str], given: Expr, then: Expr, implies: Implies
) -> bool | None:
    """In all of these states of `one`: does `given` imply `then`?"""
    answers = [_asked(implies, one, other, [one.state(state).invariant, given], then) for state in states]
    return False if False in answers else None if None in answers else True


def _asked(implies: Implies, one: Machine, other: Machine, given: Sequence[Expr], then: Expr) -> bool | None:
    """Asked of `one` and the variables and params that only `other` has, so that the words of both mean something.

    Where a name is of another type in the other version, a sentence about it can't be carried over: undecided.
    """
    types, others = _types(one), _types(other)
    if any(types.get(name, kind) != kind for name, kind in others.items()):
        return None
    both = replace(
        one,
        vars=one.vars + tuple(var for var in other.vars if var.name not in types),
        params=one.params + tuple(param for param in other.params if param.name not in types),
    )
    return implies(both, given, then)


def _types(machine: Machine) -> Mapping[str, str]:
    return {var.name: var.type for var in machine.vars} | {param.name: "int" for param in machine.params}


def _misses(machine: Machine, row: Row) -> tuple[Who, ...]:
    """Whom it breaks when the row does something else: who fires its events, who replays, who reads what it tells."""
    fires = [AFFECTED[machine.event(event).kind] for event in row.events]
    told: list[Who] = ["verdicts"] if any(is_told(effect) for effect in row.effects) else []
    return tuple(dict.fromkeys(["records", *fires, *told]))


def _sets(row: Row) -> dict[str, object]:
    return {name: right.node for name, right in row.sets}


def _shown_sets(row: Row) -> str:
    return ", ".join(f"{name} = {right.source}" for name, right in row.sets) or "nothing"


def _meaning(row: Row) -> tuple[object, ...]:
    """All of a row but its id and its reasons."""
    return set(row.sources), set(row.events), row.when.node, row.to, _sets(row), row.effects


def _said(row: Row) -> str:
    guard = "" if row.when.is_true else f" when {row.when.source}"
    return f"{' '.join(row.sources)} on {' '.join(row.events)}{guard} -> {row.to or '='}"
