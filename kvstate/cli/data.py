"""The spec as plain data for programs in any language: what `kvstate spec --json` prints.

Expressions come twice: as the text of the file, for people, and as a tree, so that nobody has to write the parser
again. A tree is a number, `true` or `false`, or a list whose first item says what it is:

    ["var", name]  ["not", x]  ["-", x]  ["+", x, y]  ["-", x, y]  ["*", x, y]
    ["==", x, y] and so for != < <= > >=      ["and", x, ...]  ["or", x, ...]
"""

from __future__ import annotations

from typing import Any

from kvstate.spec.expr import Expr
from kvstate.spec.model import Event, Machine, Row, Spec, State, Var
from kvstate.spec.nodes import Binary, Compare, Const, Logic, Name, Node, Unary

FORMAT = "kvstate-spec-1"
"""Moves when a key changes its meaning or goes away; a new key does not move it."""


def spec_data(spec: Spec) -> dict[str, Any]:
    """The whole spec."""
    return {
        "format": FORMAT,
        "version": spec.version,
        "machines": [machine_data(machine) for machine in spec.machines],
        "relations": [{"name": one.name, "of": one.of, "to": one.to, "doc": one.doc.strip()} for one in spec.relations],
        "couplings": [
            {
                "id": one.id,
                "effect": f"{one.machine}.{one.effect}",
                "event": f"{one.target}.{one.event}",
                "over": one.over,
                "ask": one.ask,
                "why": one.why.strip(),
            }
            for one in spec.couplings
        ],
        "acts": [
            {
                "id": one.id,
                "effect": f"{one.machine}.{one.effect}",
                "act": one.act,
                "order": one.order,
                "why": one.why.strip(),
            }
            for one in spec.acts
        ],
    }


def machine_data(machine: Machine) -> dict[str, Any]:
    """One machine; lists keep the order of the file, which numbers states, events and rows."""
    return {
        "name": machine.name,
        "title": machine.title,
        "doc": machine.doc.strip(),
        "initial": machine.initial,
        "params": [
            {"name": one.name, "default": one.default, "min": one.min, "max": one.max, "doc": one.doc.strip()}
            for one in machine.params
        ],
        "vars": [_var(var) for var in machine.vars],
        "states": [_state(state) for state in machine.states],
        "events": [_event(event) for event in machine.events],
        "rows": [row_data(row) for row in machine.rows],
    }


def _var(var: Var) -> dict[str, Any]:
    initial = "given" if var.initial is None else var.initial
    return {"name": var.name, "type": var.type, "initial": initial, "doc": var.doc.strip()}


def _state(state: State) -> dict[str, Any]:
    return {"name": state.name, "home": state.home, "invariant": _expr(state.invariant), "doc": state.doc.strip()}


def _event(event: Event) -> dict[str, Any]:
    return {"name": event.name, "kind": event.kind, "doc": event.doc.strip()}


def row_data(row: Row) -> dict[str, Any]:
    """One row; `"to": "="` is a row that stays."""
    return {
        "id": row.id,
        "from": list(row.sources),
        "event": list(row.events),
        "when": _expr(row.when),
        "to": row.to or "=",
        "set": {name: _expr(right) for name, right in row.sets},
        "effects": list(row.effects),
        "why": row.why.strip(),
    }


def _expr(expr: Expr) -> dict[str, Any]:
    return {"text": expr.source, "tree": tree(expr.node)}


def tree(node: Node) -> Any:
    """The tree of an expression as lists; a chain of comparisons is the `and` of its pairs."""
    match node:
        case Const():
            return node.value
        case Name():
            return ["var", node.name]
        case Unary():
            return [node.op, tree(node.arg)]
        case Binary():
            return [node.op, tree(node.left), tree(node.right)]
        case Compare():
            pairs = [[op, tree(left), tree(right)] for left, op, right in node.pairs]
            return pairs[0] if len(pairs) == 1 else ["and", *pairs]
        case Logic():
            return [node.op, *(tree(arg) for arg in node.args)]
