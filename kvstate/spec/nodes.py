"""The tree of an expression: six kinds of node, what each means and how it prints.

Provers, printers and anything else that reads the data's expressions walk this tree; it is small so that a `match`
over it is short and can be seen to be whole.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Type = Literal["int", "bool"]
"""A number or a condition."""
Value = int | bool
"""What a node of either type is worth."""


@dataclass(frozen=True, slots=True)
class Const:
    """A number, `True` or `False`: its `value`."""

    value: Value


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or a param, by `name`, of the `type` that the machine declares."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Unary:
    """The operator `op` and what it is applied to, `arg`."""

    op: Literal["not", "-"]
    arg: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic: `left op right`."""

    op: Literal["+", "-", "*"]
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Compare:
    """A chain: `first ops[0] rest[0] ops[1] rest[1] ...`; each neighbouring pair is compared, all must hold."""

    first: Node
    ops: tuple[str, ...]
    rest: tuple[Node, ...]

    @property
    def pairs(self) -> Iterator[tuple[Node, str, Node]]:
        """Each comparison of the chain: left side, operator, right side."""
        return zip((self.first, *self.rest), self.ops, self.rest, strict=False)


@dataclass(frozen=True, slots=True)
class Logic:
    """Two or more `args`, of which all (`op` is `and`) or one (`or`) must hold."""

    op: Literal["and", "or"]
    args: tuple[Node, ...]


Node = Const | Name | Unary | Binary | Compare | Logic
"""Any of the six."""

COMPARISONS: Mapping[str, Callable[[Value, Value], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""What each operator of a `Compare` means."""


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below it, from left to right."""
    match node:
        case Const() | Name():
            return ()
        case Unary():
            return (node.arg,)
        case Binary():
            return (node.left, node.right)
        case Compare():
            return (node.first, *node.rest)
        case Logic():
            return node.args


def type_of(node: Node) -> Type:
    """What the node is worth, a number or a condition; told from the outermost operator alone."""
    match node:
        case Const():
            return "bool" if isinstance(node.value, bool) else "int"
        case Name():
            return node.type
        case Unary():
            return "bool" if node.op == "not" else "int"
        case Binary():
            return "int"
        case Compare() | Logic():
            return "bool"


def evaluate(node: Node, env: Mapping[str, Value]) -> Value:
    """The value where the names are as `env` says (KeyError if one is missing); `and` and `or` stop early."""
    match node:
        case Const():
            return node.value
        case Name():
            return env[node.name]
        case Unary():
            arg = evaluate(node.arg, env)
            return not arg if node.op == "not" else -arg
        case Binary():
            left, right = evaluate(node.left, env), evaluate(node.right, env)
            return left + right if node.op == "+" else left - right if node.op == "-" else left * right
        case Compare():
            return all(COMPARISONS[op](evaluate(a, env), evaluate(b, env)) for a, op, b in node.pairs)
        case Logic():
            return (all if node.op == "and" else any)(evaluate(arg, env) for arg in node.args)


_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _NEGATE, _ATOM = range(8)


def show(node: Node, rename: Callable[[str], str]) -> tuple[str, int]:
    """The text of a node and how tightly its outermost operator binds; parentheses only where they are needed."""

    def at_least(child: Node, level: int) -> str:
        text, binds = show(child, rename)
        return text if binds >= level else f"({text})"

    match node:
        case Const():
            return str(node.value), _ATOM
        case Name():
            return rename(node.name), _ATOM
        case Unary(op="not"):
            return f"not {at_least(node.arg, _NOT)}", _NOT
        case Unary():
            return f"-{at_least(node.arg, _NEGATE)}", _NEGATE
        case Binary():
            level = _MULTIPLY if node.op == "*" else _ADD
            return f"{at_least(node.left, level)} {node.op} {at_least(node.right, level + 1)}", level
        case Compare():
            tail = "".join(f" {op} {at_least(b, _ADD)}" for _, op, b in node.pairs)
            return at_least(node.first, _ADD) + tail, _COMPARE
        case Logic():
            level = _AND if node.op == "and" else _OR
            return f" {node.op} ".join(at_least(arg, level + 1) for arg in node.args), level
