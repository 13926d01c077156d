"""The language of guards: what is refused, and that what is taken means what Python means by it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstate.spec.expr import MAX_DEPTH, MAX_LENGTH, MAX_NODES, TRUE, Expr, ExprError, Type, conjunction, parse

TYPES: dict[str, Type] = {"readers": "int", "lost": "int", "published": "bool", "again": "bool"}


@pytest.mark.parametrize(
    ("source", "word", "says"),
    [
        # Nothing of this is ever run, or even computed.
        ("().__class__", "().__class__", "an attribute is not allowed"),
        ("9**9**9", "9**9**9", 'the operator "**" is not allowed'),
        ("__import__()", "__import__()", "a call is not allowed"),
        ("readers.real", "readers.real", "an attribute"),
        ("readers[0]", "readers[0]", "a subscript"),
        ("[readers for readers in ()]", "[readers for readers in ()]", "a comprehension"),
        ("lambda", "lambda", "is not an expression"),
        ("lambda: 0", ":", "the character"),
        ("(readers := 1)", ":", "the character"),
        ("lost if again else readers", "lost if again else readers", "an if-else"),
        ("'text'", "'", "the character"),
        ('f"{readers}"', '"', "the character"),
        ("(readers, lost)", "(readers, lost)", "a tuple"),
        ("None", "None", "this constant is not allowed"),
        ("...", "...", "this constant is not allowed"),
        ("readers # more", "#", "the character"),
        ("readérs > 0", "é", "the character"),
        ("lost\n> 0", "\\n", "the character"),
        ("\x00", "\\x00", "the character"),
        # Numbers.
        ("2147483649", "2147483649", "is too large"),
        ("1" * 250, "1" * 250, "is too large"),
        ("1.5", "1.5", "is not a whole number"),
        ("1e9", "1e9", "is not a whole number"),
        ("0x10", "0x10", "is not a whole number"),
        ("1_000", "1_000", "is not a whole number"),
        ("1j", "1j", "is not a whole number"),
        ("007", "007", "is not an expression"),
        # Operators.
        ("readers / 2", "readers / 2", 'the operator "/"'),
        ("readers % 2", "readers % 2", 'the operator "%"'),
        ("readers << 2", "readers << 2", 'the operator "<<"'),
        ("~readers", "~readers", 'the operator "~"'),
        ("+readers", "+readers", 'the operator "+"'),
        ("readers is lost", "readers is lost", 'the operator "is"'),
        ("readers in lost", "readers in lost", 'the operator "in"'),
        ("readers * lost", "readers * lost", "multiplies two variables"),
        ("readers = 0", "=", "to compare write =="),
        # Names and types.
        ("raeders > 0", "raeders", 'unknown name "raeders" (did you mean "readers"?)'),
        ("x > 0", "x", 'unknown name "x"'),
        ("true", "true", 'unknown name "true"'),
        ("not readers", "readers", '"not" takes conditions, and "readers" is a number'),
        ("readers and again", "readers", '"and" takes conditions'),
        ("readers + again", "again", '"+" takes numbers, and "again" is a condition'),
        ("-again", "again", '"-" takes numbers'),
        ("readers == again", "readers == again", "compares a number with a condition"),
        ("lost < readers == again", "lost < readers == again", "compares a number with a condition"),
        ("published < again", "published < again", "orders conditions"),
        # Limits.
        ("", "", "is empty"),
        ("  ", "", "is empty"),
        ("(" * 21 + "lost" + ")" * 21, "(" * 21 + "lost" + ")" * 21, "nests parentheses 21 deep"),
        ("not " * 25 + "again", "not " * 25 + "again", "more than 20 operations deep"),
        (" + ".join("1" * 60), " + ".join("1" * 60), "119 nodes"),
        ("again or " * 50 + "again", "again or " * 50 + "again", "455 characters"),
        ("readers >", "readers >", "is not an expression"),
        (")(", ")(", "is not an expression"),
    ],
)
def test_refused_with_the_word(source: str, word: str, says: str) -> None:
    with pytest.raises(ExprError) as caught:
        parse(source, TYPES)
    assert says in str(caught.value)
    assert caught.value.word == word
    assert "\n" not in str(caught.value)


def test_what_is_just_within_the_limits_is_taken() -> None:
    parse("(" * MAX_DEPTH + "lost" + ")" * MAX_DEPTH, TYPES)
    parse("not " * (MAX_DEPTH - 1) + "again", TYPES)
    parse("-2147483648", TYPES)
    parse(f"lost >{' ' * (MAX_LENGTH - 7)}1", TYPES)
    parse(" or ".join(["again"] * 33), TYPES)
    assert MAX_NODES == 100


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("lost < readers <= 3 and not published", True),
        ("not (lost == 1)", True),
        ("2 * (readers - 5) * 3", -12),
        ("- -readers", 3),
        ("again == (lost != 0)", False),
        ("readers - (lost - 1)", 4),
        ("again or published and not again", True),
        ("True", True),
        ("0", 0),
    ],
)
def test_values(source: str, value: int | bool) -> None:
    got = parse(source, TYPES).evaluate({"readers": 3, "lost": 0, "published": False, "again": True})
    assert (got, type(got)) == (value, type(value))


def test_a_missing_name_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="lost"):
        parse("lost", TYPES).evaluate({})


def test_printed_for_generated_code() -> None:
    expr = parse("not (lost + 1 < readers) or (again and (published or again))", TYPES)
    assert expr.python(lambda name: f"t.{name}[slot]") == (
        "not t.lost[slot] + 1 < t.readers[slot] or t.again[slot] and (t.published[slot] or t.again[slot])"
    )
    assert expr.names == frozenset(TYPES)
    assert expr.type == "bool"


def test_conjunctions_are_flat_and_forget_true() -> None:
    one, two = parse("again and lost == 0", TYPES), parse("published", TYPES)
    both = conjunction([one, TRUE, two])
    assert both.source == "again and lost == 0 and published"
    assert [part.source for part in both.conjuncts] == ["again", "lost == 0", "published"]
    assert conjunction([TRUE, TRUE]) is TRUE
    assert TRUE.conjuncts == ()
    assert conjunction([two]).node == two.node
    assert parse("(again and published) and again", TYPES).conjuncts[1].source == "published"
    assert not parse("1", TYPES).is_true


# --- For any text ---------------------------------------------------------------------------------------------------

OTHERS = "+ - * ( ) < > == != <= >= and or not True False 0 1 7 ** / . , = : [ ] ' is in if else lambda"
WORDS = [*TYPES, *OTHERS.split()]


def attempt(text: str) -> Expr | ExprError:
    """What comes of a text; anything but the two raises through."""
    try:
        return parse(text, TYPES)
    except ExprError as refused:
        return refused


@given(st.one_of(st.text(max_size=320), st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)))
def test_any_text_is_an_expression_or_an_expr_error(text: str) -> None:
    assert str(attempt(text)).isprintable()


def numbers() -> st.SearchStrategy[str]:
    leaves = st.one_of(st.integers(0, 9).map(str), st.sampled_from(["readers", "lost", "2147483648"]))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from("+-"), inner),
            st.builds("{} {} {}".format, inner, st.sampled_from("+-"), inner),
            st.builds("{} * ({})".format, st.integers(0, 5), inner),
            st.builds("-{}".format, inner),
        ),
        max_leaves=5,
    )


def conditions() -> st.SearchStrategy[str]:
    orders = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    leaves = st.one_of(
        st.sampled_from(["published", "again", "True", "False"]),
        st.builds("{} {} {}".format, numbers(), orders, numbers()),
        st.builds("{} {} {} {} {}".format, numbers(), orders, numbers(), orders, numbers()),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds("{} {} {}".format, inner, st.sampled_from(["and", "or"]), inner),
            st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner),
            st.builds("({}) {} ({})".format, inner, st.sampled_from(["==", "!="]), inner),
            st.builds("not {}".format, inner),
        ),
        max_leaves=5,
    )


@settings(max_examples=300)
@given(
    st.one_of(numbers(), conditions()).filter(lambda text: len(text) <= MAX_LENGTH),
    st.fixed_dictionaries(
        {"readers": st.integers(), "lost": st.integers(-3, 3), "published": st.booleans(), "again": st.booleans()}
    ),
)
def test_agrees_with_python(source: str, env: dict[str, int | bool]) -> None:
    """The one place where a text is evaluated by Python: as the judge, over texts that this file made."""
    expr = attempt(source)
    if isinstance(expr, ExprError):
        assert "deep" in str(expr) or "nodes" in str(expr), expr
        return
    value = expr.evaluate(env)
    judge = eval(source, {"__builtins__": {}}, env)  # noqa: S307
    assert (value, type(value)) == (judge, type(judge))
    assert eval(expr.python(), {"__builtins__": {}}, env) == judge  # noqa: S307
    assert parse(expr.python(), TYPES).node == expr.node
