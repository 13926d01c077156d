"""The door that every input of the ledger comes through."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from kvstate.machines.core import Core
from kvstate.machines.ports import InvariantError
from kvstate.machines.sound import BOUNDS, CHECKS, LEAST, QUICK
from kvstate.machines.verdicts import Fatal, Refusal

if TYPE_CHECKING:
    from kvstate.machines.books import Books


class Guarded(Protocol):
    """What the door needs of the ledger: its `books`, its `core`, and whether it is poisoned (`fatal`)."""

    fatal: Fatal | None
    books: Books

    @property
    def core(self) -> Core:
        """Brings an input to its end."""
        ...

    def _poison(self, fatal: Fatal) -> Refusal: ...


Args = ParamSpec("Args")
R = TypeVar("R")
L = TypeVar("L", bound=Guarded)


def door(
    method: Callable[Concatenate[L, Args], R],
) -> Callable[Concatenate[L, Args], R | Refusal]:
    """Every input comes through here: its arguments are looked at, and it is run to its end or poisons the ledger.

    A function with the method's own parameters is printed and compiled, as `dataclass` does it: one that takes any
    arguments and hands them on costs as much as the ledger needs for a block.
    """
    space: dict[str, Any] = {"method": method, "_poisoned": _poisoned, "_broken": _broken}
    exec(_printed(method, space), space)  # noqa: S102 - of the method's own names and nothing else
    return wraps(method)(space[method.__name__])


def _printed(method: Callable[..., object], space: dict[str, Any]) -> str:
    """The text of the function; what it names is put into `space`."""
    _, *parameters = signature(method).parameters.values()
    taken, looks = ["self"], []
    for parameter in parameters:
        name = parameter.name
        if parameter.kind is Parameter.KEYWORD_ONLY and "*" not in taken:
            taken.append("*")
        if parameter.default is not Parameter.empty:
            space[f"default_{name}"] = parameter.default
        taken.append(name if parameter.default is Parameter.empty else f"{name}=default_{name}")
        if name in CHECKS:
            space[f"check_{name}"], space[f"quick_{name}"] = partial(CHECKS[name], name), QUICK.get(name)
            quick = f"type({name}) is quick_{name}"
            if QUICK.get(name) in BOUNDS:
                low, high = BOUNDS[QUICK[name]]
                quick += f" and {LEAST.get(name, low)} <= {name} <= {high}"
            if parameter.default is None:
                quick += f" or {name} is None"
            looks += [f"    if not ({quick}):", f"        refused = check_{name}({name})"]
            looks += ["        if refused is not None:", "            return refused"]
    given = [f"{p.name}={p.name}" if p.kind is Parameter.KEYWORD_ONLY else p.name for p in parameters]
    lines = [
        f"def {method.__name__}({', '.join(taken)}):",
        "    if self.fatal is not None:",
        "        return _poisoned(self)",
        *looks,
        "    try:",
        f"        result = method({', '.join(['self', *given])})",
        "        books = self.books",
        "        if books.doomed_keys or books.doomed or books.at_once:",
        "            self.core.conclude()",
        "    except Exception as error:",
        "        return _broken(self, method, error)",
        "    except BaseException as error:  # control-C in the middle of an input",
        "        _broken(self, method, error)",
        "        raise",
        "    return result",
    ]
    return "\n".join(lines)


def _poisoned(ledger: Guarded) -> Refusal:
    assert ledger.fatal is not None
    return Refusal(f"the ledger is poisoned: {ledger.fatal.sentence}")


def _broken(ledger: Guarded, method: Callable[..., object], error: BaseException) -> Refusal:
    """An invariant that is broken, or a bug in the ledger itself: as loud, and as final."""
    if isinstance(error, InvariantError):
        return ledger._poison(Fatal(error.law, error.sentence))  # noqa: SLF001 - the door is the ledger's own
    return ledger._poison(Fatal("INTERNAL", f"{type(error).__name__} in {method.__name__}: {error}"))  # noqa: SLF001
