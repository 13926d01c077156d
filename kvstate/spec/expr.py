"""The small language of guards, counter changes and state invariants.

A closed subset of Python's expressions over declared names: whole numbers, `True`, `False`, `and`, `or`, `not`,
comparisons (chains too), `+`, `-`, and `*` where one side holds no name. Nothing else; no calls, attributes,
subscripts, powers, strings. The text is parsed by Python's own parser and then *rebuilt* as a tree of the few nodes
below, so what the rebuilding does not know cannot get through, and no text from a file is ever compiled or run.

It is typed: a flag is not a number here. Python would take `lost + published`; in a table of counters that is a slip.

Three laws that the tests hold it to: `parse` raises `ExprError` or nothing; `evaluate` agrees with Python on every
expression that parses; `parse(e.python())` is `e` again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kvstate.spec.expr_text import (
    MAX_DEPTH,
    MAX_INT,
    MAX_LENGTH,
    MAX_NODES,
    ExprError,
    article,
    check_text,
    did_you_mean,
    short,
)
from kvstate.spec.nodes import (
    COMPARISONS,
    Binary,
    Compare,
    Const,
    Logic,
    Name,
    Node,
    Type,
    Unary,
    Value,
    evaluate,
    show,
    type_of,
    walk,
)

__all__ = [
    "COMPARISONS",
    "MAX_DEPTH",
    "MAX_INT",
    "MAX_LENGTH",
    "MAX_NODES",
    "TRUE",
    "Binary",
    "Compare",
    "Const",
    "Expr",
    "ExprError",
    "Logic",
    "Name",
    "Node",
    "Type",
    "Unary",
    "Value",
    "article",
    "conjunction",
    "did_you_mean",
    "evaluate",
    "of_node",
    "parse",
    "show",
    "type_of",
    "walk",
]


@dataclass(frozen=True, slots=True)
class Expr:
    """A parsed expression. `node` is the whole of its meaning; provers and printers walk it."""

    source: str
    """As it was written."""
    node: Node
    names: frozenset[str]
    """The variables and params that it reads."""
    type: Type
    """A number or a condition."""

    def evaluate(self, env: Mapping[str, Value]) -> Value:
        """The value where the names are as `env` says (KeyError if one is not there). Walks the tree."""
        return evaluate(self.node, env)

    def python(self, rename: Callable[[str], str] = str) -> str:
        """Python source of the same meaning, for generated code; `rename` must give an atom (`self.left[slot]`)."""
        return show(self.node, rename)[0]

    @property
    def is_true(self) -> bool:
        """Is it the literal `True`, that is, says nothing?"""
        return self.type == "bool" and self.node == Const(True)

    @property
    def conjuncts(self) -> tuple[Expr, ...]:
        """The parts of an `and`, in order; itself where there is none; nothing of a literal `True`."""
        if self.is_true:
            return ()
        if isinstance(self.node, Logic) and self.node.op == "and":
            return tuple(part for arg in self.node.args for part in of_node(arg).conjuncts)
        return (self,)


def of_node(node: Node, source: str | None = None) -> Expr:
    """The expression of a tree, printed where no source is given. For trees that come from parsed ones."""
    names = frozenset(child.name for child in walk(node) if isinstance(child, Name))
    text = show(node, str)[0] if source is None else source
    return Expr(text, node, names, type_of(node))


def conjunction(parts: Iterable[Expr]) -> Expr:
    """All of `parts` and-ed, flat; `True` where there is none. May be longer than what `parse` would take."""
    flat = [conjunct.node for part in parts for conjunct in part.conjuncts]
    if not flat:
        return TRUE
    return of_node(flat[0] if len(flat) == 1 else Logic("and", tuple(flat)))


TRUE = Expr("True", Const(True), frozenset(), "bool")
"""The guard of a row that has none, and what stands in for an expression that was refused."""


# --- From text to tree ----------------------------------------------------------------------------------------------

_FORBIDDEN = {
    ast.Call: "a call",
    ast.Attribute: "an attribute",
    ast.Subscript: "a subscript",
    ast.IfExp: "an if-else",
    ast.Tuple: "a tuple",
    ast.List: "a list",
    ast.Set: "a set",
    ast.Await: "an await",
    ast.Yield: "a yield",
    ast.YieldFrom: "a yield",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
}
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Invert: "~",
    ast.UAdd: "+",
}


def parse(source: str, types: Mapping[str, Type]) -> Expr:
    """Read one expression over the names of `types`. Raises `ExprError`, and nothing else, on any text."""
    text = source.strip()
    check_text(text)
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as problem:
        reason = problem.msg if isinstance(problem, SyntaxError) else "the parser gave up"
        raise ExprError(f'"{short(text)}" is not an expression: {reason}', text) from None
    count = sum(1 for node in ast.walk(tree) if isinstance(node, ast.expr))
    if count > MAX_NODES:
        raise ExprError(f'the expression "{short(text)}" has {count} nodes; {MAX_NODES} is the limit', text)
    return of_node(_Builder(text, types).build(tree, 1), text)


class _Builder:
    """Rebuilds Python's tree as ours; every kind of node that it does not name is refused."""

    def __init__(self, text: str, types: Mapping[str, Type]) -> None:
        self.text = text
        self.types = types

    def word(self, node: ast.expr) -> str:
        return self.text[node.col_offset : node.end_col_offset]

    def refusal(self, what: str, node: ast.expr) -> ExprError:
        return ExprError(f'{what} is not allowed: "{short(self.word(node))}"', self.word(node))

    def build(self, node: ast.expr, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise ExprError(f'"{short(self.text)}" is more than {MAX_DEPTH} operations deep', self.text)
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                return self.name(node)
            case ast.UnaryOp():
                return self.unary(node, depth)
            case ast.BinOp():
                return self.binary(node, depth)
            case ast.Compare():
                return self.compare(node, depth)
            case ast.BoolOp():
                op: Literal["and", "or"] = "and" if isinstance(node.op, ast.And) else "or"
                return Logic(op, tuple(self.typed(arg, "bool", op, depth) for arg in node.values))
            case _:
                raise self.refusal(_FORBIDDEN.get(type(node), "this"), node)

    def typed(self, node: ast.expr, want: Type, op: str, depth: int) -> Node:
        """The operand of `op`, which must be a number or a flag."""
        built = self.build(node, depth + 1)
        if type_of(built) != want:
            needs = "numbers" if want == "int" else "conditions"
            word = self.word(node)
            raise ExprError(f'"{op}" takes {needs}, and "{short(word)}" is {article(type_of(built))}', word)
        return built

    def constant(self, node: ast.Constant) -> Const:
        if not isinstance(node.value, int):
            raise self.refusal("this constant", node)
        return Const(node.value)

    def name(self, node: ast.Name) -> Name:
        if node.id not in self.types:
            raise ExprError(f'unknown name "{node.id}"{did_you_mean(node.id, self.types)}', node.id)
        return Name(node.id, self.types[node.id])

    def unary(self, node: ast.UnaryOp, depth: int) -> Unary:
        if isinstance(node.op, ast.Not):
            return Unary("not", self.typed(node.operand, "bool", "not", depth))
        if isinstance(node.op, ast.USub):
            return Unary("-", self.typed(node.operand, "int", "-", depth))
        raise self.refusal(f'the operator "{_OPERATORS[type(node.op)]}"', node)

    def binary(self, node: ast.BinOp, depth: int) -> Binary:
        op = _OPERATORS[type(node.op)]
        if op not in ("+", "-", "*"):
            raise self.refusal(f'the operator "{op}"', node)
        left, right = (self.typed(side, "int", op, depth) for side in (node.left, node.right))
        if op == "*" and of_node(left).names and of_node(right).names:
            word = self.word(node)
            raise ExprError(f'"{short(word)}" multiplies two variables; one side of * must be a number', word)
        return Binary("+" if op == "+" else "-" if op == "-" else "*", left, right)

    def compare(self, node: ast.Compare, depth: int) -> Compare:
        ops = tuple(_OPERATORS[type(op)] for op in node.ops)
        sides = tuple(self.build(side, depth + 1) for side in (node.left, *node.comparators))
        built = Compare(sides[0], ops, sides[1:])
        word = self.word(node)
        for left, op, right in built.pairs:
            if op not in COMPARISONS:
                raise self.refusal(f'the operator "{op}"', node)
            if type_of(left) != type_of(right):
                raise ExprError(f'"{short(word)}" compares a number with a condition', word)
            if type_of(left) == "bool" and op not in ("==", "!="):
                raise ExprError(f'"{short(word)}" orders conditions; they are only equal or not', word)
        return built
