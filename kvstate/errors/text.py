"""Words out of objects that may be broken. Nothing here raises, whatever it is given.

An error path that raises loses the error it was about, and with it the proof that a copy has stopped. So an object
whose `__str__` raises still has a text; a text that UTF-8 cannot carry (a file name with stray bytes) is spelled out;
and every text has a limit, since it travels in a report: what these functions return, the codec always takes.
"""

from __future__ import annotations

from typing import Final

MAX_MESSAGE: Final = 1000
"""Characters of a driver's own words."""
MAX_TYPE: Final = 200
"""Of the full name of an exception's class."""
MAX_RAW: Final = 200
"""Of a driver's own code."""
MAX_WORD: Final = 64
"""Of a driver's name and of a stage."""

_CUT: Final = "…"


def clean(text: str, limit: int) -> str:
    """`text` as an exact `str` that UTF-8 can carry, of at most `limit` characters; a cut is shown by its last one."""
    try:
        # The methods of `str` itself: a subclass may have others.
        exact = str.encode(str.__getitem__(text, slice(0, limit + 1)), "utf-8", "backslashreplace").decode()
    except Exception:
        return "?"
    return exact if len(exact) <= limit else exact[: limit - 1] + _CUT


def text_of(value: object, limit: int) -> str:
    """`str(value)`, or what can be said of a value that has none."""
    if type(value) is str:
        return clean(value, limit)
    try:
        return clean(str(value), limit)
    except BaseException as problem:  # even an exit that a `__str__` asks for must not lose the report
        return clean(f"<{type_of(value)} without a text: {type_of(problem)}>", limit)


def type_of(value: object) -> str:
    """The full name of the type: `builtins.OSError` is `OSError`, others carry their module."""
    module, name = class_name(type(value))
    return clean(name if module in ("", "builtins") else f"{module}.{name}", MAX_TYPE)


def class_name(cls: type) -> tuple[str, str]:
    """Module and name of a class, empty words where a metaclass hides them."""
    module, name = attribute(cls, "__module__"), attribute(cls, "__qualname__")
    return (module if type(module) is str else ""), (name if type(name) is str else "?")


def attribute(value: object, name: str) -> object:
    """An attribute, or `None`, also where asking for it raises."""
    try:
        found: object = getattr(value, name, None)
    except BaseException:  # a property may raise anything
        return None
    return found
