"""Files that do not read well: each is refused with file, place and word, in one sentence, and nothing else raises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvstate.spec import loader, reading, spec_dir
from kvstate.spec.loader import SpecErrors, load_machine, load_spec

Break = Callable[[str, str, str], Path]

BROKEN = [
    # Names that stand for nothing.
    (
        "door.toml",
        'to = "broken"',
        'to = "brokn"',
        "row D07",
        "brokn",
        'unknown state "brokn" (did you mean "broken"?)',
    ),
    ("door.toml", '["ajar", "broken"]', '["ajar", "borken"]', "row D06", "borken", 'unknown state "borken"'),
    ("door.toml", 'event = ["leave"]', 'event = ["leaf"]', "row D06", "leaf", 'unknown event "leaf"'),
    ("door.toml", 'initial = "shut"\n', "", "the machine", "initial", '"initial" is missing'),
    ("door.toml", 'initial = "shut"', 'initial = "open"', "the machine", "open", 'unknown state "open"'),
    ("door.toml", 'when = "inside == 0"', 'when = "insid == 0"', "row D02", "insid", 'when: unknown name "insid"'),
    ("door.toml", "tickets >= 0", "tickts >= 0", "the machine", "tickts", 'invariant: unknown name "tickts"'),
    ("door.toml", "{ locked = true }", "{ loked = true }", "row D03", "loked", 'unknown variable "loked"'),
    ("door.toml", '"tickets - 1"', '"tikets - 1"', "row D05", "tikets", 'set tickets: unknown name "tikets"'),
    ("door.toml", "{ locked = true }", "{ room = 3 }", "row D03", "room", '"room" is a param, which no row may set'),
    (
        "bell.toml",
        'doc = "Once, loud."',
        'doc = "Once."\nknd = "x"',
        "event strike",
        "knd",
        '"knd" (did you mean "kind"?)',
    ),
    ("door.toml", 'title = "A', 'titel = "x"\ntitle = "A', "the machine", "titel", 'unknown key "titel"'),
    ("door.toml", 'to = "ajar"', 'to = "ajar"\nform = ["shut"]', "row D01", "form", '(did you mean "from"?)'),
    ("coupling.toml", '"bell.strike"', '"bell.stroke"', "coupling C01", "stroke", 'unknown event of bell "stroke"'),
    ("coupling.toml", '"bell.strike"', '"bel.strike"', "coupling C01", "bel", 'unknown machine "bel"'),
    ("coupling.toml", '"bell.strike"', '"strike"', "coupling C01", "strike", 'unknown machine "strike"'),
    ("coupling.toml", '"door.ring"', '"door.rang"', "coupling C01", "rang", 'unknown effect of door "rang"'),
    ("coupling.toml", '"door.count"', '"door.counts"', "act A01", "counts", 'unknown effect of door "counts"'),
    (
        "coupling.toml",
        'over = "door_bell"',
        'over = "dor_bell"',
        "coupling C01",
        "dor_bell",
        'unknown relation "dor_bell"',
    ),
    (
        "coupling.toml",
        'over = "door_bell"',
        'over = "bell_door"',
        "coupling C01",
        "bell_door",
        "leads from bell to door",
    ),
    ("coupling.toml", 'order = "before"', 'order = "first"', "act A01", "first", 'the order "first" is neither'),
    ("coupling.toml", "[[act]]", "[[atc]]", "the file", "atc", 'unknown key "atc" (did you mean "act"?)'),
    # What is missing or empty.
    ("door.toml", 'why = "Nobody is caught in it."', "", "row D02", "why", '"why" is missing'),
    ("door.toml", '"Nobody is caught in it."', '" "', "row D02", "why", '"why" is empty'),
    ("door.toml", 'doc = "Nobody is in the doorway."', "", "state shut", "doc", '"doc" is missing'),
    ("door.toml", 'doc = "Turn the key."', "", "event turn", "doc", '"doc" is missing'),
    ("door.toml", ', doc = "People in the doorway."', "", "variable inside", "doc", '"doc" is missing'),
    ("door.toml", ', doc = "How many fit into the doorway."', "", "param room", "doc", '"doc" is missing'),
    ("door.toml", 'title = "A door and the people in the doorway"', "", "the machine", "title", '"title" is missing'),
    ("door.toml", 'id = "D02"', "", "row number 2", "id", '"id" is missing'),
    ("door.toml", 'to = "ajar"', "", "row D01", "to", '"to" is missing'),
    ("door.toml", '["broken"]', "[]", "row D08", "from", '"from" is empty'),
    ("coupling.toml", 'why = "And somebody out."', "", "coupling C04", "why", '"why" is missing'),
    ("coupling.toml", 'doc = "The door under the bell."', "", "relation bell_door", "doc", '"doc" is missing'),
    ("coupling.toml", 'why = "The house keeps a list."', "", "act A01", "why", '"why" is missing'),
    ("door.toml", '"int", initial = 0', '"int"', "variable inside", "initial", '"initial" is missing'),
    # Values of the wrong kind.
    ("door.toml", '"int", initial = 0', '"nat", initial = 0', "variable inside", "nat", 'the type "nat" is neither'),
    ("door.toml", "initial = 0", "initial = false", "variable inside", "initial", "must be a value of type int"),
    ("door.toml", "initial = false", "initial = 0", "variable locked", "initial", "must be a value of type bool"),
    ("door.toml", "initial = 0", "initial = 9000000000", "variable inside", "initial", "not the number 9000000000"),
    ("door.toml", "max = 9", "max = true", "param room", "max", '"max" must be a whole number, not true or false'),
    ("door.toml", "max = 9", "max = 9000000000", "param room", "max", '"max" is beyond 2147483648'),
    ("door.toml", "default = 2", "default = 0", "param room", "default", "the default 0 is not within 1 to 9"),
    ("door.toml", 'kind = "report"', 'kind = "rumour"', "event jam", "rumour", 'the kind "rumour" is none of'),
    ("bell.toml", "home = true", "home = 1", "state quiet", "home", '"home" must be true or false, not the number 1'),
    ("door.toml", 'event = ["leave"]', 'event = "leave"', "row D06", "event", "must be a list of texts, not a text"),
    ("door.toml", "{ locked = true }", "{ locked = 1.5 }", "row D03", "locked", "must be an expression, not a float"),
    ("door.toml", "{ locked = true }", "{ locked = 1 }", "row D03", "1", '"1" is a number, and must be a condition'),
    ("bell.toml", '"passed + 1"', '"passed > 1"', "row E01", "passed > 1", "is a condition, and must be a number"),
    (
        "door.toml",
        'when = "inside == 0"',
        'when = "inside"',
        "row D02",
        "inside",
        "is a number, and must be a condition",
    ),
    ("door.toml", 'when = "inside == 0"', "when = true", "row D02", "when", '"when" must be a text, not true or false'),
    ("door.toml", '[[row]]\nid = "D01"', '[row]\nid = "D01"', "line 58", "", "not TOML: "),
    # A file is never run.
    ("door.toml", '"inside == 0"\nto', '"().__class__"\nto', "row D02", "().__class__", "an attribute is not allowed"),
    ("door.toml", '"tickets - 1"', '"9**9**9"', "row D05", "9**9**9", 'the operator "**" is not allowed'),
    # Names.
    ("door.toml", 'machine = "door"', 'machine = "dor"', "the machine", "dor", "the names must be the same"),
    (
        "door.toml",
        "[events.jam]",
        '[events.Jam]\nkind = "request"\ndoc = "x"\n[events.jam]',
        "event Jam",
        "Jam",
        "small letters",
    ),
    ("door.toml", 'id = "D02"', 'id = "D 02"', "row number 2", "D 02", 'the id "D 02" is not made of'),
    ("door.toml", '["count"]', '["Count"]', "row D05", "Count", 'the effect "Count" is not made of'),
    (
        "bell.toml",
        "[states.quiet]",
        'fire = { type = "int", initial = 0, doc = "x" }\n[states.quiet]',
        "variable fire",
        "fire",
        "is taken",
    ),
    (
        "bell.toml",
        "[states.quiet]",
        'class = { type = "int", initial = 0, doc = "x" }\n[states.quiet]',
        "variable class",
        "class",
        "is taken",
    ),
    (
        "door.toml",
        "[vars]",
        '[vars]\nroom = { type = "int", initial = 0, doc = "x" }',
        "variable room",
        "room",
        "is a param and a",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "place", "word", "says"), BROKEN)
def test_one_break_gives_one_sentence(
    good: Path, break_: Break, file: str, old: str, new: str, place: str, word: str, says: str
) -> None:
    break_(file, old, new)
    with pytest.raises(SpecErrors) as caught:
        load_spec(good, check=False)
    (error, *others) = caught.value.errors
    assert not others, str(caught.value)
    assert (error.file, error.place, error.word) == (file, place, word)
    assert says in error.sentence
    assert str(error) == f"{file}, {place}: {error.sentence}"
    assert str(error).isprintable()


def test_the_good_spec_reads_as_written(good: Path) -> None:
    spec = load_spec(good)
    assert spec.version == "1"
    assert [machine.name for machine in spec.machines] == ["bell", "door"]
    door = spec.machine("door")
    assert door == load_machine(good / "door.toml")
    assert door.file == "door.toml"
    assert [(var.name, var.type, var.initial) for var in door.vars] == [
        ("inside", "int", 0),
        ("tickets", "int", None),
        ("locked", "bool", False),
    ]
    assert [state.name for state in door.states if state.home] == ["shut", "broken"]
    assert door.state("shut").invariant.source == "inside == 0 and inside >= 0 and inside <= room and tickets >= 0"
    assert door.row("D08").when.is_true
    assert door.row("D08").to is None
    assert [(name, value.source) for name, value in door.row("D03").sets] == [("locked", "True")]
    assert door.effects == ("ring", "count")
    assert [(it.id, it.target, it.event, it.over, it.ask) for it in spec.couplings[:2]] == [
        ("C01", "bell", "strike", "door_bell", False),
        ("C02", "door", "push", "bell_door", True),
    ]


def test_all_breaks_of_all_files_are_told_at_once(good: Path, break_: Break) -> None:
    break_("door.toml", 'to = "broken"', 'to = "brokn"')
    break_("door.toml", 'why = "Nobody is caught in it."', "")
    break_("bell.toml", '"passed + 1"', '"pased + 1"')
    with pytest.raises(SpecErrors) as caught:
        load_spec(good)
    assert str(caught.value).splitlines() == [
        'bell.toml, row E01: set passed: unknown name "pased" (did you mean "passed"?)',
        'door.toml, row D02: "why" is missing',
        'door.toml, row D07: unknown state "brokn" (did you mean "broken"?)',
    ]


def test_the_rules_are_part_of_loading(good: Path, break_: Break) -> None:
    path = break_("door.toml", 'id = "D04"', 'id = "D03"')
    for load in (lambda: load_machine(path), lambda: load_spec(good)):
        with pytest.raises(SpecErrors, match=r'^door\.toml, row D03: the id "D03" is used 2 times$'):
            load()
    assert load_machine(path, check=False).rows[3].id == "D03"


def test_a_directory_may_hold_other_files(good: Path) -> None:
    (good / "words.toml").write_text("other = 1\n", encoding="utf-8")
    (good / "README.md").write_text("= not TOML", encoding="utf-8")
    assert len(load_spec(good).machines) == 2


def test_a_machine_alone_needs_no_coupling_file(good: Path) -> None:
    (good / "coupling.toml").unlink()
    assert load_spec(good, check=False).couplings == ()


# --- Files that are no files ----------------------------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(SpecErrors) as caught:
        load_machine(path)
    return str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "door.toml"
    assert refusal(path) == "door.toml: there is no such file"
    path.mkdir()
    assert refusal(path) == "door.toml: this is not a file"
    path.rmdir()
    path.write_bytes(b'machine = "door"\ntitle = "\xff"\n')
    assert refusal(path) == "door.toml, line 2: not UTF-8 text"
    path.write_bytes(b'machine = "door"\n\ntitle = = 1\n')
    assert refusal(path) == "door.toml, line 3: not TOML: invalid value"
    path.write_bytes(b'machine = "door"\ntitle = """\n')
    assert refusal(path).startswith("door.toml, last line: not TOML: ")
    path.write_bytes(b"x = " + b"[" * 5000 + b"]" * 5000)
    assert refusal(path) == "door.toml: tables or arrays are nested too deep"


def test_files_that_are_too_large(good: Path) -> None:
    path = good / "door.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "#" * reading.MAX_BYTES, encoding="utf-8")
    assert refusal(path) == f"door.toml: the file is larger than {reading.MAX_BYTES} bytes"
    path.write_text(text + "[[row]]\n" * (reading.MAX_ROWS - 7), encoding="utf-8")
    assert f'door.toml, the machine: there are 1001 of "row"; {reading.MAX_ROWS} is the limit' in refusal(path)
    path.write_text(text + "".join(f"[states.s{n}]\n" for n in range(reading.MAX_NAMES)), encoding="utf-8")
    assert f'there are 203 of "states"; {reading.MAX_NAMES} is the limit' in refusal(path)
    path.write_text(text.replace("For good.", "x" * (reading.MAX_TEXT + 1)), encoding="utf-8")
    assert refusal(path) == 'door.toml, state broken: "doc" is longer than 20000 characters'


def test_a_file_without_permission(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(good / "door.toml") == "door.toml: cannot be read: Permission denied"


@pytest.mark.parametrize("version", ["", "\n", "x" * 65, "1\n2"])
def test_a_spec_has_a_version(good: Path, version: str) -> None:
    (good / "VERSION").write_text(version, encoding="utf-8")
    with pytest.raises(SpecErrors, match=r"^VERSION: the version of the spec is missing"):
        load_spec(good)


def test_a_spec_without_a_version_file(good: Path) -> None:
    (good / "VERSION").unlink()
    with pytest.raises(SpecErrors, match=r"^VERSION: the version of the spec is missing"):
        load_spec(good)


def test_a_machine_is_named_like_a_module(good: Path) -> None:
    path = good / "My door.toml"
    path.write_text((good / "door.toml").read_text(encoding="utf-8").replace('"door"', '"My door"'), encoding="utf-8")
    assert 'the machine "My door" is not made of small letters, digits and _' in refusal(path)


def test_a_directory_without_machines(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("1", encoding="utf-8")
    with pytest.raises(SpecErrors, match="there is no machine file in this directory"):
        load_spec(tmp_path)


def test_the_spec_of_the_package_is_found() -> None:
    assert (spec_dir() / "block.toml").is_file()


def test_a_wheel_carries_its_own_spec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In an installed tree a directory `spec` beside the package is somebody else's."""
    (tmp_path / "kvstate" / "_spec").mkdir(parents=True)
    (tmp_path / "spec").mkdir()
    monkeypatch.setattr("kvstate.spec.__file__", str(tmp_path / "kvstate" / "spec" / "__init__.py"))
    assert spec_dir() == tmp_path / "kvstate" / "_spec"
    (tmp_path / "kvstate" / "_spec").rmdir()
    assert spec_dir() == tmp_path / "spec"


# --- For any data ---------------------------------------------------------------------------------------------------


def sentences_of(load: Callable[[], object]) -> None:
    """It loads, or is refused by sentences of one line each; anything else raises through."""
    with suppress(SpecErrors):
        load()
        return
    with pytest.raises(SpecErrors) as caught:
        load()
    assert caught.value.errors
    assert all(str(error).isprintable() for error in caught.value.errors)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def slots(data: Any) -> list[tuple[Any, Any]]:
    """Every place of nested data that can be overwritten: (container, key)."""
    keys = data.keys() if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    return [pair for key in list(keys) for pair in ((data, key), *slots(data[key]))]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(st.data())
def test_any_value_anywhere_is_a_machine_or_spec_errors(good: Path, data: st.DataObject) -> None:
    content = deepcopy(reading.read_toml(good / "door.toml"))
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(slots(content)))
        container[key] = data.draw(JUNK)
    sentences_of(lambda: loader._machine(Path("door.toml"), content))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(st.data())
def test_any_damage_to_the_text_is_a_spec_or_spec_errors(good: Path, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(["door.toml", "coupling.toml"]))
    path = good / file
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 60))
    path.write_bytes(whole[:at] + data.draw(st.binary(max_size=8)) + whole[at + length :])
    sentences_of(lambda: load_spec(good))
    path.write_bytes(whole)
