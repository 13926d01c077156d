"""The door that every input of the ledger comes through."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from itertools import chain
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from kvstate.machines.cascade import InvariantError
from kvstate.machines.core import Core
from kvstate.machines.sound import CHECKS
from kvstate.machines.verdicts import Fatal, Refusal


class Guarded(Protocol):
    """What the door needs of what it guards."""

    fatal: Fatal | None

    @property
    def core(self) -> Core: ...

    def _poison(self, fatal: Fatal) -> Refusal: ...


Args = ParamSpec("Args")
R = TypeVar("R")
L = TypeVar("L", bound=Guarded)


def door(
    method: Callable[Concatenate[L, Args], R],
) -> Callable[Concatenate[L, Args], R | Refusal]:
    """Every input comes through here: its arguments are looked at, and it is run to its end or poisons the ledger."""
    parameters = list(signature(method).parameters.values())[1:]
    names = [parameter.name for parameter in parameters]
    optional = {parameter.name for parameter in parameters if parameter.default is None}

    def through(self: L, /, *args: Args.args, **kwargs: Args.kwargs) -> R | Refusal:
        if self.fatal is not None:
            return Refusal(f"the ledger is poisoned: {self.fatal.sentence}")
        for name, value in chain(zip(names, args, strict=False), kwargs.items()):
            if name in CHECKS and not (value is None and name in optional):
                refused = CHECKS[name](name, value)
                if refused is not None:
                    return refused
        try:
            result = method(self, *args, **kwargs)
            self.core.conclude()
        except InvariantError as broken:
            return self._poison(Fatal(broken.law, broken.sentence))
        except Exception as error:  # a bug in the ledger itself: as loud, and as final
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise  # the call itself did not fit: nothing was run
            return self._poison(Fatal("INTERNAL", f"{type(error).__name__} in {method.__name__}: {error}"))
        return result

    through.__name__, through.__doc__ = method.__name__, method.__doc__
    return through
