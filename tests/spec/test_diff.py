"""Each rule of the difference of two specs: what changed, how heavy it is, and whom it breaks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvstate.errors.registry import load_errors
from kvstate.proof.rows import implied
from kvstate.spec import spec_dir
from kvstate.spec.diff import Difference, compare, compare_machines
from kvstate.spec.diff_change import Change, Implies, undecided
from kvstate.spec.diff_errors import code_changes
from kvstate.spec.diff_version import is_enough, least, sentence
from kvstate.spec.loader import load_machine, load_spec

Edits = list[tuple[str, str, str]]

DOOR, BELL, LINKS = "door.toml", "bell.toml", "coupling.toml"
D01 = 'id = "D01"\nfrom = ["shut"]\nevent = ["push"]\nwhen = "not locked"\nto = "ajar"\neffects = ["ring"]\n'
D04 = 'id = "D04"\nfrom = ["shut"]\nevent = ["turn"]\nwhen = "locked"\nto = "="\nset = { locked = "not locked" }\n'
D05_WHEN = 'when = "inside < room and tickets > 0"'
D07 = 'id = "D07"\nfrom = ["shut", "ajar"]\nevent = ["jam"]\nto = "broken"\neffects = ["ring"]\n'
D08 = '[[row]]\nid = "D08"\nfrom = ["broken"]\nevent = ["jam"]\nto = "="\nwhy = "Broken is broken."\n'
LINK = '[[coupling]]\nid = "{}"\neffect = "{}"\nevent = "{}"\nover = "{}"\nwhy = "{}"\n'
C03 = LINK.format("C03", "bell.send_in", "door.enter", "bell_door", "The bell sends somebody in.")
C04 = LINK.format("C04", "bell.send_in", "door.leave", "bell_door", "And somebody out.")
C05 = LINK.format("C05", "door.count", "door.leave", "d_door", "Out.")
A02 = '[[act]]\nid = "A02"\neffect = "door.creak"\nact = "oil"\norder = "before"\nwhy = "O."\n'
D_DOOR = '[[relation]]\nname = "d_door"\nof = "door"\nto = "door"\ndoc = "D."\n'
JAMMED = '\n[events.jam]\nkind = "report"\ndoc = "The hinges gave way."\n'
ROOM = "room = { default = 2, min = 1, max = 9,"
TICKETS = 'tickets = { type = "int", initial = "given",'
ROW = '[[row]]\nid = "{}"\nfrom = ["broken"]\nevent = ["push"]\nto = "="\nwhy = "W."\n'


def replaced(text: str, old: str, new: str) -> str:
    return text.replace(old, new, 1)


# Edits (file, old text, new text), and what they are: where, how heavy, whom they break, words of the sentence.
CASES: dict[str, tuple[Edits, list[tuple[str, str, str, str]]]] = {
    "nothing": ([], []),
    "comments and layout": ([(DOOR, "# A small", "# A tiny")], []),
    "a title": ([(DOOR, "A door and", "The door and")], [("door", "words", "", "title or doc")]),
    "the first state": (
        [(DOOR, 'initial = "shut"', 'initial = "ajar"')],
        [("door", "breaking", "records ledgers", "born ajar, and were born shut")],
    ),
    "a param's default": (
        [(DOOR, ROOM, "room = { default = 3, min = 1, max = 9,")],
        [("door param room", "breaking", "records embedders", "gets 3, and got 2")],
    ),
    "a param takes less": (
        [(DOOR, ROOM, "room = { default = 2, min = 2, max = 99,")],
        [("door param room", "breaking", "embedders", "takes 2 to 99, and took 1 to 9")],
    ),
    "a param takes more": (
        [(DOOR, ROOM, "room = { default = 2, min = 1, max = 99,")],
        [("door param room", "added", "", "takes 1 to 99")],
    ),
    "a param's doc": ([(DOOR, "How many fit", "So many fit")], [("door param room", "words", "", "doc")]),
    "a new param with a default": (
        [(DOOR, "[vars]", 'width = { default = 1, min = 0, max = 9, doc = "W." }\n[vars]')],
        [("door param width", "added", "", "1 where nobody sets it")],
    ),
    "a param is gone": (
        [(DOOR, ROOM, "size = { default = 2, min = 1, max = 9,"), (DOOR, "<= room", "<= 2"), (DOOR, "< room", "< 2")],
        [
            ("door param room", "breaking", "embedders", "gone"),
            ("door param size", "added", "", "new"),
            ("door state shut", "added", "", "not less than before"),
            ("door state ajar", "breaking", "records embedders", "less"),
            ("door state broken", "breaking", "records embedders", "less"),
            ("door row D05", "breaking", "records ledgers", "narrower"),
        ],
    ),
    "a variable's beginning": (
        [(DOOR, TICKETS, 'tickets = { type = "int", initial = 5,')],
        [("door variable tickets", "breaking", "records ledgers", "begins as 5, and began as given")],
    ),
    "a variable's doc": ([(BELL, "Since the morning", "Today")], [("bell variable passed", "words", "", "doc")]),
    "a new variable with a beginning": (
        [(DOOR, "[states.shut]", '[vars.knocks]\ntype = "int"\ninitial = 0\ndoc = "K."\n\n[states.shut]')],
        [("door variable knocks", "added", "", "0 at first")],
    ),
    "a new variable to be given": (
        [(DOOR, "[states.shut]", '[vars.knocks]\ntype = "int"\ninitial = "given"\ndoc = "K."\n\n[states.shut]')],
        [("door variable knocks", "breaking", "records ledgers", "to be given")],
    ),
    "a variable is gone": (
        [
            (BELL, 'passed = { type = "int", initial = 0, doc = "Since the morning." }', ""),
            (BELL, 'invariant = "passed >= 0"', ""),
            (BELL, 'set = { passed = "passed + 1" }', ""),
        ],
        [
            ("bell variable passed", "breaking", "records ledgers", "gone"),
            ("bell state quiet", "breaking", "records embedders", "less"),
            ("bell row E01", "breaking", "records ledgers", "sets nothing, and set passed = passed + 1"),
        ],
    ),
    "a new state at the end": (
        [(DOOR, "[events.push]", '[states.gone]\nhome = true\ndoc = "G."\n\n[events.push]')],
        [("door state gone", "added", "", "new")],
    ),
    "a new state between": (
        [(DOOR, "[states.broken]", '[states.gone]\ndoc = "G."\n\n[states.broken]')],
        [
            ("door states", "breaking", "records ledgers", "broken 2 -> 3"),
            ("door state gone", "added", "", "new"),
        ],
    ),
    "a state is another's home": (
        [
            (DOOR, "[states.shut]\nhome = true\n", "[states.shut]\n"),
            (DOOR, "[states.ajar]", "[states.ajar]\nhome = true"),
        ],
        [
            ("door state shut", "breaking", "embedders", "is a home no longer"),
            ("door state ajar", "breaking", "embedders", "is a home now"),
        ],
    ),
    "a state is gone": (
        [
            (DOOR, '[states.broken]\nhome = true\ndoc = "For good."\n', ""),
            (DOOR, 'from = ["ajar", "broken"]', 'from = ["ajar"]'),
            (DOOR, D07, replaced(D07, 'to = "broken"', 'to = "shut"')),
            (DOOR, D08, ""),
        ],
        [
            ("door state broken", "breaking", "records embedders", "gone"),
            ("door row D06", "breaking", "records ledgers", "from is without broken"),
            ("door row D07", "breaking", "records workers", "leads to shut, and led to broken"),
            ("door row D08", "breaking", "records workers", "gone"),
        ],
    ),
    "a request is gone": (
        [
            (DOOR, '[events.turn]\nkind = "request"\ndoc = "Turn the key."\n', ""),
            (DOOR, '["turn"]', '["push"]'),
            (DOOR, "[[row]]\n" + D04 + 'why = "The key turns the other way."\n', ""),
        ],
        [
            ("door events", "breaking", "records ledgers", "enter 2 -> 1"),
            ("door event turn", "breaking", "records embedders", "the request is gone"),
            ("door row D03", "breaking", "records embedders", "event is without turn"),
            ("door row D03", "added", "", "event has push besides"),
            ("door row D04", "breaking", "records embedders", "gone"),
        ],
    ),
    "a relation leads elsewhere": (
        [
            (LINKS, 'of = "bell"\nto = "door"', 'of = "bell"\nto = "bell"'),
            (LINKS, C03, ""),
            (LINKS, C04, ""),
            (LINKS, 'event = "door.push"', 'event = "bell.strike"'),
        ],
        [
            ("relation bell_door", "breaking", "ledgers", "leads from bell to bell, and led from bell to door"),
            ("coupling C02", "breaking", "records ledgers", "bell.strike"),
            ("coupling C03", "breaking", "records ledgers", "gone"),
            ("coupling C04", "breaking", "records ledgers", "gone"),
        ],
    ),
    "a state's doc": ([(DOOR, "For good.", "For ever.")], [("door state broken", "words", "", "doc")]),
    "less is true in a state": (
        [(DOOR, 'invariant = "not locked"\n', "")],
        [("door state ajar", "breaking", "records embedders", ": less")],
    ),
    "more is true in a state": (
        [(DOOR, 'invariant = "inside == 0"', 'invariant = "inside == 0 and tickets < 9"')],
        [("door state shut", "added", "", "not less than before")],
    ),
    "a new request": (
        [(DOOR, "[[row]]", '[events.knock]\nkind = "request"\ndoc = "K."\n\n[[row]]')],
        [("door event knock", "added", "", "a new request")],
    ),
    "a report is gone": (
        [(DOOR, JAMMED, ""), (DOOR, D08, ""), (DOOR, D07, replaced(D07, '["jam"]', '["push"]'))],
        [
            ("door event jam", "breaking", "records workers", "the report is gone"),
            ("door row D07", "breaking", "records workers", "event is without jam"),
            ("door row D07", "added", "", "event has push besides"),
            ("door row D08", "breaking", "records workers", "gone"),
        ],
    ),
    "a request is a signal": (
        [(DOOR, '[events.turn]\nkind = "request"', '[events.turn]\nkind = "signal"')],
        [("door event turn", "breaking", "embedders ledgers", "is a signal, and was a request")],
    ),
    "an event's doc": ([(DOOR, "Turn the key.", "Turn it.")], [("door event turn", "words", "", "doc")]),
    "an event moved": (
        [(DOOR, JAMMED, ""), (DOOR, "[events.turn]", JAMMED + "\n[events.turn]")],
        [("door events", "breaking", "records ledgers", "turn 1 -> 2, enter 2 -> 3, leave 3 -> 4, jam 4 -> 1")],
    ),
    "a row for what was refused": (
        [(DOOR, D08, D08 + ROW.format("D09"))],
        [("door row D09", "added", "", "broken on push -> =")],
    ),
    "a row of a request is gone": (
        [(DOOR, "[[row]]\n" + D04 + 'why = "The key turns the other way."\n', "")],
        [("door row D04", "breaking", "records embedders", "gone")],
    ),
    "a row has another id": (
        [(DOOR, 'id = "D08"', 'id = "D80"')],
        [
            ("door row D08", "breaking", "records workers", "gone; D80 says the same, but an id is given once"),
            ("door row D80", "added", "", "new"),
        ],
    ),
    "a row leads elsewhere": (
        [(DOOR, D01, replaced(D01, 'to = "ajar"', 'to = "broken"'))],
        [("door row D01", "breaking", "records embedders", "leads to broken, and led to ajar")],
    ),
    "a row sets otherwise": (
        [(DOOR, D04, replaced(D04, '"not locked"', '"locked"'))],
        [("door row D04", "breaking", "records embedders", "sets locked = locked, and set locked = not locked")],
    ),
    "a row has another effect": (
        [(DOOR, D01, replaced(D01, '["ring"]', '["ring", "count"]'))],
        [("door row D01", "breaking", "records embedders", "ring count, and had ring")],
    ),
    "a row tells something": (
        [(DOOR, D01, replaced(D01, '["ring"]', '["ring", "tell_opened"]'))],
        [("door row D01", "breaking", "records embedders verdicts", "tell_opened")],
    ),
    "a row from fewer states": (
        [(DOOR, 'from = ["ajar", "broken"]', 'from = ["ajar"]')],
        [("door row D06", "breaking", "records ledgers", "from is without broken")],
    ),
    "a row from more states": (
        [(DOOR, 'from = ["ajar", "broken"]', 'from = ["shut", "ajar", "broken"]')],
        [("door row D06", "added", "", "from has shut besides")],
    ),
    "the same states in another order": ([(DOOR, 'from = ["ajar", "broken"]', 'from = ["broken", "ajar"]')], []),
    "a reason": ([(DOOR, "Broken is broken.", "It is.")], [("door row D08", "words", "", "why")]),
    "a guard grew narrower": (
        [(DOOR, D05_WHEN, 'when = "inside < room and tickets > 1"')],
        [("door row D05", "breaking", "records ledgers", "narrower")],
    ),
    "a guard grew wider": (
        [(DOOR, D05_WHEN, 'when = "inside < room"')],
        [("door row D05", "added", "", "wider")],
    ),
    "a guard moved": (
        [(DOOR, D05_WHEN, 'when = "tickets > 1"')],
        [("door row D05", "breaking", "records ledgers", "narrower")],
    ),
    "a guard in other words": (
        [(DOOR, D05_WHEN, 'when = "tickets >= 1 and inside + 1 <= room"')],
        [("door row D05", "words", "", "the same")],
    ),
    "a guard that repeats the invariant": (
        [(DOOR, D01, replaced(D01, '"not locked"', '"not locked and inside == 0"'))],
        [("door row D01", "words", "", "the same")],
    ),
    "a relation's sentence": (
        [(LINKS, "The door under the bell", "A door")],
        [("relation bell_door", "breaking", "ledgers", "only a reader can say")],
    ),
    "a new relation": (
        [(LINKS, "[[coupling]]", '[[relation]]\nname = "r"\nof = "door"\nto = "door"\ndoc = "R."\n\n[[coupling]]')],
        [("relation r", "added", "", "new")],
    ),
    "a coupling is gone": ([(LINKS, C04, "")], [("coupling C04", "breaking", "records ledgers", "gone: bell.send_in")]),
    "a coupling asks": (
        [(LINKS, "ask = true\n", "")],
        [("coupling C02", "breaking", "records ledgers", "and said bell.send_in -> door.push over bell_door, asked")],
    ),
    "a coupling's reason": ([(LINKS, "And somebody out.", "Out.")], [("coupling C04", "words", "", "why")]),
    "couplings in another order": (
        [(LINKS, C03, ""), (LINKS, C04, C04 + "\n" + C03)],
        [("couplings of bell.send_in", "breaking", "records ledgers", "C02 C04 C03, and did in the order C02 C03 C04")],
    ),
    "a new coupling of an old effect": (
        [(LINKS, C04, C04 + "\n" + C05), (LINKS, "[[coupling]]", D_DOOR + "\n[[coupling]]")],
        [
            ("relation d_door", "added", "", "new"),
            ("coupling C05", "breaking", "records ledgers", "new under an effect that older rows have"),
        ],
    ),
    "an act that tells": (
        [(LINKS, 'act = "count_person"', 'act = "tell_person"')],
        [("act A01", "breaking", "records ledgers verdicts", "tell_person")],
    ),
    "an act after what it came before": (
        [(LINKS, 'order = "before"', 'order = "after"')],
        [("act A01", "breaking", "records ledgers", "after the couplings")],
    ),
    "a new act of a new effect": (
        [
            (DOOR, D08, D08 + ROW.format("D09").replace('to = "="', 'to = "="\neffects = ["creak"]')),
            (LINKS, "[[act]]", A02 + "\n[[act]]"),
        ],
        [("door row D09", "added", "", "new"), ("act A02", "added", "", "new: door.creak -> oil")],
    ),
    "an id that was another thing's": (
        [(DOOR, 'id = "D08"', 'id = "A01"'), (LINKS, 'id = "A01"', 'id = "A02"')],
        [
            ("door row D08", "breaking", "records workers", "A01 says the same"),
            ("door row A01", "added", "", "new"),
            ("act A01", "breaking", "records ledgers", "gone"),
            ("act A02", "breaking", "records ledgers", "new under an effect"),
            ("id A01", "breaking", "records", "is of a row of door and was of an act"),
        ],
    ),
}


def edited(directory: Path, edits: Edits) -> Path:
    """A copy of the directory beside it, with one passage after the other replaced."""
    copy = directory.with_name("new")
    shutil.copytree(directory, copy)
    for file, old, new in edits:
        path = copy / file
        text = path.read_text(encoding="utf-8")
        assert old in text, (file, old)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return copy


def difference(good: Path, edits: Edits, implies: Implies = implied) -> Difference:
    return compare(load_spec(good, check=False), load_spec(edited(good, edits), check=False), implies)


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_told_by_its_rule(name: str, good: Path) -> None:
    pytest.importorskip("z3")
    edits, expected = CASES[name]
    found = difference(good, edits)
    told = [(change.place, change.weight, " ".join(change.who)) for change in found.changes]
    assert told == [(place, weight, who) for place, weight, who, _ in expected]
    for change, (*_, words) in zip(found.changes, expected, strict=True):
        assert words in change.what, change
    assert found.breaking == any(weight == "breaking" for _, weight, _, _ in expected)


def test_a_machine_comes_and_goes(good: Path) -> None:
    whole = load_spec(good)
    (good / BELL).unlink()
    (good / LINKS).write_text("", encoding="utf-8")
    rest = load_spec(good, check=False)
    gone = {change.place: change for change in compare(whole, rest).changes}
    assert gone["machine bell"].weight == "breaking"
    assert gone["relation door_bell"].what == "the relation is gone"
    come = compare(rest, whole)
    assert Change("machine bell", "added", "a new machine") in come.changes
    assert [change.place for change in come.changes if change.weight == "breaking"] == ["coupling C01", "act A01"]


def test_without_a_prover_a_guard_that_changed_is_undecided_and_breaking(good: Path) -> None:
    found = difference(good, CASES["a guard grew wider"][0], undecided)
    assert [(change.weight, change.what[-9:]) for change in found.changes] == [("breaking", "undecided")]


def test_an_invariant_without_a_prover_is_undecided(good: Path) -> None:
    found = difference(good, CASES["more is true in a state"][0], undecided)
    assert found.breaking
    assert found.changes[0].what.endswith("undecided")


def test_a_variable_of_another_type_leaves_guards_undecided(good: Path) -> None:
    pytest.importorskip("z3")
    edits = [
        (BELL, 'type = "int", initial = 0', 'type = "bool", initial = false'),
        (BELL, "passed >= 0", "passed or not passed"),
        (BELL, "passed + 1", "not passed"),
    ]
    found = {change.place: change for change in difference(good, edits).changes}
    assert found["bell variable passed"].what == "is of type bool, and was int"
    assert found["bell state quiet"].what.endswith("undecided")
    assert all(change.weight == "breaking" for change in found.values())


def test_every_machine_of_the_spec_is_the_same_as_itself() -> None:
    spec = load_spec(check=False)
    assert compare(spec, spec).changes == ()
    assert compare(spec, spec).weight is None


def test_one_machine_alone_has_no_version(good: Path) -> None:
    old = load_machine(good / DOOR)
    new = load_machine(edited(good, [(DOOR, "Broken is broken.", "It is.")]) / DOOR)
    found = compare_machines(old, new)
    assert [change.place for change in found.changes] == ["door row D08"]
    assert sentence(found) == "the third part of VERSION must move."
    assert is_enough(found) is None


@pytest.mark.parametrize(
    ("old", "new", "weight", "words"),
    [
        ('outcome = "timeout"', 'outcome = "failed"', "breaking", "outcome is failed, and was timeout"),
        ('sentence = "', 'sentence = "Now: ', "words", "sentence, remedy or doc"),
    ],
)
def test_codes(tmp_path: Path, old: str, new: str, weight: str, words: str) -> None:
    before = load_errors(spec_dir() / "errors.toml")
    path = tmp_path / "errors.toml"
    text = (spec_dir() / "errors.toml").read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    [change] = code_changes(before, load_errors(path))
    assert change.weight == weight
    assert words in change.what


def test_codes_and_drivers_come_and_go() -> None:
    from dataclasses import replace

    whole = load_errors(spec_dir() / "errors.toml")
    less = replace(whole, codes=whole.codes[1:], drivers=whole.drivers[1:])
    assert {(change.weight, change.what.split(",")[0]) for change in code_changes(whole, less)} == {
        ("breaking", "gone")
    }
    assert {change.weight for change in code_changes(less, whole)} == {"added"}
    first = whole.drivers[0]
    fewer = replace(whole, drivers=(replace(first, raw=first.raw[1:]), *whole.drivers[1:]))
    assert [change.weight for change in code_changes(whole, fewer)] == ["breaking"]
    assert [change.weight for change in code_changes(fewer, whole)] == ["added"]


@pytest.mark.parametrize(
    ("weight", "old", "new"),
    [
        ("words", "0.1.2", "0.1.3"),
        ("added", "0.1.2", "0.2.0"),
        ("breaking", "0.1.2", "0.2.0"),
        ("words", "1.2.3", "1.2.4"),
        ("added", "1.2.3", "1.3.0"),
        ("breaking", "1.2.3", "2.0.0"),
        ("breaking", "one", ""),
    ],
)
def test_which_version_comes_next(weight: str, old: str, new: str) -> None:
    assert least(weight, old) == new  # type: ignore[arg-type]


def test_has_the_version_moved_far_enough() -> None:
    change = Change("door", "added", "new")
    assert is_enough(Difference((change,), "1.2.3", "1.2.4")) is False
    assert is_enough(Difference((change,), "1.2.3", "2.0.0")) is True
    assert is_enough(Difference((change,), "1", "2")) is None
    assert is_enough(Difference((), "1.2.3", "1.2.3")) is True
    assert is_enough(Difference((), "1.2.3", "1.2.2")) is False
    assert sentence(Difference((change,), "1.2.3", "1.2.4")) == (
        "the second part of VERSION must move, from 1.2.3 to 1.3.0 or later; NEW is 1.2.4, which is not enough."
    )
    assert sentence(Difference((change,), "1", "2")) == "the second part of VERSION must move; OLD is 1 and NEW is 2."
