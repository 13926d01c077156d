"""The glossary is in order, says each word once, and has the words that records and reports are made of."""

from __future__ import annotations

import re

import pytest

from kvstate.machines.messages import Kind, Outcome
from kvstate.spec.loader import load_spec
from tests.tidy.files import ROOT

TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
MAIN, _, TWICE = TEXT.partition("\n## Words that serve twice\n")
TERMS = re.findall(r"(?m)^\* \*\*(.+?)\*\*:", MAIN)
SPEC = load_spec(check=False)


def test_the_words_are_in_order_and_said_once() -> None:
    assert len(TERMS) > 100
    assert sorted(set(TERMS), key=lambda term: term.replace("-", " ")) == TERMS


@pytest.mark.parametrize("machine", ["block", "part", "key"])
def test_every_state_that_others_speak_of_is_there(machine: str) -> None:
    """`absent` and `new` say it themselves."""
    states = {state.name for state in SPEC.machine(machine).states} - {"absent", "new"}
    assert states <= set(TERMS), f"the glossary lacks {', '.join(sorted(states - set(TERMS)))}"


@pytest.mark.parametrize("words", [Kind, Outcome], ids=["kinds of part", "outcomes"])
def test_what_crosses_the_edge_is_there(words: type[Kind] | type[Outcome]) -> None:
    assert {word.value for word in words} <= set(TERMS)


def test_kinds_of_event_are_explained() -> None:
    assert {"report", "signal"} <= set(TERMS)
    twice = re.findall(r"(?m)^\* \*\*(.+?)\*\*:", TWICE)
    assert "request" in twice
    assert twice == sorted(set(twice))


def test_a_definition_is_short() -> None:
    for term, text in re.findall(r"(?ms)^\* \*\*(.+?)\*\*: (.+?)(?=^\* \*\*|\Z)", MAIN):
        assert 1 <= len(re.findall(r"[.!?](?:\s|$)", text)) <= 3, f"{term}: {text}"
