"""The text of an expression, before it is a tree: its limits, what its characters say, and the words of a refusal.

What can be told from the characters is told from them, before any parser sees the text: it is cheap, it bounds what the
parser is given, and it makes the better sentence.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from kvstate.spec.nodes import Type

MAX_LENGTH = 300
"""Characters of an expression."""
MAX_DEPTH = 20
"""Nodes from the root of the tree to a leaf."""
MAX_NODES = 100
"""Nodes of the whole tree."""
MAX_INT = 2**31
"""The largest number that may be written, in an expression or in the data."""


class ExprError(ValueError):
    """Why a text is no expression: one sentence, and the word that it is about."""

    def __init__(self, sentence: str, word: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.word = word


_STRANGE = re.compile(r"[^ -~]|[\"'`\\#;:=@$?]")
_NUMBERLIKE = re.compile(r"(?<!\w)\.?\d[\w.]*")
_LONE_EQUALS = re.compile(r"[=!<>]=|=")


def check_text(text: str) -> None:
    """Raise `ExprError` for what is empty, too long, too deep, or has a character that no expression has."""
    if not text:
        raise ExprError("an expression is empty", "")
    if len(text) > MAX_LENGTH:
        raise ExprError(f'"{short(text)}" has {len(text)} characters; {MAX_LENGTH} is the limit', text)
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise ExprError(f'"{short(text)}" nests parentheses {deepest} deep; {MAX_DEPTH} is the limit', text)
    bare = _LONE_EQUALS.sub(lambda found: found[0] if found[0] == "=" else "  ", text)
    if strange := _STRANGE.search(bare):
        hint = "; to compare write ==" if strange[0] == "=" else ""
        what = strange[0] if strange[0].isprintable() else ascii(strange[0]).strip("'")
        raise ExprError(f'the character "{what}" is not allowed in "{short(text)}"{hint}', what)
    for number in _NUMBERLIKE.finditer(text):
        if not number[0].isdigit():
            raise ExprError(f'"{short(number[0])}" is not a whole number in plain digits', number[0])
        if len(number[0]) > 10 or int(number[0]) > MAX_INT:
            raise ExprError(f"the number {short(number[0])} is too large; {MAX_INT} is the limit", number[0])


def short(text: str) -> str:
    """As much of a text as a sentence can carry, on one line whatever is in it."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= 40 else line[:37] + "..."


def article(kind: Type) -> str:
    """What a type is called in a sentence."""
    return "a number" if kind == "int" else "a condition"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint at the end of a sentence about an unknown name; empty where nothing is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""
