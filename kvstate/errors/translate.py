"""From a driver's own words to a `Failure`: once, at the boundary, and without ever raising.

A raw code that no table knows is UNKNOWN with its raw value; it is never taken for a code that it resembles. An
exception that no table knows is INTERNAL with its type, its message and its first cause. Both functions take whatever
they get: a caller on the error path has nobody to hand a second error to.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from kvstate.errors.codes import PROPERTIES, TRANSIENT, TRANSLATIONS, Code
from kvstate.errors.kverror import KVError, KVException, may_be_transient
from kvstate.errors.text import MAX_MESSAGE, MAX_RAW, MAX_TYPE, MAX_WORD, attribute, class_name, clean, text_of, type_of
from kvstate.machines.messages import Failure

MAX_CHAIN = 32
"""How many causes of an exception are looked at. Chains can be circles."""
MAX_LINE = 2**31 - 1
"""The largest index into a part's blocks that a report can carry; a larger one becomes -1, the part as a whole."""

_FOREIGN_ERRNO = frozenset({"ssl.SSLError", "socket.gaierror", "socket.herror"})
"""Subclasses of OSError whose `errno` is a number of something else: 1 would be read as EPERM."""


def translate(
    driver: str, raw: object, *, stage: str, line: int = -1, message: str = "", transient: bool = False
) -> Failure:
    """What a driver's raw code means. Total: it never raises.

    driver: whose code it is; the name of a table in `errors.toml` (another name makes every code UNKNOWN)
    raw: an int, a str, or an enum member that is one of them; anything else is UNKNOWN with its text kept
    stage: where it happened; a translation holds only at the stages of its code
    line: index into the part's blocks, -1 for the part as a whole
    transient: the driver says that it may work another time; without effect where nothing ever would
    """
    name = text_of(driver, MAX_WORD)
    where = text_of(stage, MAX_WORD)
    known = _spelled(name, raw)
    code = TRANSLATIONS.get(name, {}).get(known, Code.UNKNOWN) if known else Code.UNKNOWN
    if where not in PROPERTIES[code].stages:
        code = Code.UNKNOWN
    again = _flag(transient) or known in TRANSIENT.get(name, ())
    return Failure(
        line=_line(line),
        code=int(code),
        stage=where,
        driver=name,
        raw=known or ("" if raw is None else text_of(raw, MAX_RAW)),
        message=text_of(message, MAX_MESSAGE),
        transient=again and may_be_transient(code),
    )


def from_exception(exc: BaseException, *, stage: str, line: int = -1, driver: str = "python") -> Failure:
    """What an exception means. Total: it never raises.

    An exception that carries a `KVError` gives that one back. Otherwise it is looked up in the driver's own table by
    the names of its classes, by its errno if it is an OSError, and in the table for Python. Where it says nothing,
    what it was explicitly raised *from* is asked: `raise CopyFailed(...) from OSError(ENOSPC, ...)` is NO_SPACE. An
    exception that merely came up while another was handled is not: a bug in a handler is INTERNAL, with the first
    cause kept in the message. The failure's `driver` is the table that knew it, else the one that was given.
    """
    error = attribute(exc, "error")
    if issubclass(type(exc), KVException) and type(error) is KVError:
        return _failure(error, line)
    name = text_of(driver, MAX_WORD)
    table, raw = name, ""
    for one in _chain(exc, explicit=True):
        table, raw = _recognised(one, name)
        if raw:
            break
    found = translate(table, raw, stage=stage, line=line)
    if not raw:
        found = found._replace(code=int(Code.INTERNAL), driver=name)
    return found._replace(type=type_of(exc), message=_message(exc))


def _failure(error: KVError, line: int) -> Failure:
    """An error that was raised is the failure that it was made from. Its own stage is nearer to what happened."""
    return Failure(
        line=_line(line),
        code=int(error.code),
        stage=text_of(error.stage, MAX_WORD),
        driver=text_of(error.driver, MAX_WORD),
        raw=text_of(error.raw, MAX_RAW),
        type=text_of(error.type, MAX_TYPE),
        message=text_of(error.message, MAX_MESSAGE),
        transient=error.retryable is True and not PROPERTIES[error.code].retryable,
    )


# --- Raw codes ------------------------------------------------------------------------------------------------------


def _spelled(driver: str, raw: object) -> str:
    """The raw code as tables spell it; empty where it is neither a number nor a word."""
    kind = type(raw)
    if issubclass(kind, str):
        return clean(raw, MAX_RAW)  # type: ignore[arg-type]
    if not issubclass(kind, int) or kind is bool:
        return ""
    number = int.__int__(raw)  # type: ignore[arg-type]
    if number.bit_length() > 64:
        return f"a number of {number.bit_length()} bits"
    if driver == "errno":
        return errno.errorcode.get(number, str(number))
    return str(number)


def _line(line: object) -> int:
    """A line that is none is the part as a whole."""
    return line if type(line) is int and -1 <= line <= MAX_LINE else -1


def _flag(value: object) -> bool:
    try:
        return bool(value)
    except BaseException:  # an array has no truth
        return False


# --- Exceptions -----------------------------------------------------------------------------------------------------


def _recognised(exc: object, driver: str) -> tuple[str, str]:
    """The table that knows this exception, and the raw code in it; two empty words if none does."""
    mro = attribute(type(exc), "__mro__")
    names = [".".join(class_name(cls)) for cls in mro] if type(mro) is tuple else []
    own = next((name for name in names if name in TRANSLATIONS.get(driver, {})), "")
    if own and driver != "python":
        return driver, own
    number = attribute(exc, "errno")
    if issubclass(type(exc), OSError) and type(number) is int and _FOREIGN_ERRNO.isdisjoint(names):
        return "errno", errno.errorcode.get(number, str(number))
    python = next((name for name in names if name in TRANSLATIONS["python"]), "")
    return ("python", python) if python else ("", "")


def _chain(exc: object, *, explicit: bool) -> Iterator[object]:
    """The exception, what it was raised from, and so on; with `explicit=False` also what it came up in."""
    yield exc
    seen = [exc]
    while len(seen) < MAX_CHAIN:
        cause = attribute(exc, "__cause__")
        if cause is None and not explicit and not _flag(attribute(exc, "__suppress_context__")):
            cause = attribute(exc, "__context__")
        if cause is None or any(cause is one for one in seen):
            return
        exc = cause
        seen.append(exc)
        yield exc


def _message(exc: object) -> str:
    """Its own text and, if there is another, the first cause: the end of the chain, where the trouble began."""
    first = list(_chain(exc, explicit=False))[-1]
    if first is exc:
        return text_of(exc, MAX_MESSAGE)
    half = MAX_MESSAGE // 2
    return clean(f"{text_of(exc, half)} (first cause: {type_of(first)}: {text_of(first, half - 250)})", MAX_MESSAGE)
