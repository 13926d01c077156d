"""Each rule on a good spec with one thing broken: that rule complains, no other does, and it names the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvstate.spec import rules
from kvstate.spec.loader import SpecError, load_machine, load_spec

Break = Callable[[str, str, str], Path]
Edit = tuple[str, str, str]

C04 = """[[coupling]]
id = "C04"
effect = "bell.send_in"
event = "door.leave"
over = "bell_door"
why = "And somebody out."
"""
A01 = """[[act]]
id = "A01"
effect = "door.count"
act = "count_person"
order = "before"
why = "The house keeps a list."
"""
RELATION = '[[relation]]\nname = "bell_door"\n'
SPARE = '[[relation]]\nname = "spare"\nof = "door"\nto = "bell"\ndoc = "Nobody goes there."\n'
SPARE_STATE = '[states.lost]\nhome = true\ndoc = "x"\n\n[events.push]'
JAM_IN_BROKEN = '["broken"]\nevent = ["jam"]'

# rule, edits, file, place, word, and what the sentence says
BROKEN: list[tuple[str, list[Edit], str, str, str, str]] = [
    (
        "ids_are_unique",
        [("door.toml", 'id = "D04"', 'id = "D03"')],
        *("door.toml", "row D03", "D03", 'the id "D03" is used 2 times'),
    ),
    (
        "rows_say_each_word_once",
        [("door.toml", '["shut", "ajar"]', '["shut", "ajar", "shut"]')],
        *("door.toml", "row D07", "shut", 'the state "shut" is listed twice'),
    ),
    (
        "rows_say_each_word_once",
        [("door.toml", 'event = ["enter"]', 'event = ["enter", "enter"]')],
        *("door.toml", "row D05", "enter", 'the event "enter" is listed twice'),
    ),
    (
        "staying_is_written_as_staying",
        [("door.toml", 'to = "="\nwhy = "Broken', 'to = "broken"\nwhy = "Broken')],
        *("door.toml", "row D08", "broken", '"to" names its only source "broken"; write to = "="'),
    ),
    (
        "sets_change_something",
        [("bell.toml", '"passed + 1"', '"(passed)"')],
        *("bell.toml", "row E01", "passed", '"passed" is set to itself'),
    ),
    (
        "variables_are_read",
        [("door.toml", "[states.shut]", 'age = { type = "int", initial = 0, doc = "x" }\n[states.shut]')],
        *("door.toml", "variable age", "age", 'no guard and no invariant reads the variable "age"'),
    ),
    (
        "variables_are_read",  # Being written, and read only to be written, is not enough.
        [("bell.toml", 'invariant = "passed >= 0"\n', "")],
        *("bell.toml", "variable passed", "passed", "no guard and no invariant reads"),
    ),
    (
        "params_are_used",
        [("door.toml", "[vars]", 'height = { default = 2, min = 1, max = 3, doc = "x" }\n[vars]')],
        *("door.toml", "param height", "height", 'nothing uses the param "height"'),
    ),
    (
        "events_are_answered",
        [("door.toml", "[events.turn]", '[events.knock]\nkind = "request"\ndoc = "x"\n\n[events.turn]')],
        *("door.toml", "event knock", "knock", 'no row answers "knock"'),
    ),
    (
        "reports_have_rows_everywhere",
        [("door.toml", '["shut", "ajar"]', '["shut"]')],
        *("door.toml", "event jam", "ajar", 'no row answers the report "jam" in the state "ajar"'),
    ),
    (
        "rows_of_a_cell_differ",
        [("door.toml", 'when = "locked"\n', "")],
        *("door.toml", "row D04", "D03", 'D03 and this row both answer "turn" in "shut" and overlap'),
    ),
    (
        "rows_of_a_cell_differ",
        [("door.toml", 'when = "locked"\n', 'when = "not (locked)"\n')],
        *("door.toml", "row D04", "D03", "have the same guard"),
    ),
    (
        "states_are_reachable",
        [
            ("door.toml", "[events.push]", SPARE_STATE),
            ("door.toml", JAM_IN_BROKEN, JAM_IN_BROKEN.replace("]", ', "lost"]', 1)),
        ],
        *("door.toml", "state lost", "lost", 'no path of rows leads from "shut" to "lost"'),
    ),
    (
        "states_lead_home",
        [("door.toml", 'home = true\ndoc = "For good."', 'doc = "For good."')],
        *("door.toml", "state broken", "broken", 'no path of rows leads from "broken" to a home state'),
    ),
    (
        "states_lead_home",
        [("bell.toml", "home = true\n", "")],
        *("bell.toml", "", "home", "no state is a home"),
    ),
    (
        "ids_are_unique_everywhere",
        [("bell.toml", 'id = "E01"', 'id = "D01"')],
        *("door.toml", "row D01", "D01", 'the id "D01" is a row of bell.toml already'),
    ),
    (
        "ids_are_unique_everywhere",
        [("coupling.toml", 'id = "C01"', 'id = "D01"')],
        *("coupling.toml", "coupling D01", "D01", 'the id "D01" stands in door.toml already'),
    ),
    (
        "ids_are_unique_everywhere",
        [("coupling.toml", 'id = "A01"', 'id = "C01"')],
        *("coupling.toml", "act C01", "C01", 'the id "C01" stands in coupling.toml already'),
    ),
    (
        "ids_are_unique_everywhere",
        [("coupling.toml", RELATION, RELATION + 'of = "bell"\nto = "door"\ndoc = "x"\n\n' + RELATION)],
        *("coupling.toml", "relation bell_door", "bell_door", 'the name "bell_door" is used twice'),
    ),
    (
        "effects_mean_something",
        [("door.toml", '["count"]', '["count", "shout"]')],
        *("door.toml", "row D05", "shout", 'the effect "shout" has neither a coupling nor an act'),
    ),
    (
        "signals_are_fired",
        [("coupling.toml", C04, "")],
        *("door.toml", "event leave", "leave", 'no coupling fires the signal "leave"'),
    ),
    (
        "only_requests_are_asked",
        [("coupling.toml", 'event = "door.leave"', 'event = "door.leave"\nask = true')],
        *("coupling.toml", "coupling C04", "leave", '"ask" is for requests, and door.leave is a signal'),
    ),
    (
        "couplings_differ",
        [("coupling.toml", C04, C04 + C04.replace("C04", "C05"))],
        *("coupling.toml", "coupling C05", "C04", "says the same as C04"),
    ),
    (
        "couplings_differ",
        [("coupling.toml", A01, A01 + A01.replace("A01", "A02"))],
        *("coupling.toml", "act A02", "A01", "says the same as A01"),
    ),
    (
        "relations_are_used",
        [("coupling.toml", RELATION, SPARE + RELATION)],
        *("coupling.toml", "relation spare", "spare", 'no coupling goes over the relation "spare"'),
    ),
]


def complaints(directory: Path) -> dict[str, list[SpecError]]:
    """The rules that complain about a spec, each with all that it says."""
    spec = load_spec(directory, check=False)
    found = {rule.__name__: [it for machine in spec.machines for it in rule(machine)] for rule in rules.MACHINE_RULES}
    found |= {rule.__name__: list(rule(spec)) for rule in rules.SPEC_RULES}
    assert rules.check_spec(spec) == [] or any(found.values())
    return {rule: errors for rule, errors in found.items() if errors}


@pytest.mark.parametrize(("rule", "edits", "file", "place", "word", "says"), BROKEN)
def test_the_rule_and_no_other_complains(
    good: Path, break_: Break, rule: str, edits: list[Edit], file: str, place: str, word: str, says: str
) -> None:
    for edit in edits:
        break_(*edit)
    found = complaints(good)
    assert list(found) == [rule]
    (error,) = found[rule]
    assert (error.file, error.place, error.word) == (file, place, word)
    assert says in error.sentence
    assert [str(it) for it in rules.check_spec(load_spec(good, check=False))] == [str(error)]


def test_no_rule_complains_about_the_good_spec(good: Path) -> None:
    assert complaints(good) == {}


def test_every_rule_has_a_broken_file_and_a_reason() -> None:
    known = [*rules.MACHINE_RULES, *rules.SPEC_RULES]
    assert {rule for rule, *_ in BROKEN} == {rule.__name__ for rule in known}
    assert all(rule.__doc__ for rule in known)


def test_a_machine_alone_is_not_asked_for_couplings(good: Path) -> None:
    (good / "coupling.toml").unlink()
    assert rules.check_machine(load_machine(good / "door.toml")) == []
    assert complaints(good).keys() == {"effects_mean_something", "signals_are_fired"}


def test_the_spec_of_the_package_keeps_every_rule() -> None:
    assert rules.check_spec(load_spec()) == []
