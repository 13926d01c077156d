"""From `spec/errors.toml` to a `Registry`, or to a list of sentences that say why not.

The registry is what the generator prints `codes.py` from; nothing of it runs. Like every file of `spec/` it is data
from a stranger: limits on size, no key that is not known, and all that is wrong is found in one pass. The rules guard
what the rest of the package relies on: numbers that stay, a translation that never ends in a code nobody defined, and
no code that claims two things at once (to blame the key, and to be worth another try).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kvstate.errors.entries import FAMILY_SIZE, CodeEntry, Driver, Family, Registry, Stage
from kvstate.machines.messages import Outcome
from kvstate.spec.expr import did_you_mean
from kvstate.spec.reading import NAME, Problems, SpecErrors, Table, is_int, kind_of, read_toml

__all__ = ["CodeEntry", "Driver", "Family", "Registry", "SpecErrors", "Stage", "load_errors"]

CODE = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
"""The name of a code."""
RAW = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
"""A driver's own code, as the file spells it."""
MAX_NUMBER = 65_535
"""So that a number takes at most three bytes in a message."""
MAX_SENTENCE = 100
"""A sentence is printed within one line of a log, and fits into one line of `codes.py`."""
_NO_NUMBER = -(2**31)
"""Stands in for a number that is not there."""
FALLBACKS = ("INTERNAL", "UNKNOWN")
"""What a translation ends in when it knows nothing better. They must exist and be allowed everywhere."""

_CODE_KEYS = ("number", "outcome", "stages", "retryable", "fatal", "condemns", "sentence", "remedy", "doc")


def load_errors(path: Path) -> Registry:
    """Read the registry and hold it to its rules; `SpecErrors` with one sentence for each thing that is wrong."""
    problems = Problems(path.name)
    top = Table(read_toml(path), "", problems, ("retired", "stage", "family", "code", "driver"))
    stages = tuple(Stage(name, entry.text("doc")) for name, entry in top.named("stage", "stage", ("doc",), True))
    families = tuple(
        Family(name, entry.number("first"), entry.text("doc"))
        for name, entry in top.named("family", "family", ("first", "doc"), True)
    )
    _check_families(top, families)
    retired = _retired(top)
    names = tuple(stage.name for stage in stages)
    codes = tuple(_code(name, entry, names) for name, entry in _named_codes(top))
    for code in codes:
        _check_code(Table({}, f"code {code.name}", problems, ()), code, names)
    _check_numbers(problems, codes, families, retired)
    _check_whole(top, codes, names)
    drivers = tuple(_driver(number, data, problems, codes) for number, data in enumerate(top.tables("driver", True), 1))
    for name in sorted({driver.name for driver in drivers if [d.name for d in drivers].count(driver.name) > 1}):
        problems.add(f"driver {name}", name, f'there are two drivers called "{name}"')
    problems.raise_if_any()
    return Registry(stages, families, codes, drivers, retired)


# --- Families and numbers -------------------------------------------------------------------------------------------


def _check_families(top: Table, families: tuple[Family, ...]) -> None:
    seen: dict[int, str] = {}
    for family in families:
        entry = Table({}, f"family {family.name}", top.problems, ())
        if family.first % FAMILY_SIZE or not 0 < family.first <= MAX_NUMBER - FAMILY_SIZE:
            entry.complain("first", f'"first" is {family.first}; it must be a multiple of {FAMILY_SIZE} in range')
        if family.first in seen:
            entry.complain("first", f"the numbers from {family.first} belong to family {seen[family.first]} already")
        seen[family.first] = family.name


def _retired(top: Table) -> tuple[int, ...]:
    value = top.data.get("retired", [])
    if not isinstance(value, list) or not all(is_int(number) for number in value):
        top.complain("retired", f'"retired" must be a list of whole numbers, not {kind_of(value)}')
        return ()
    for number in sorted({number for number in value if value.count(number) > 1}):
        top.complain(str(number), f"the number {number} is retired twice")
    return tuple(value)


def _check_numbers(
    problems: Problems, codes: tuple[CodeEntry, ...], families: tuple[Family, ...], retired: tuple[int, ...]
) -> None:
    seen: dict[int, str] = {}
    firsts = {family.first for family in families}
    for code in codes:
        if code.number == _NO_NUMBER:
            continue
        place, word = f"code {code.name}", str(code.number)
        if code.number in seen:
            problems.add(place, word, f"the number {word} is that of {seen[code.number]} already")
        seen.setdefault(code.number, code.name)
        if code.number in retired:
            problems.add(place, word, f"the number {word} is retired; a number is never given again")
        if code.number // FAMILY_SIZE * FAMILY_SIZE not in firsts:
            problems.add(place, word, f"the number {word} lies in no family")


# --- Codes ----------------------------------------------------------------------------------------------------------


def _named_codes(top: Table) -> Iterator[tuple[str, Table]]:
    for name, data in top.table("code", required=True).items():
        entry = Table(data, f"code {name}", top.problems, _CODE_KEYS)
        if not CODE.fullmatch(name):
            entry.complain(name, f'the name "{name}" is not made of capital letters, digits and _')
        yield name, entry


def _code(name: str, entry: Table, stages: tuple[str, ...]) -> CodeEntry:
    for key in ("retryable", "fatal", "condemns"):
        if key not in entry.data:
            entry.complain(key, f'"{key}" is missing')
    outcome = entry.word("outcome")
    if "outcome" in entry.data:
        entry.known(outcome, "outcome", (word.value for word in Outcome))
    where = entry.words("stages", required=True)
    for stage in where:
        entry.known(stage, "stage", stages)
    for stage in sorted({stage for stage in where if where.count(stage) > 1}):
        entry.complain(stage, f'the stage "{stage}" is listed twice')
    return CodeEntry(
        name=name,
        number=entry.number("number") or _NO_NUMBER,
        outcome=outcome,
        stages=where,
        retryable=entry.flag("retryable", False),
        fatal=entry.flag("fatal", False),
        condemns=entry.flag("condemns", False),
        sentence=_sentence(entry, "sentence"),
        remedy=_sentence(entry, "remedy"),
        doc=entry.text("doc") if "doc" in entry.data else "",
    )


def _sentence(entry: Table, key: str) -> str:
    text = entry.text(key)
    if key in entry.data and text != "?":
        if not text.isprintable():
            entry.complain(key, f'"{key}" must be one line')
        if len(text) > MAX_SENTENCE:
            entry.complain(key, f'"{key}" has {len(text)} characters; {MAX_SENTENCE} is the limit')
        if not text.endswith("."):
            entry.complain(key, f'"{key}" must be a sentence and end with a full stop')
    return text


def _check_code(entry: Table, code: CodeEntry, stages: tuple[str, ...]) -> None:
    """What the properties of one code claim together. One that is not whole has been complained of already."""
    if code.outcome not in set(Outcome) or not code.stages:
        return
    if code.outcome == Outcome.DONE:
        entry.complain("outcome", 'the outcome of an error cannot be "done"')
    if code.condemns != (code.outcome == Outcome.BROKEN):
        entry.complain("condemns", 'a code condemns its key if, and only if, its outcome is "broken"')
    if code.retryable and code.condemns:
        entry.complain("retryable", "bytes that are bad or not there are never worth another try")
    if code.retryable and code.fatal:
        entry.complain("retryable", "nothing is tried again after a fatal error")
    if code.fatal and code.condemns:
        entry.complain("condemns", "what a broken device read condemns no key")
    if code.retryable != (code.outcome in (Outcome.FAILED, Outcome.TIMEOUT)) and not code.condemns:
        never = "" if code.retryable else "not "
        entry.complain("retryable", f'the code is {never}retryable, and its outcome "{code.outcome}" says otherwise')
    missing = [stage for stage in stages if stage not in code.stages]
    everywhere = {
        "proves nothing": code.outcome == Outcome.TIMEOUT,
        "is fatal": code.fatal,
        "is what a translation falls back to": code.name in FALLBACKS,
    }
    for reason, needed in everywhere.items():
        if needed and missing:
            entry.complain(missing[0], f'a code that {reason} must be allowed at every stage, "{missing[0]}" too')


def _check_whole(top: Table, codes: tuple[CodeEntry, ...], stages: tuple[str, ...]) -> None:
    names = {code.name for code in codes}
    for fallback in FALLBACKS:
        if fallback not in names:
            top.complain(fallback, f'there is no code "{fallback}", which a translation falls back to')
    used = {stage for code in codes if code.name not in FALLBACKS for stage in code.stages}
    for stage in stages:
        if stage not in used:
            top.problems.add(f"stage {stage}", stage, f'no code is used at the stage "{stage}"')


# --- Drivers --------------------------------------------------------------------------------------------------------


def _driver(number: int, data: object, problems: Problems, codes: tuple[CodeEntry, ...]) -> Driver:
    name = data.get("name") if isinstance(data, dict) else None
    place = f"driver {name}" if isinstance(name, str) and NAME.fullmatch(name) else f"driver number {number}"
    entry = Table(data, place, problems, ("name", "doc", "raw", "same", "transient"))
    word = entry.word("name")
    if word and not NAME.fullmatch(word):
        entry.complain(word, f'the name "{word}" is not made of small letters, digits and _')
    table = _pairs(entry, "raw", required=True)
    for raw, code in table.items():
        if entry.known(code, "code", (known.name for known in codes)) and code == "UNKNOWN":
            entry.complain(raw, f'"{raw}" is translated to UNKNOWN, which says nothing: leave it out')
    spelled = dict(table)
    transient = list(entry.words("transient", required=False))
    for other, raw in _pairs(entry, "same", required=False).items():
        if other in table:
            entry.complain(other, f'"{other}" has a translation of its own and cannot be the same as "{raw}"')
        elif raw not in table:
            entry.complain(raw, f'"{other}" is the same as "{raw}", which is not translated{did_you_mean(raw, table)}')
        else:
            spelled[other] = table[raw]
            transient += [other] if raw in transient else []
    _check_transient(entry, transient, spelled, codes)
    return Driver(word, entry.text("doc"), tuple(spelled.items()), tuple(transient))


def _pairs(entry: Table, key: str, required: bool) -> dict[str, str]:
    """A table of words, with what is not a word left out and complained of."""
    pairs: dict[str, str] = {}
    for raw, value in entry.table(key, required).items():
        if not RAW.fullmatch(raw):
            entry.complain(raw, f'"{raw}" is no raw code: letters, digits and _ . : - are allowed')
        elif not isinstance(value, str):
            entry.complain(raw, f'"{raw}" must stand for a text, not {kind_of(value)}')
        else:
            pairs[raw] = value
    return pairs


def _check_transient(entry: Table, transient: list[str], table: dict[str, str], codes: tuple[CodeEntry, ...]) -> None:
    final = {code.name for code in codes if code.condemns or code.fatal or code.outcome == Outcome.CANCELLED}
    for raw in sorted({raw for raw in transient if transient.count(raw) > 1}):
        entry.complain(raw, f'"{raw}" is called transient twice')
    for raw in transient:
        if table.get(raw) in final:
            entry.complain(raw, f'"{raw}" is called transient, but {table[raw]} is never worth another try')
