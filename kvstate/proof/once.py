"""One end: law L1, for any number of parts, batches, attempts and events in any order.

The model. One job, one batch or one load, any, which hears any event at any time, with any values of its variables that
its states' invariants allow. Two ghosts count how often it gave its verdict and how often it said that it had settled;
which effects do that is read off the acts of the ledger that they are.

What is abstracted. Who fires the events, and how often; so what is proved of a load does not rest on what is proved of
its batches. That a verdict reaches the scheduler is code.

The lemmas are searched: of "in this state, with this flag so, the count is 0, or 1" those are kept that are inductive
together (Houdini).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from kvstate.proof.terms import Record, Step, Symbols, Term, houdini, import_z3, unproved
from kvstate.spec.model import Row, Spec

VERDICTS = {"offload": ("tell_job",), "transfer": ("note_hole", "advance_turn"), "load": ("tell_load",)}
"""The acts by which the owner is told how it ended. A batch tells its load that it fell or that it committed."""
SETTLES = {"offload": ("tell_job",), "transfer": ("note_over",), "load": ("tell_settled",)}
"""The acts by which it is said that all has stopped. A job's verdict says it too."""
SILENT = "transfer"
"""The machine that may end without a verdict of its own: a batch whose lease closed tells its load only that it is
over."""


class Once:
    """One record of a machine with its ghosts."""

    def __init__(self, spec: Spec, machine: str) -> None:
        self.z3 = import_z3()
        self.spec, self.name = spec, machine
        self.symbols = Symbols(spec.machine(machine))
        self.before = self.symbols.record("o")
        self.ghosts = {name: self.z3.Int(name) for name in ("verdicts", "settlements")}

    def counted(self, row: Row) -> dict[str, Term]:
        """The ghosts after the row."""
        return {
            name: self.ghosts[name] + sum(
                act.machine == self.name and act.effect == effect and act.act in acts[self.name]
                for effect in row.effects for act in self.spec.acts
            )
            for name, acts in (("verdicts", VERDICTS), ("settlements", SETTLES))
        }  # fmt: skip

    def claims(self, record: Record, ghosts: dict[str, Term], states: Iterable[str]) -> dict[str, Term]:
        """What might be true of a ghost in one of these states, with a flag so."""
        z3, machine = self.z3, self.symbols.machine
        when = {"always": z3.BoolVal(True)}
        for var in machine.vars:
            if var.type == "bool":
                when |= {var.name: record.env[var.name], f"not {var.name}": z3.Not(record.env[var.name])}
        return {
            f"{state}, {flag}: {number} {name}": z3.Implies(
                z3.And(record.state == self.symbols.number[state], holds), ghost == number
            )
            for state, (flag, holds), (name, ghost), number in product(states, when.items(), ghosts.items(), (0, 1))
        }

    def lemmas(self) -> list[Term]:
        """The claims that are inductive together, from the birth of a record on, and the invariants of the states."""
        symbols = self.symbols
        then, ghosts = symbols.record("o'"), {name: self.z3.Int(f"{name}'") for name in self.ghosts}
        before = self.claims(self.before, self.ghosts, symbols.number)
        steps = []
        for row in symbols.machine.rows:
            equal = [ghosts[name] == count for name, count in self.counted(row).items()]
            given = [symbols.answers(self.before, row), symbols.within(self.before)]
            steps.append([*given, *equal, then.same(symbols.after(self.before, row))])
        birth = [symbols.born(then), *(ghost == 0 for ghost in ghosts.values())]
        kept = houdini([before], self.claims(then, ghosts, symbols.number), [birth], steps)
        return [symbols.within(self.before), *(term for name, term in before.items() if name in kept)]


def one_end(spec: Spec) -> list[str]:
    """L1: at most one verdict and one settlement ever; exactly one of each at the end; never a settlement before."""
    found = []
    for machine in VERDICTS:
        once = Once(spec, machine)
        z3, lemmas = once.z3, once.lemmas()
        verdicts, settlements = once.ghosts["verdicts"], once.ghosts["settlements"]
        owed = [("may give two verdicts", verdicts <= 1), ("may settle twice", settlements <= 1)]
        if machine != SILENT:
            owed.append(("may settle without a verdict", settlements <= verdicts))
        for state, number in once.symbols.number.items():
            ends = [("may end without its settlement", settlements == 1)]
            if machine != SILENT:
                ends.append(("may end without its verdict", verdicts == 1))
            home = once.symbols.machine.state(state).home
            given = (once.before.state == number, *(z3.And(ghost >= 0) for ghost in once.ghosts.values()))
            found += unproved(Step(f"{machine}, in {state}", given, (*owed, *(ends if home else []))), lemmas)
    return found
