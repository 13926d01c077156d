"""The laws as data: what the loader refuses, what an editor's schema says, and what a change of a promise means."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from kvstate.spec import spec_dir
from kvstate.spec.diff_laws import law_changes
from kvstate.spec.properties import load_properties, missing
from kvstate.spec.reading import SpecErrors
from tests.tidy.files import ROOT

OWN = spec_dir() / "properties.toml"
TEXT = """\
[[law]]
name = "L1"
title = "one end"
sentence = "It ends once."

[[law]]
name = "L2"
title = "identity"
sentence = "It is itself."

[[property]]
name = "L1.once"
law = "L1"
kind = "always"
sentence = "It never ends twice."
checked_by = ["tests/seen.py::World.look", "tests/seen.py::look"]

[[property]]
name = "L2.mine"
law = "L2"
kind = "always"
sentence = "It is mine."
checked_by = ["tests/one.txt"]

[[property]]
name = "L2.self"
law = "L2"
kind = "never"
sentence = "It is another."
checked_by = []

[[assumption]]
name = "engine.calm"
of = "engine"
sentence = "The engine is calm."

[[assumption]]
name = "copiers.awake"
of = "copiers"
sentence = "Copiers are awake."
"""
SEEN = "class World:\n    def look(self) -> None: ...\n\ndef look() -> None: ...\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "seen.py").write_text(SEEN, encoding="utf-8")
    (tmp_path / "tests" / "one.txt").write_text("# A scenario\n", encoding="utf-8")
    path = tmp_path / "properties.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_the_file_is_read(file: Path) -> None:
    found = load_properties(file, root=file.parent)
    assert [law.name for law in found.laws] == ["L1", "L2"]
    assert found.properties[0].checked_by == ("tests/seen.py::World.look", "tests/seen.py::look")
    assert [one.of for one in found.assumptions] == ["engine", "copiers"]


def test_the_laws_of_the_project_keep_the_rules() -> None:
    assert load_properties(OWN, root=ROOT).laws


RULES = [
    ('title = "one end"', 'titel = "one end"', 'law L1: unknown key "titel" (did you mean "title"?)'),
    ('title = "one end"\n', "", 'law L1: "title" is missing'),
    ('name = "L1"', 'name = "law one"', 'law law one: a law is called L or P and a number, not "law one"'),
    ('name = "L1"\n', "", 'law number 1: "name" is missing'),
    ("It ends once.", "It ends once", 'law L1: "sentence" must end with a full stop'),
    ('name = "L2"\ntitle', 'name = "L1"\ntitle', 'law L1: "L1" is there twice'),
    ('law = "L2"\nkind = "never"', 'law = "L1"\nkind = "never"', "property L2.self: a property is called by its law"),
    (
        'title = "identity"',
        'title = "identity"\nsentence = "It is."\n[[law]]\nname = "L3"\ntitle = "new"',
        "law L3: no property stands under L3: say how it could be broken, or take it out",
    ),
    ('law = "L2"', 'law = "L3"', 'property L2.mine: unknown law "L3"'),
    (
        '"L2.self"',
        '"L1.self"',
        'property L1.self: a property is called by its law, a dot and a word, as "L2.some_word"',
    ),
    ('"L2.self"', '"L2.Self"', "property L2.Self: a property is called by its law, a dot and a word"),
    ('kind = "never"', 'kind = "nevr"', 'property L2.self: unknown kind "nevr" (did you mean "never"?)'),
    ("checked_by = []\n", "", 'property L2.self: "checked_by" is missing; an empty list says that nothing checks it'),
    ("checked_by = []", 'check = "x"', 'property L2.self: unknown key "check"'),
    ('"tests/seen.py::look"', '"tests/seen.py::World.look"', '"tests/seen.py::World.look" is named twice'),
    ('of = "engine"', 'of = "engines"', 'assumption engine.calm: unknown partner "engines"'),
    ("[[assumption]]", "[[asumption]]", 'unknown key "asumption" (did you mean "assumption"?)'),
]


@pytest.mark.parametrize(("old", "new", "sentence"), RULES)
def test_a_fault_is_one_sentence_with_its_place(file: Path, old: str, new: str, sentence: str) -> None:
    assert old in TEXT
    file.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SpecErrors) as refused:
        load_properties(file, root=file.parent)
    assert sentence in str(refused.value)
    assert all(str(error).startswith("properties.toml") for error in refused.value.errors)


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("tests/seen.py::World.look", ""),
        ("tests/seen.py::World", ""),
        ("tests/one.txt", ""),
        ("tests/gone.py::look", "there is no such file"),
        ("tests/seen.py::World.loo", 'the file has no "World.loo" (did you mean "World.look"?)'),
        ("tests/seen.py", 'the file has no ""'),
        ("tests/one.txt::look", "a file that is no Python has no symbols; name the file alone"),
    ],
)
def test_a_check_that_is_not_there_is_seen(file: Path, check: str, fault: str) -> None:
    assert missing(check, file.parent) == fault
    file.write_text(TEXT.replace("checked_by = []", f'checked_by = ["{check}"]'), encoding="utf-8")
    load_properties(file)
    if fault:
        with pytest.raises(SpecErrors) as refused:
            load_properties(file, root=file.parent)
        assert str(refused.value) == f"properties.toml, property L2.self: it is checked by {check}, and {fault}"


def test_editors_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((spec_dir() / "schema" / "properties.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    for text in (TEXT, OWN.read_text(encoding="utf-8")):
        data = tomllib.loads(text)
        assert list(validator.iter_errors(data)) == []
        data["property"][0]["kind"] = "mostly"
        assert not validator.is_valid(data)
    for old, new in (("checked_by = []", 'checked_by = ["tests/seen.py"]'), ("title", "titel"), ("once.", "once")):
        assert not validator.is_valid(tomllib.loads(TEXT.replace(old, new, 1)))


CHANGES = [
    ("# nothing", "", []),
    (TEXT[TEXT.index('[[property]]\nname = "L2.s') : TEXT.index('[[assumption]]\nname = "e')], "",
     [("property L2.self", "breaking", "embedders ledgers", "gone: it is promised no more")]),
    ('kind = "always"', 'kind = "sometimes"',
     [("property L1.once", "breaking", "embedders ledgers", "is promised sometimes, and was always")]),
    ("It never ends twice.", "It rarely ends twice.",
     [("property L1.once", "breaking", "embedders ledgers", "whether it still promises the same")]),
    ("It ends once.", "It may end.",
     [("law L1", "breaking", "embedders ledgers", "whether it still promises the same")]),
    ('title = "one end"', 'title = "an end"', [("law L1", "words", "", "title")]),
    (', "tests/seen.py::look"', ', "tests/one.txt"',
     [("property L1.once", "words", "", "checked by tests/one.txt; no longer by tests/seen.py::look")]),
    ("The engine is calm.", "The engine is very calm.",
     [("assumption engine.calm", "breaking", "embedders", "whether it still asks for the same")]),
    (TEXT[TEXT.index('[[assumption]]\nname = "c') :], "",
     [("assumption copiers.awake", "added", "", "gone: less is taken on trust")]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "told"), CHANGES)
def test_a_change_of_a_promise_is_told(file: Path, old: str, new: str, told: list[tuple[str, ...]]) -> None:
    before = load_properties(file)
    text = "# nothing\n" + TEXT
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    found = list(law_changes(before, load_properties(file)))
    assert [(one.place, one.weight, " ".join(one.who)) for one in found] == [each[:3] for each in told]
    assert all(words in one.what for one, (*_, words) in zip(found, told, strict=True))


def test_a_new_promise_breaks_nobody_and_a_new_assumption_does(file: Path) -> None:
    after = load_properties(file)
    less = TEXT[: TEXT.index('[[assumption]]\nname = "c')]
    file.write_text(less[: less.index('[[law]]\nname = "L2')] + less[less.index("[[property]]") :].replace(
        less[less.index('[[property]]\nname = "L2') : less.index("[[assumption]]")], ""), encoding="utf-8")  # fmt: skip
    found = list(law_changes(load_properties(file), after))
    assert [(one.place, one.weight, one.who) for one in found] == [
        ("law L2", "added", ()),
        ("property L2.mine", "added", ()),
        ("property L2.self", "added", ()),
        ("assumption copiers.awake", "breaking", ("workers",)),
    ]
