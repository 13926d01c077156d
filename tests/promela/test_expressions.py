"""Every form of expression prints to Promela and means there what it means here."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from kvstate.promela.expressions import promela
from kvstate.spec.expr import Expr, Type, Value, parse
from kvstate.spec.loader import load_spec
from tests.promela.spin import needs_spin, simulate

TYPES: dict[str, Type] = {"a": "int", "b": "int", "f": "bool", "g": "bool"}
FORMS = """\
0; 7; True; False; a; f; -a; -(a + 1); not f; not (f or g); a + b; a - b; a - (b - 1); 2 * a; (a + b) * 3; -2 * (a - b)
a == b; a != b; a < b; a <= b; a > b; a >= b; f == g; f != g; f == (a < b); a < b < 3; 0 <= a < b <= 3; a == b == 1
f and g; f or g; f and g or not f; f and (g or not f); not f == g; (a < b) == (b < a); not (a < b and f) or g
a - 1 < b and (f or not (a == 0 or b > 2)) and a + b - 2 * a <= 3"""
EXPRESSIONS = [parse(text, TYPES) for line in FORMS.splitlines() for text in line.split("; ")]
VALUES: list[dict[str, Value]] = [
    {"a": a, "b": b, "f": f, "g": g} for a, b, f, g in product((0, 1, 3), (0, 2), (False, True), (False, True))
]


def in_python(text: str) -> str:
    """The same words as Python has them: `&&`, `||` and a `!` that is not of `!=`."""
    words = {"&&": " and ", "||": " or ", "!": " not ", "true": "True", "false": "False"}
    return re.sub(r"&&|\|\||!(?!=)|\btrue\b|\bfalse\b", lambda found: words[found[0]], text)


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=lambda expr: expr.source)
def test_what_is_printed_means_the_same(expr: Expr) -> None:
    printed = in_python(promela(expr.node, str))
    for env in VALUES:
        assert eval(printed, {}, dict(env)) == expr.evaluate(env), (printed, env)  # noqa: S307 - printed here


def test_every_expression_of_the_data_is_printed() -> None:
    spec = load_spec(check=False)
    for machine in spec.machines:
        for row in machine.rows:
            for expr in (row.when, *(right for _, right in row.sets)):
                values: dict[str, Value] = dict.fromkeys(expr.names, 1)
                values |= {var.name: True for var in machine.vars if var.type == "bool" and var.name in values}
                assert eval(in_python(promela(expr.node, str)), {}, dict(values)) == expr.evaluate(values)  # noqa: S307


def asserted(pairs: list[tuple[str, Value, dict[str, Value]]]) -> str:
    """A model that asserts each of these expressions to have that value."""
    lines = ["short a; short b; bool f; bool g;", "active proctype p() {"]
    for text, value, env in pairs:
        lines += [f"  {name} = {int(worth)};" for name, worth in env.items()]
        lines.append(f"  assert({text} == {int(value)});")
    return "\n".join([*lines, "}"])


@needs_spin
def test_spin_finds_the_same_values(tmp_path: Path) -> None:
    pairs = [(f"({promela(expr.node, str)})", expr.evaluate(env), env) for expr in EXPRESSIONS for env in VALUES]
    assert "assertion violated" not in simulate(asserted(pairs), tmp_path)


@needs_spin
def test_a_value_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    text = promela(parse("a - b < 1 and not f", TYPES).node, str)
    assert "assertion violated" in simulate(asserted([(text, False, VALUES[0])]), tmp_path)
