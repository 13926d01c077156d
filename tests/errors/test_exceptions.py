"""Exceptions: known by class and errno, else INTERNAL with type, message and first cause."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import socket
import ssl
from pathlib import Path

import pytest

from kvstate.codec import decode_reports, encode_reports
from kvstate.errors import Code, KVError, KVException, from_exception, translate
from kvstate.errors.codes import TRANSLATIONS
from kvstate.errors.text import MAX_MESSAGE, type_of
from kvstate.machines.messages import Report, Token


def like(full: str, *bases: type[Exception]) -> Exception:
    """An exception whose class has this full name, as if the package were there."""
    module, _, name = full.rpartition(".")
    made: Exception = type(name, bases or (RuntimeError,), {"__module__": module})("it says so")
    return made


@pytest.mark.parametrize(
    ("exc", "code", "driver", "raw"),
    [
        (FileNotFoundError(errno.ENOENT, "gone"), Code.BLOCK_NOT_FOUND, "errno", "ENOENT"),
        (OSError(errno.ETIMEDOUT, "late"), Code.LOAD_TIMEOUT, "errno", "ETIMEDOUT"),
        (OSError(errno.EIO, "dying"), Code.UNKNOWN, "errno", "EIO"),
        (OSError("no errno"), Code.INTERNAL, "python", ""),
        (FileNotFoundError("no errno"), Code.BLOCK_NOT_FOUND, "python", "builtins.FileNotFoundError"),
        (ConnectionResetError(), Code.PEER_LOST, "python", "builtins.ConnectionError"),
        (TimeoutError(), Code.LOAD_TIMEOUT, "python", "builtins.TimeoutError"),
        (concurrent.futures.TimeoutError(), Code.LOAD_TIMEOUT, "python", "builtins.TimeoutError"),
        (MemoryError(), Code.KV_OOM, "python", "builtins.MemoryError"),
        (like("numpy._ArrayMemoryError", MemoryError), Code.KV_OOM, "python", "builtins.MemoryError"),
        (like("torch.OutOfMemoryError"), Code.KV_OOM, "python", "torch.OutOfMemoryError"),
        (like("torch.AcceleratorError"), Code.DEVICE_ERROR, "python", "torch.AcceleratorError"),
        (asyncio.CancelledError(), Code.CANCELLED, "python", "asyncio.exceptions.CancelledError"),
        (concurrent.futures.CancelledError(), Code.CANCELLED, "python", "concurrent.futures._base.CancelledError"),
        (asyncio.IncompleteReadError(b"", 9), Code.SHORT_READ, "python", "asyncio.exceptions.IncompleteReadError"),
        (ssl.SSLError(1, "not EPERM"), Code.INTERNAL, "python", ""),
        (socket.gaierror(2, "not ENOENT"), Code.INTERNAL, "python", ""),
        (ValueError("odd"), Code.INTERNAL, "python", ""),
        (KeyboardInterrupt(), Code.INTERNAL, "python", ""),
    ],
    ids=repr,
)
def test_exceptions(exc: BaseException, code: Code, driver: str, raw: str) -> None:
    found = from_exception(exc, stage="fetch", line=2)
    assert (found.code, found.driver, found.raw, found.line) == (code, driver, raw, 2)
    assert found.type == type_of(exc)
    assert found.message == str(exc)
    if raw:
        assert translate(found.driver, found.raw, stage="fetch").code == found.code


def test_a_driver_of_its_own_keeps_its_name() -> None:
    assert from_exception(ValueError("odd"), stage="fetch", driver="disk").driver == "disk"
    assert from_exception(OSError(errno.ENOSPC, "full"), stage="write", driver="disk").driver == "errno"


def test_torch_by_name() -> None:
    torch = pytest.importorskip("torch")
    assert from_exception(torch.OutOfMemoryError("no room"), stage="reserve").code == Code.KV_OOM


def test_a_file_name_with_stray_bytes(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        (tmp_path / "a\udcffb").read_bytes()
    found = from_exception(caught.value, stage="fetch")
    assert found.code == Code.BLOCK_NOT_FOUND
    report = Report(Token(0, 1), "broken", (found,))
    assert decode_reports(encode_reports([report])) == [report]


def raised(outer: BaseException, inner: BaseException, *, explicitly: bool) -> BaseException:
    """`outer`, raised from `inner` or while `inner` was handled."""
    try:
        try:
            raise inner
        except BaseException as problem:
            if explicitly:
                raise outer from problem
            raise outer  # noqa: B904, that is the case
    except BaseException as problem:
        return problem


def test_what_it_was_raised_from_is_the_reason() -> None:
    found = from_exception(raised(ValueError("copy"), OSError(errno.ENOSPC, "full"), explicitly=True), stage="write")
    assert (found.code, found.driver, found.raw, found.type) == (Code.NO_SPACE, "errno", "ENOSPC", "ValueError")
    assert found.message == "copy (first cause: OSError: [Errno 28] full)"


def test_a_bug_in_a_handler_is_internal_and_the_first_cause_is_kept() -> None:
    """I40: the handler raised in its turn, and the real cause was lost."""
    bug = raised(AttributeError("no field"), FileNotFoundError(errno.ENOENT, "gone"), explicitly=False)
    found = from_exception(bug, stage="fetch")
    assert (found.code, found.type) == (Code.INTERNAL, "AttributeError")
    assert found.message == "no field (first cause: FileNotFoundError: [Errno 2] gone)"


def test_no_cause_where_it_was_hidden() -> None:
    hidden = raised(ValueError("plain"), KeyError("k"), explicitly=False)
    hidden.__suppress_context__ = True
    assert from_exception(hidden, stage="fetch").message == "plain"


def test_circles_and_long_chains_of_causes_end() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert from_exception(one, stage="fetch").message == "one (first cause: ValueError: two)"
    chain = ValueError("last")
    for number in range(1000):
        outer = ValueError(str(number) * 900)
        outer.__cause__ = chain
        chain = outer
    found = from_exception(chain, stage="fetch")
    assert len(found.message) <= MAX_MESSAGE
    assert "first cause" in found.message


def test_an_error_that_was_raised_comes_back() -> None:
    first = translate("http", 503, stage="fetch", line=4, message="slow down")
    error = KVError.of(first, block=7, generation=3, token=Token(0, 9), attempt=2)
    again = from_exception(KVException(error), stage="store", line=4)
    assert again == first
    assert (
        from_exception(KVException(KVError(Code.KV_OOM, "reserve", retryable=True)), stage="store").transient is False
    )


def test_a_driver_with_exceptions_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own table comes before errno and before the table for Python."""
    monkeypatch.setitem(TRANSLATIONS, "disk", {"builtins.FileNotFoundError": Code.SHORT_READ})
    found = from_exception(FileNotFoundError(errno.ENOENT, "gone"), stage="fetch", driver="disk")
    assert (found.code, found.driver, found.raw) == (Code.SHORT_READ, "disk", "builtins.FileNotFoundError")
