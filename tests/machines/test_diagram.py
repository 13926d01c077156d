"""The pictures: every row is in them, with its words, in the right stroke, between the right states."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator

import pytest

from kvstate.spec.diagram import STROKES, STYLES, DiagramError, dot, edges, mermaid, stays, svg
from kvstate.spec.model import Machine, Spec

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="the program dot (Graphviz) is not installed")


def drawn(machine: Machine) -> Iterator[tuple[str, str, str]]:
    """What must be in a picture: from, to, and an event with its guard and effects, for every row and source."""
    for row in machine.rows:
        for source in row.sources:
            for event in row.events:
                yield source, row.to or source, event


def test_every_row_is_an_edge_or_a_line_inside(machine: Machine) -> None:
    between = edges(machine)
    for source, target, event in drawn(machine):
        kind = machine.event(event).kind
        labels = [label for _, label in stays(machine, source)] if source == target else between[source, target, kind]
        assert any(event in re.split(r"[ ,]+", label) for label in labels), f"{source} --{event}--> {target} is missing"
    words = [row.when.source for row in machine.rows if not row.when.is_true]
    words += [effect for row in machine.rows for effect in row.effects]
    labels = [label for group in between.values() for label in group]
    labels += [label for state in machine.states for _, label in stays(machine, state.name)]
    assert all(any(word in label for label in labels) for word in words)


def test_parallel_edges_are_merged(machine: Machine) -> None:
    text = dot(machine)
    ends = re.findall(r'^  ("\w+" -> "\w+") \[style=(\w+)', text, flags=re.MULTILINE)
    assert len(ends) == len(set(ends)) == len(edges(machine))
    pairs = re.findall(r"^    (\w+ --> \w+) :", mermaid(machine), flags=re.MULTILINE)
    assert len(pairs) == len(set(pairs))


def test_dot_of_the_block(block: Machine) -> None:
    text = dot(block)
    assert '  " " -> "free";' in text
    assert '"free" [label=<<B>free</B>>, peripheries=2];' in text
    assert "peripheries" not in next(line for line in text.splitlines() if line.startswith('  "draining" [label'))
    assert '"free" -> "open" [style=solid, label="  reserve\\l"];' in text
    assert '"open" -> "draining" [style=dotted, label="  release [lost < readers + writers]\\l"];' in text
    assert '"cached" -> "free" [style=solid, label="  evict [readers == 0] / gone\\l"];' in text
    inside = next(line for line in text.splitlines() if line.startswith('  "open" [label'))
    assert f"{STROKES['signal']} read_end [lost &lt; readers]" in inside
    assert f"{STROKES['request']} hold, step_hold" in inside
    assert '"open" -> "open"' not in text


def test_reports_are_dashed(spec: Spec) -> None:
    assert '"flying" -> "landed" [style=dashed, label="  done / let_go ok\\l"];' in dot(spec.machine("part"))
    assert set(STYLES) == set(STROKES) == {"request", "report", "signal"}


def test_a_row_of_two_kinds_of_event_is_drawn_once_for_each(odd: Machine) -> None:
    kinds = [(kind, label) for kind, label in stays(odd, "end") if "pick" in label or "never" in label]
    assert kinds == [("report", "pick [t >= 0]"), ("signal", "never [t >= 0]")]


def test_mermaid_of_the_block(block: Machine) -> None:
    text = mermaid(block)
    assert text.startswith("stateDiagram-v2\n    [*] --> free\n")
    assert "    free --> open : reserve\n" in text
    assert "    open --> draining : release [lost #lt; readers + writers]\n" in text
    assert "    cached --> free : evict [readers == 0] / gone<br/>unpublish [readers == 0]\n" in text
    assert "    quarantined --> quarantined : read_late [readers #gt; 1]<br/>write_late [writers #gt; 1]\n" in text
    assert "    class free home\n" in text


def test_words_of_mermaid_are_no_names_of_states_there(odd: Machine) -> None:
    text = mermaid(odd)
    assert '    state "end" as end_\n    state "note" as note_\n    [*] --> end_\n' in text
    assert "    end_ --> note_ : pick [t #gt; 0] / one two\n" in text
    assert "classDef" not in text, "no state of it is a home"


def test_the_same_machine_draws_the_same(machine: Machine) -> None:
    assert dot(machine) == dot(machine)
    assert mermaid(machine) == mermaid(machine)


@needs_dot
def test_svg_is_drawn(machine: Machine) -> None:
    picture = svg(machine).decode()
    assert picture.startswith("<?xml")
    for state in machine.states:
        assert f">{state.name}</text>" in picture


@needs_dot
def test_what_is_odd_in_a_title_does_not_break_the_picture(odd: Machine) -> None:
    assert "A machine with &quot;quotes&quot;" in svg(odd).decode()


def test_without_the_program_a_sentence_says_what_to_install(block: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DiagramError, match=r"drawn by the program dot, .* apt-get install graphviz"):
        svg(block)


def test_without_the_package_a_sentence_says_what_to_install(block: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(DiagramError, match=r"pip install 'kvstate\[diagram\]'"):
        svg(block)
