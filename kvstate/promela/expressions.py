"""The data's expressions in Promela.

Numbers are `short` there, and an expression is worth what it is in C, with 32 bits; the bounds of a scope keep counters
far below either. A flag is 0 or 1, and only equal or not, so a comparison of flags is one of numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from kvstate.spec.nodes import Binary, Compare, Const, Logic, Name, Node, Unary


def promela(node: Node, rename: Callable[[str], str]) -> str:
    """Promela source of the same meaning; `rename` gives what stands for a name. All that is built has parentheses."""
    match node:
        case Const():
            return str(node.value).lower()
        case Name():
            return rename(node.name)
        case Unary():
            return f"({'!' if node.op == 'not' else '-'}{promela(node.arg, rename)})"
        case Binary():
            return f"({promela(node.left, rename)} {node.op} {promela(node.right, rename)})"
        case Compare():
            pairs = [f"({promela(a, rename)} {op} {promela(b, rename)})" for a, op, b in node.pairs]
            return pairs[0] if len(pairs) == 1 else f"({' && '.join(pairs)})"
        case Logic():
            sign = " && " if node.op == "and" else " || "
            return f"({sign.join(promela(arg, rename) for arg in node.args)})"
