"""The whole model, put together: numbers, the state vector as it is at the beginning, rows and wiring, and the moves.

One input is one step of Spin: a branch is chosen, and then everything that it sets off runs to its end before a state
is stored. What is set off waits on a stack, and what is pushed last is done first, so that effects run depth first and
in order, as in the ledger. Two processes share the text: the world, which may do anything, and the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from importlib.resources import files

from kvstate.promela.layout import RECORDS, Array
from kvstate.promela.moves import constants, moves, operations, reports
from kvstate.promela.rows import defines, fire
from kvstate.promela.shape import Shape
from kvstate.promela.vector import JUNK_BYTES, Viewer
from kvstate.promela.wiring import Wiring

WRITTEN = ("words.pml", "relations.pml", "acts.pml", "requests.pml", "copies.pml", "steps.pml", "world.pml", "laws.pml")
"""The parts that are written by hand, in the order in which they are printed."""
LAWS = (
    "L1_one_verdict L1_one_settlement L3_no_reuse L4_left L4_no_orphan L5_filled L5_proceed L5_nothing "
    "L5_loading_named L6_answered L8_owners L8_readers L8_writers L8_lost L9_named L9_bytes"
).split()
"""The laws that the model asserts; each is a flag, by whose name Spin reports it."""
DEEP = 60
"""Items that the stack has room for. One too many is an error of Spin's, which looks at every index."""
SCRATCH = (
    "i j k h g q n_found begins made wanted taken missing passed moved_from shifted waits enough blameless "
    "owners readers writers given_up touches filled named new_0 new_1 new_2 new_3 new_4 new_5"
).split()
"""Variables of one step. Each is written before it is read, so they are no part of a state."""


def print_model(viewer: Viewer, *, tell: bool = False) -> str:
    """The model of the scope that the viewer looks at, which has to be at its beginning.

    With `tell` each step prints the vector that it leads to, for programs that want the states and not their number.
    Errors: `UnprintableError` for a spec with a relation or an act that is not written in Promela.
    """
    shape = viewer.shape
    written = {name: (files(__package__) / "model" / name).read_text(encoding="utf-8") for name in WRITTEN}
    wiring = Wiring(shape, "\n".join(written.values()))
    return "\n".join(
        [
            *_head(shape),
            "",
            *constants(shape),
            *defines(shape),
            *wiring.effects(),
            *_numbers(shape, wiring),
            "",
            *_variables(shape, viewer),
            "",
            *_idle(shape),
            *_stack(),
            "",
            *_records(shape, viewer.layout),
            "",
            *written.values(),
            *_rows(shape, wiring),
            "",
            *_processes(shape, wiring, viewer.layout, tell),
            "",
        ]
    )


def _head(shape: Shape) -> Iterator[str]:
    scope = shape.scope
    yield f"/* kvstate {shape.spec.version}, scope {scope.name}: {scope.title}."
    yield "   Printed by `kvstate promela` from spec/ and from kvstate/promela/model; change it there. */"


def _numbers(shape: Shape, wiring: Wiring) -> Iterator[str]:
    """What can stand on the stack: events, from 1, then the steps of effects, then operations."""
    names = [*wiring.names, *(f"OP_{name}" for name in operations(shape)), *reports(shape)]
    yield from (f"#define {name} {number}" for number, name in enumerate(names, len(shape.events) + 1))
    yield "#define SENT 1"
    yield "#define LANDED 2"
    yield f"#define JUNK {JUNK_BYTES}"
    yield f"#define DEEP {DEEP}"


def _variables(shape: Shape, viewer: Viewer) -> Iterator[str]:
    yield "/* The state vector, as it is at the beginning. */"
    begins = viewer.arrays(viewer.beginning)
    for array in viewer.layout:
        values = [int(value) for value in begins[array.name]]
        if array.size:
            yield f"short {array.name}[{array.size}] = {{ {', '.join(map(str, values))} }};"
        else:
            yield f"short {array.name} = {values[0]};"
    yield ""
    yield "/* Empty between two inputs. */"
    yield "short move = 0; short target = 0; short what = 0; short who = 0; bool asked = false;"
    yield "short stack_what[DEEP]; short stack_who[DEEP]; bool stack_asks[DEEP]; short depth = 0;"
    if shape.steps:
        yield f"short handing[{shape.lines}];"
    yield f"bool part_once[{shape.count['part']}];"
    for name in ("offload", "load"):
        if name in shape.count:
            yield f"bool doomed_{name}[{shape.count[name]}];"
    yield ""
    yield "/* Of one step: no part of a state. */"
    yield f"hidden short found[{max(shape.count.values()) + shape.lines}];"
    yield from (f"hidden short {name};" for name in SCRATCH)
    yield from (f"hidden byte {name};" for name in LAWS)
    yield from _tables(shape)


def _tables(shape: Shape) -> Iterator[str]:
    """What the requests ask for."""
    requests = list(enumerate(shape.scope.requests))
    keys = {(number, at): shape.keys.index(key) for number, each in requests for at, key in enumerate(each.keys)}
    places = " : ".join(f"((r) == {number} -> {len(each.keys)}" for number, each in requests)
    prompt = " : ".join(f"((r) == {number} && (at) == {at} -> {key}" for (number, at), key in keys.items())
    yield f"#define PLACES(r) ({places} : 0{')' * len(requests)})"
    yield f"#define PROMPT(r, at) ({prompt} : 0{')' * len(keys)})"


def _idle(shape: Shape) -> Iterator[str]:
    """Nothing is under way; and law L11: so it is again and again, if only the clock goes on."""
    under_way = [
        f"{name}_state[{number}] == 0" for name in ("offload", "load") for number in range(shape.count.get(name, 0))
    ]
    yield f"#define idle ({' && '.join(under_way) or 'true'})"
    yield "ltl L11_ends { [] <> idle }"


def _stack() -> Iterator[str]:
    yield from """
inline push_item(item, x, asks) {
  stack_what[depth] = item; stack_who[depth] = x; stack_asks[depth] = asks; depth++
}
inline pop() {
  depth--;
  what = stack_what[depth]; who = stack_who[depth]; asked = stack_asks[depth];
  stack_what[depth] = 0; stack_who[depth] = 0; stack_asks[depth] = false
}
inline push(item, x) { push_item(item, x, false) }
inline push_asking(item, x) { push_item(item, x, true) }
inline find(x) { found[n_found] = x; n_found++ }
inline push_found(item, asks) {
  for (q : 1 .. n_found) { push_item(item, found[n_found - q], asks) }
  n_found = 0
}
inline refused() { L6_answered = asked; assert(L6_answered) }
""".strip().splitlines()


def _records(shape: Shape, arrays: Iterable[Array]) -> Iterator[str]:
    """How a record is born, and how it is struck out."""
    for machine in shape.machines:
        if machine.name not in RECORDS:
            continue
        yield f"inline born_{machine.name}(x) {{"
        births = [f"  {machine.name}_state[x] = S_{machine.name}_INITIAL"]
        births += [f"  {machine.name}_{var.name}[x] = {int(var.initial or 0)}" for var in machine.vars]
        yield ";\n".join(births)
        yield "}"
        yield f"inline blank_{machine.name}(x) {{"
        mine = [array for array in arrays if array.machine == machine.name]
        each = shape.count[machine.name]
        single = [f"  {array.name}[x] = 0" for array in mine if array.size == each]
        wide = [f"{array.name}[q] = 0" for array in mine if array.size != each]
        extra = [f"  doomed_{machine.name}[x] = false"] if machine.name in ("offload", "load") else []
        loop = [f"  for (q : x * LINES .. x * LINES + LINES - 1) {{ {'; '.join(wide)} }}"] if wide else []
        yield ";\n".join([*single, *extra, *loop])
        yield "}"


def _rows(shape: Shape, wiring: Wiring) -> Iterator[str]:
    for machine in shape.machines:
        yield from fire(shape, machine, partial(wiring.steps, machine.name))


def _items(shape: Shape, wiring: Wiring) -> Iterator[tuple[str, str]]:
    """What can lie on the stack: when it is that, and what is done then."""
    last = 0
    for machine in shape.machines:
        first, last = last + 1, last + len(machine.events)
        yield f"what >= {first} && what <= {last}", f"fire_{machine.name}()"
    for name, does in (*wiring.does(), *reports(shape).items()):
        yield f"what == {name}", does
    for name in operations(shape):
        yield f"what == OP_{name}", f"op_{name}(who)"


def _told(arrays: Iterable[Array]) -> Iterator[str]:
    yield '  printf("STATE");'
    for array in arrays:
        if array.size:
            yield f'  for (q : 0 .. {array.size - 1}) {{ printf(" %d", {array.name}[q]) }};'
        else:
            yield f'  printf(" %d", {array.name});'
    yield '  printf("\\n");'


def _processes(shape: Shape, wiring: Wiring, arrays: Iterable[Array], tell: bool) -> Iterator[str]:
    """World and clock: an input is a move and all that it sets off.

    Spin bounds how long a `d_step` may be, so each item of the stack is done in one of its own.
    """
    yield "active [2] proctype mover() {"
    yield "end:"
    yield "  do"
    yield "  :: atomic {"
    yield "       if"
    yield from (f"       {line}" for line in moves(shape))
    yield "       fi;"
    yield "       d_step { push(OP_conclude, 0); push(move, target) }"
    yield "       do"
    yield "       :: depth == 0 -> break"
    yield "       :: depth > 0 ->"
    yield "          d_step { pop() }"
    yield "          if"
    yield from (
        f"          :: {when} -> d_step {{ n_found = 0; {does}; skip }}" for when, does in _items(shape, wiring)
    )
    yield "          :: else -> assert(false)"
    yield "          fi"
    yield "       od;"
    yield "       skip;"
    yield "       d_step { skip; laws(); what = 0; who = 0; asked = false; move = 0; target = 0 }"
    if tell:
        yield "       ; d_step { skip;"
        yield from _told(arrays)
        yield "       skip }"
    yield "     }"
    yield "  od"
    yield "}"
