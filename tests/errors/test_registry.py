"""The registry of errors, its rules, and the module that is printed from it."""

from __future__ import annotations

import errno
import importlib
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kvstate.errors import codes, generate
from kvstate.errors.registry import Registry, SpecErrors, load_errors
from kvstate.machines.messages import Outcome
from kvstate.spec import spec_dir

HERE = Path(__file__).parent
ERRORS = spec_dir() / "errors.toml"
TEXT = ERRORS.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_errors(ERRORS)


# --- What it must say -----------------------------------------------------------------------------------------------


def test_numbers_stay(registry: Registry) -> None:
    lines = (HERE / "numbers.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split() for line in lines if not line.startswith("#")]
    given = {name: number for number, name in pairs}
    now = {code.name: str(code.number) for code in registry.codes}
    for name, number in given.items():
        if int(number) not in registry.retired:
            assert now.get(name) == number, f"{name} was given {number} for ever; it has {now.get(name)} now"
    new = now.keys() - given.keys()
    assert not new, f"add to numbers.txt: {', '.join(f'{now[name]} {name}' for name in sorted(new))}"
    assert len({number for number, _ in pairs}) == len(pairs), "numbers.txt gives a number twice"


def test_retryable_and_condemning(registry: Registry) -> None:
    assert {code.name for code in registry.codes if code.retryable} == {"LOAD_TIMEOUT", "KV_OOM", "PEER_LOST"}
    assert {code.name for code in registry.codes if code.condemns} == {
        "BLOCK_NOT_FOUND",
        "CRC_MISMATCH",
        "VERSION_MISMATCH",
        "LAYOUT_MISMATCH",
        "KEY_MISMATCH",
        "SHORT_READ",
        "LEASE_EXPIRED",
    }
    assert {code.name for code in registry.codes if code.fatal} == {"DEVICE_ERROR"}
    assert {code.name for code in registry.codes if code.outcome == Outcome.TIMEOUT} == {"LOAD_TIMEOUT", "PEER_LOST"}


def test_stages(registry: Registry) -> None:
    stages = [stage.name for stage in registry.stages]
    assert stages == ["lookup", "reserve", "fetch", "verify", "write", "commit", "rollback", "store"]


def test_every_code_has_a_family(registry: Registry) -> None:
    families = {registry.family(registry.code(code.name)).name for code in registry.codes}
    assert families == {family.name for family in registry.families}


@pytest.mark.parametrize(
    ("driver", "raw", "code"),
    [
        ("raw", "404", "BLOCK_NOT_FOUND"),
        ("raw", "1001", "CRC_MISMATCH"),
        ("raw", "507", "KV_OOM"),
        ("raw", "504", "LOAD_TIMEOUT"),
        ("http", "507", "NO_SPACE"),
        ("errno", "ENOENT", "BLOCK_NOT_FOUND"),
        ("obstore", "Connect", "PEER_LOST"),
        ("obstore", "Timeout", "LOAD_TIMEOUT"),
        ("obstore", "obstore.exceptions.PreconditionError", "SLOT_CONFLICT"),
        ("cuda", "2", "KV_OOM"),
        ("cuda", "CUDA_ERROR_ILLEGAL_ADDRESS", "DEVICE_ERROR"),
    ],
)
def test_translations(driver: str, raw: str, code: str) -> None:
    assert codes.TRANSLATIONS[driver][raw].name == code


def test_errno_names_are_real() -> None:
    names = {name for name in dir(errno) if name.startswith("E")}
    assert codes.TRANSLATIONS["errno"].keys() <= names


def test_python_classes_are_real() -> None:
    """Each class that the table names can be found under that name, and calls itself so or is an alias."""
    for full in codes.TRANSLATIONS["python"]:
        module, _, name = full.rpartition(".")
        if module.split(".")[0] == "torch":
            pytest.importorskip("torch")
        found = getattr(importlib.import_module(module), name, None)
        if full != "torch.AcceleratorError":  # newer than the oldest torch that we take
            assert isinstance(found, type), full


# --- The printed module ---------------------------------------------------------------------------------------------


def test_codes_are_up_to_date() -> None:
    for name, text in generate.render_errors().items():
        assert (generate.ROOT / name).read_text(encoding="utf-8") == text, "run make tables"


def test_check_says_what_is_stale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert generate.main(["--check"]) == 0
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out == "kvstate/errors/codes.py is not what spec/errors.toml gives; run make tables\n"
    (tmp_path / generate.CODES).parent.mkdir(parents=True)
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


def test_generate_refuses_a_broken_registry(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "errors.toml").write_text("codes = 1\n", encoding="utf-8")
    monkeypatch.setattr(generate, "spec_dir", lambda: tmp_path)
    assert generate.main(["--check"]) == 2
    assert 'errors.toml: unknown key "codes"' in capsys.readouterr().err


def test_codes_are_formatted(tmp_path: Path) -> None:
    ruff = shutil.which("ruff") or shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed")
    command = [ruff, "format", "--check", "--line-length", "120", str(generate.ROOT / generate.CODES)]
    assert subprocess.run(command, check=False, cwd=tmp_path, capture_output=True).returncode == 0


def test_codes_import_nothing_heavy() -> None:
    """The machines use the codes: enum and typing, and nothing from outside the standard library beside them."""
    program = (
        "import sys; before = set(sys.modules); import kvstate.errors;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, cwd=generate.ROOT, capture_output=True, text=True)
    outside = set(run.stdout.split()) - set(sys.stdlib_module_names)
    assert outside == {"kvstate"}
    lines = (generate.ROOT / generate.CODES).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith(("import ", "from "))] == [
        "from __future__ import annotations",
        "from enum import IntEnum",
        "from typing import Final, NamedTuple",
    ]


def test_editors_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((spec_dir() / "schema" / "errors.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    data = tomllib.loads(TEXT)
    assert list(validator.iter_errors(data)) == []
    data["code"]["UNKNOWN"]["outcome"] = "done"
    assert not validator.is_valid(data)


# --- Its rules ------------------------------------------------------------------------------------------------------


def refused(tmp_path: Path, *changes: tuple[str, str]) -> str:
    """The sentences for the registry with passages replaced (the first place each)."""
    text = TEXT
    for old, new in changes:
        assert old in text, f"{old!r} is not in errors.toml; mend the test"
        text = text.replace(old, new, 1)
    path = tmp_path / "errors.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecErrors) as caught:
        load_errors(path)
    return str(caught.value)


RULES = [
    ("number = 2201", "number = 2202", "code VERSION_MISMATCH: the number 2202 is that of CRC_MISMATCH already"),
    ("number = 2201", "number = 3201", "code CRC_MISMATCH: the number 3201 lies in no family"),
    ("number = 2201", "", 'code CRC_MISMATCH: "number" is missing'),
    ("number = 2201", 'number = "2201"', 'code CRC_MISMATCH: "number" must be a whole number, not a text'),
    (
        "retired = []",
        "retired = [2201]",
        "code CRC_MISMATCH: the number 2201 is retired; a number is never given again",
    ),
    ("retired = []", "retired = [2999, 2999]", "errors.toml: the number 2999 is retired twice"),
    ("retired = []", "retired = true", 'errors.toml: "retired" must be a list of whole numbers, not true or false'),
    ("retired = []", "retyred = []", 'errors.toml: unknown key "retyred"'),
    ('outcome = "broken"', 'outcome = "brocken"', 'code BLOCK_NOT_FOUND: unknown outcome "brocken"'),
    ('outcome = "broken"', "", 'code BLOCK_NOT_FOUND: "outcome" is missing'),
    ('outcome = "denied"', 'outcome = "done"', 'code NO_SPACE: the outcome of an error cannot be "done"'),
    ('"lookup", "fetch", "verify"]', '"lookup", "fetsh"]', 'code BLOCK_NOT_FOUND: unknown stage "fetsh"'),
    ('"lookup", "fetch", "verify"]', '"fetch", "fetch"]', 'BLOCK_NOT_FOUND: the stage "fetch" is listed twice'),
    ('["lookup", "fetch", "verify"]', "[]", 'code BLOCK_NOT_FOUND: "stages" is empty'),
    ("retryable = false\n", "", 'code BLOCK_NOT_FOUND: "retryable" is missing'),
    (
        "retryable = false",
        "retryable = true",
        "code BLOCK_NOT_FOUND: bytes that are bad or not there are never worth another try",
    ),
    ("condemns = true", "condemns = false", "BLOCK_NOT_FOUND: a code condemns its key if, and only if, its outcome is"),
    ("fatal = false", "fatal = true", "code BLOCK_NOT_FOUND: what a broken device read condemns no key"),
    ("fatal = false", "fatal = 1", 'code BLOCK_NOT_FOUND: "fatal" must be true or false, not the number 1'),
    (
        'outcome = "failed"',
        'outcome = "denied"',
        'KV_OOM: the code is retryable, and its outcome "denied" says otherwise',
    ),
    ('sentence = "There were fewer bytes than the block has."\n', "", 'code SHORT_READ: "sentence" is missing'),
    ("fewer bytes than the block has.", "", 'code SHORT_READ: "sentence" must be a sentence and end with a full stop'),
    ("fewer bytes than", "fewer\\nbytes than", 'code SHORT_READ: "sentence" must be one line'),
    ("fewer bytes than", "fewer bytes " + "and fewer " * 8, "100 is the limit"),
    ("[code.SHORT_READ]", "[code.shortRead]", 'the name "shortRead" is not made of capital letters, digits and _'),
    ("first = 2200", "first = 2250", 'family content: "first" is 2250; it must be a multiple of 100'),
    ("first = 2200", "first = 2100", "family content: the numbers from 2100 belong to family missing already"),
    ("[code.UNKNOWN]", "[code.UNCLEAR]", 'errors.toml: there is no code "UNKNOWN", which a translation falls back to'),
    ("[stage.store]", '[stage.sleep]\ndoc = "-"\n[stage.store]', 'must be allowed at every stage, "sleep" too'),
    ('ENOENT = "BLOCK_NOT_FOUND"', 'ENOENT = "BLOCK_NOT_FUND"', 'driver errno: unknown code "BLOCK_NOT_FUND"'),
    ('ENOENT = "BLOCK_NOT_FOUND"', 'ENOENT = "UNKNOWN"', '"ENOENT" is translated to UNKNOWN, which says nothing'),
    ('ENOENT = "BLOCK_NOT_FOUND"', "ENOENT = 2101", '"ENOENT" must stand for a text, not the number 2101'),
    ('ENOENT = "BLOCK_NOT_FOUND"', '"EN OENT" = "KV_OOM"', 'driver errno: "EN OENT" is no raw code'),
    ('transient = ["EAGAIN"', 'transient = ["ENOENT"', '"ENOENT" is called transient, but BLOCK_NOT_FOUND is never'),
    ('transient = ["EAGAIN"', 'transient = ["EINTR"', 'driver errno: "EINTR" is called transient twice'),
    ('= "EAGAIN"', '= "EAGAINN"', '"EWOULDBLOCK" is the same as "EAGAINN", which is not translated'),
    ("EWOULDBLOCK =", "EBUSY =", '"EBUSY" has a translation of its own and cannot be the same as "EAGAIN"'),
    ('name = "http"', 'name = "errno"', 'driver errno: there are two drivers called "errno"'),
    ('name = "http"', 'name = "HTTP"', 'driver number 2: the name "HTTP" is not made of small letters'),
    ('name = "http"', "", 'driver number 2: "name" is missing'),
]


@pytest.mark.parametrize(("old", "new", "sentence"), RULES, ids=[f"{new or old}"[:40] for old, new, _ in RULES])
def test_rule(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    text = refused(tmp_path, (old, new))
    assert sentence in text
    assert all(line.startswith("errors.toml") for line in text.splitlines())


def test_rules_beyond_one_passage(tmp_path: Path) -> None:
    fatal = ("retryable = false\nfatal = true", "retryable = true\nfatal = true")
    assert "code DEVICE_ERROR: nothing is tried again after a fatal error" in refused(tmp_path, fatal)
    stages = '["lookup", "reserve", "fetch", "verify", "write", "commit", "rollback", "store"]'
    everywhere = TEXT.index("[code.LOAD_TIMEOUT]")
    changed = TEXT[:everywhere] + TEXT[everywhere:].replace(stages, '["fetch"]', 1)
    (tmp_path / "errors.toml").write_text(changed, encoding="utf-8")
    with pytest.raises(
        SpecErrors, match="code LOAD_TIMEOUT: a code that proves nothing must be allowed at every stage"
    ):
        load_errors(tmp_path / "errors.toml")


def test_a_stage_that_no_code_uses(tmp_path: Path) -> None:
    """Fall-backs alone don't count: they are allowed everywhere because they must be."""
    minimal = """
        [stage.fetch]
        doc = "-"
        [stage.sleep]
        doc = "-"
        [family.own]
        first = 2900
        doc = "-"
        """
    for name, number in (("INTERNAL", 2901), ("UNKNOWN", 2902)):
        minimal += f"""
        [code.{name}]
        number = {number}
        outcome = "denied"
        stages = ["fetch", "sleep"]
        retryable = false
        fatal = false
        condemns = false
        sentence = "It did not work."
        remedy = "Nothing."
        """
    path = tmp_path / "errors.toml"
    path.write_text(minimal + '[[driver]]\nname = "disk"\ndoc = "-"\nraw = { E1 = "INTERNAL" }\n', encoding="utf-8")
    with pytest.raises(SpecErrors) as caught:
        load_errors(path)
    assert str(caught.value).splitlines() == [
        'errors.toml, stage fetch: no code is used at the stage "fetch"',
        'errors.toml, stage sleep: no code is used at the stage "sleep"',
    ]


@pytest.mark.parametrize(
    "text", ["", "x", "code = 1", "[code]\nA = 1", "driver = [1]", "stage = []", "\x00", "[[code]]"]
)
def test_rubbish_is_refused_in_sentences(tmp_path: Path, text: str) -> None:
    path = tmp_path / "errors.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecErrors, match=r"errors\.toml"):
        load_errors(path)
    with pytest.raises(SpecErrors, match="no such file"):
        load_errors(tmp_path / "nowhere.toml")
