"""Whatever the error path is given, it gives back a failure that can be sent."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.codec import decode_reports, encode_reports
from kvstate.errors import Code, KVError, KVException, from_exception, properties_of, translate
from kvstate.errors.codes import STAGES, TRANSLATIONS
from kvstate.errors.text import clean, text_of, type_of
from kvstate.machines.messages import Failure, Report, Token


class Unspeakable:
    """Everything that one may ask of it raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise SystemExit("no")

    def __repr__(self) -> str:
        return "Unspeakable()"  # for the message of a failing test

    def __bool__(self) -> bool:
        raise RuntimeError("neither")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equal")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise RuntimeError("no cause")


class LoudString(str):
    __slots__ = ()

    def __getitem__(self, key: object) -> str:
        raise RuntimeError("not that way")

    def __str__(self) -> str:
        return self

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class Hidden(type):
    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no module")

    @property
    def __mro__(cls) -> Any:
        raise RuntimeError("no ancestors")


class HiddenError(Exception, metaclass=Hidden):
    pass


class LongInt(int):
    def __str__(self) -> str:
        raise RuntimeError("too long")


ODD: list[Any] = [
    None,
    Unspeakable(),
    UnspeakableError(),
    HiddenError("hidden"),
    LoudString("ENOENT"),
    LongInt(404),
    10**5000,
    -(10**5000),
    float("nan"),
    b"\xff",
    "\ud800" * 3000,
    [],
    {},
    object,
    Hidden,
    OSError("no errno", "odd"),
    OSError(Unspeakable(), Unspeakable()),
    KVException("not an error"),  # type: ignore[arg-type]
    MemoryError(),
    KeyboardInterrupt(),
]


class Odd(NamedTuple):
    """Names one of them: Hypothesis prints what it draws, and they cannot be printed."""

    number: int


def opened(value: Any) -> Any:
    return ODD[value.number] if isinstance(value, Odd) else value


plain = st.text() | st.integers() | st.binary() | st.none() | st.floats() | st.booleans()
odd: st.SearchStrategy[Any] = st.integers(0, len(ODD) - 1).map(Odd) | plain


def assert_sound(failure: Failure) -> None:
    """It is a failure that the codec takes unchanged, with a code that exists."""
    report = Report(Token(0, 1), "failed", (failure,))
    assert decode_reports(encode_reports([report])) == [report]
    Code(failure.code)
    assert not (failure.transient and properties_of(failure.code).condemns)
    assert "\n" not in str(KVError.of(failure))


@given(odd, odd, odd, odd, odd, odd)
def test_translate_is_total(driver: Any, raw: Any, stage: Any, line: Any, message: Any, transient: Any) -> None:
    driver, raw, stage, line, message, transient = map(opened, (driver, raw, stage, line, message, transient))
    assert_sound(translate(driver, raw, stage=stage, line=line, message=message, transient=transient))


@given(st.sampled_from(sorted(TRANSLATIONS)), odd, st.sampled_from(STAGES))
def test_translate_is_total_within_known_drivers(driver: str, raw: Any, stage: str) -> None:
    assert_sound(translate(driver, opened(raw), stage=stage))


@given(odd, odd, odd, odd)
def test_from_exception_is_total(exc: Any, stage: Any, line: Any, driver: Any) -> None:
    exc, stage, line, driver = map(opened, (exc, stage, line, driver))
    assert_sound(from_exception(exc, stage=stage, line=line, driver=driver))


@pytest.mark.parametrize("number", range(len(ODD)))
def test_each_odd_thing_in_each_place(number: int) -> None:
    one = ODD[number]
    assert_sound(translate(one, one, stage=one, line=one, message=one, transient=one))
    assert_sound(translate("errno", one, stage="fetch"))
    assert_sound(from_exception(one, stage="fetch"))
    assert_sound(from_exception(one, stage=one, line=one, driver=one))


@given(odd, st.integers(1, 50))
def test_texts_have_a_limit(value: Any, limit: int) -> None:
    text = text_of(opened(value), limit)
    assert type(text) is str
    assert len(text) <= limit
    text.encode()


def test_texts() -> None:
    assert text_of(Unspeakable(), 200) == f"<{__name__}.Unspeakable without a text: SystemExit>"
    assert clean("abc", 3) == "abc"
    assert clean("abcd", 3) == "ab…"
    assert clean("a\udc80", 20) == "a\\udc80"
    assert clean(None, 20) == "?"  # type: ignore[arg-type]
    assert type_of(OSError()) == "OSError"
    assert type_of(HiddenError()) == "HiddenError"
    assert type(clean(LoudString("x"), 3)) is str
