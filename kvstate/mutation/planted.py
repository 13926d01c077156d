"""From a spec with a fault in it to the rules that a ledger runs on, printed as those that ship are.

A mutant that only the reference interpreter ran would be twenty times slower, and would say nothing of the forms for
many records. So the changed machine is printed by the generator of the tables, and the text is run as a module that
no file is kept of. Of the data nothing gets into it but names, numbers and expressions that the loader has taken apart
(see `kvstate.spec.generate`).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from kvstate.explore.stage import Rules
from kvstate.machines import tables
from kvstate.machines.books import Tables
from kvstate.machines.cascade import ActRow, Coupling
from kvstate.machines.table import Table
from kvstate.mutation.mutants import Mutant
from kvstate.spec.model import Machine, Spec
from kvstate.spec.print_table import class_name, print_many, print_table


def rules(mutant: Mutant) -> Rules:
    """What a ledger is to be made with to have this fault, and no other."""
    spec = mutant.spec
    machines: Tables = tables.TABLES
    if not mutant.coupled:
        machines = {**machines, mutant.machine: table(spec.machine(mutant.machine))}
    return Rules(machines, couplings(spec), acts(spec))


def couplings(spec: Spec) -> tuple[Coupling, ...]:
    """The couplings of a spec, as a ledger takes them."""
    return tuple(Coupling(c.id, c.machine, c.effect, c.target, c.event, c.over, c.ask) for c in spec.couplings)


def acts(spec: Spec) -> tuple[ActRow, ...]:
    """The acts of a spec, as a ledger takes them."""
    return tuple(ActRow(act.id, act.machine, act.effect, act.act, act.order) for act in spec.acts)


def table(machine: Machine) -> type[Table]:
    """The class that keeps the records of a machine, as `make tables` would print it."""
    text = print_table(machine)
    more: dict[str, Any] = {}
    if machine.many:
        many = ModuleType(f"kvstate.mutation.printed_{machine.name}_many")
        _run(print_many(machine), many)
        text = text.replace(f"from kvstate.machines.tables import {machine.name}_many as many\n", "")
        more["many"] = many
    module = ModuleType(f"kvstate.mutation.printed_{machine.name}")
    vars(module).update(more)
    _run(text, module)
    made: type[Table] = vars(module)[class_name(machine)]
    return made


def _run(text: str, module: ModuleType) -> None:
    exec(compile(text, module.__name__, "exec"), vars(module))  # noqa: S102 - what the generator has printed
