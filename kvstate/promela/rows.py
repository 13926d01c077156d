"""The rows of a machine in Promela: a branch for each, and one more for an event that no row takes.

A branch looks at event, state and guard, computes all right sides before it writes any, moves the record, and pushes
what the row's effects mean. A block's views (free list, eviction order) follow where it moves; see `model/world.pml`.
Which of two rows that both hold goes first is not asked: the data's guards are disjoint, which is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvstate.promela.expressions import promela
from kvstate.promela.shape import LIVING, Shape
from kvstate.spec.model import Machine, Row

WHO = "who"
"""The record that the event is fired on."""


def defines(shape: Shape) -> Iterator[str]:
    """The numbers of states and events, and of whoever asks: what is home, and whether a row would take an event."""
    yield from (f"#define S_{'_'.join(pair)} {number}" for pair, number in shape.states.items())
    yield from (f"#define E_{'_'.join(pair)} {number}" for pair, number in shape.events.items())
    for machine in shape.machines:
        mine = [number for (name, _), number in shape.events.items() if name == machine.name]
        home = " || ".join(f"(s) == S_{machine.name}_{state.name}" for state in machine.states if state.home)
        yield f"#define S_{machine.name}_INITIAL S_{machine.name}_{machine.initial}"
        yield f"#define FIRST_{machine.name} {min(mine)}"
        yield f"#define LAST_{machine.name} {max(mine)}"
        yield f"#define home_{machine.name}(s) ({home})"
        for event in machine.events:
            taken = [_accepts(shape, machine, row, "x") for row in machine.rows if event.name in row.events]
            yield f"#define takes_{machine.name}_{event.name}(x) ({' || '.join(taken) or 'false'})"


def fire(shape: Shape, machine: Machine, means: Callable[[str], list[str]]) -> Iterator[str]:
    """An inline that fires the event `what` on `who`. `means` gives the steps of an effect, in order."""
    yield f"inline fire_{machine.name}() {{"
    if machine.name == "block":
        yield f"  moved_from = block_state[{WHO}]; begins = false;"
    yield "  if"
    for row in machine.rows:
        events = " || ".join(f"what == E_{machine.name}_{event}" for event in row.events)
        yield f"  :: ({events}) && {_accepts(shape, machine, row, WHO)} -> /* {row.id} */"
        yield from (f"     {line};" for line in _body(shape, machine, row, means))
    yield "  :: else -> refused()"
    yield f"  fi{';' if machine.name == 'block' else ''}"
    if machine.name == "block":
        yield f"  moved_block({WHO}); if :: begins -> new_life({WHO}) :: else fi"
    yield "}"


def _accepts(shape: Shape, machine: Machine, row: Row, who: str) -> str:
    """Would the row take the event?"""
    sources = " || ".join(f"{machine.name}_state[{who}] == S_{machine.name}_{state}" for state in row.sources)
    if row.when.is_true:
        return f"({sources})"
    return f"(({sources}) && {promela(row.when.node, _rename(shape, machine, who))})"


def _rename(shape: Shape, machine: Machine, who: str) -> Callable[[str], str]:
    params = {param.name: str(getattr(shape.config, param.name)) for param in machine.params}
    return lambda name: params.get(name, f"{machine.name}_{name}[{who}]")


def _body(shape: Shape, machine: Machine, row: Row, means: Callable[[str], list[str]]) -> Iterator[str]:
    """What the row does."""
    kept = [(name, expr) for name, expr in row.sets if name != LIVING]
    rename = _rename(shape, machine, WHO)
    if len(kept) == 1:
        yield f"{machine.name}_{kept[0][0]}[{WHO}] = {promela(kept[0][1].node, rename)}"
    else:
        yield from (f"new_{at} = {promela(expr.node, rename)}" for at, (_, expr) in enumerate(kept))
        yield from (f"{machine.name}_{name}[{WHO}] = new_{at}" for at, (name, _) in enumerate(kept))
    if row.to is not None:
        yield f"{machine.name}_state[{WHO}] = S_{machine.name}_{row.to}"
    if len(kept) < len(row.sets):
        yield "begins = true"
    if machine.name == "key":
        yield f"push(OP_key_done, {WHO})"
    steps = [step for effect in row.effects for step in means(effect)]
    yield from (f"push({step}, {WHO})" for step in reversed(steps))
    if not (kept or row.to or steps):
        yield "skip"
