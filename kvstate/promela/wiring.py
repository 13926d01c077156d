"""The lines of coupling.toml in Promela: each is a step of its own, and the effects of a row are a list of such steps.

What each relation finds and each act does is written by hand (`model/relations.pml`, `model/acts.pml`); which effect
leads where, and in which order, is read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvstate.promela.shape import Shape, UnprintableError
from kvstate.spec.model import Act, Coupling


class Wiring:
    """The couplings and acts between machines that have records in the scope, by a text of hand-written inlines.

    Errors: `UnprintableError` for a relation or an act that the text does not have.
    """

    def __init__(self, shape: Shape, written: str) -> None:
        here = set(shape.count)
        self.shape = shape
        self.couplings = [
            line for line in shape.spec.couplings if line.machine in here and line.target in here and self._used(line)
        ]
        self.acts = [line for line in shape.spec.acts if line.machine in here and self._used(line)]
        inlines = set(re.findall(r"^inline (\w+)\(", written, re.MULTILINE))
        named = [(line.id, f"rel_{line.over}") for line in self.couplings]
        named += [(line.id, f"act_{line.machine}_{line.act}") for line in self.acts]
        for number, name in named:
            if name not in inlines:
                raise UnprintableError(
                    f"coupling.toml, {number}: the Promela model has no inline {name}; "
                    "write it in kvstate/promela/model"
                )

    def _used(self, line: Coupling | Act) -> bool:
        return line.effect in self.shape.spec.machine(line.machine).effects

    def steps(self, machine: str, effect: str) -> list[str]:
        """The names of the steps that an effect means, in the order in which they happen."""
        acts = [line for line in self.acts if (line.machine, line.effect) == (machine, effect)]
        return [
            *(line.id for line in acts if line.order == "before"),
            *(line.id for line in self.couplings if (line.machine, line.effect) == (machine, effect)),
            *(line.id for line in acts if line.order == "after"),
        ]

    @property
    def names(self) -> list[str]:
        """All steps."""
        return [*(line.id for line in self.couplings), *(line.id for line in self.acts)]

    def effects(self) -> Iterator[str]:
        """The numbers of the effects that acts are told."""
        pairs = dict.fromkeys((line.machine, line.effect) for line in self.acts)
        yield from (f"#define F_{machine}_{effect} {number}" for number, (machine, effect) in enumerate(pairs, 1))

    def does(self) -> Iterator[tuple[str, str]]:
        """The name of each step, and what is done then to `who`."""
        for line in self.couplings:
            ask = "true" if line.ask else "false"
            yield line.id, f"rel_{line.over}(who); push_found(E_{line.target}_{line.event}, {ask})"
        for act in self.acts:
            yield act.id, f"act_{act.machine}_{act.act}(who, F_{act.machine}_{act.effect})"
