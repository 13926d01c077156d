"""A part and what it says: law L2, for any number of parts and of reports.

The model. One part, any, which hears anything in any order and as often as it likes. Two ghosts count: how often it
let go of its blocks (`settled`) and how often it told its owner of its end (`told`). Which effects do that is read off
the couplings: those that end a touch of a block, and those that fire an event of a job or a batch.

What is abstracted. That a token leads to the part that minted it and to no other, and a token that was never minted to
none, is done by code (a dictionary of the ledger), not by rows, and is not proved here.

The lemmas are searched: of "in this state, `settled` (or `told`) is 0, is 1, is at most 1" those are kept that are
inductive together (Houdini).
"""

from __future__ import annotations

from kvstate.proof.terms import Solver, Step, Symbols, Term, houdini, import_z3, unproved
from kvstate.spec.model import Coupling, Row, Spec

ENDS = ("read_end", "write_end", "read_late", "write_late")
"""The events by which a block hears that a touch is over."""
OWNERS = ("offload", "transfer")
"""The machines that own parts."""
COUNTS = "count_stale"
"""The act of a report that is stale."""
GHOSTS = ("settled", "told")
"""What the proof counts beside the machine: how often the part let go, how often it told its owner."""


class Identity:
    """One part with its ghosts."""

    def __init__(self, spec: Spec) -> None:
        self.z3 = import_z3()
        self.spec = spec
        self.part = Symbols(spec.machine("part"))
        self.state = self.z3.Int("state")
        self.ghosts = {name: self.z3.Int(name) for name in GHOSTS}

    def links(self, effect: str) -> list[Coupling]:
        """The couplings of an effect of a part."""
        return [link for link in self.spec.couplings if (link.machine, link.effect) == ("part", effect)]

    def counted(self, row: Row) -> dict[str, Term]:
        """The ghosts after the row."""
        settles = [effect for effect in row.effects
                   if any(link.target == "block" and link.event in ENDS for link in self.links(effect))]  # fmt: skip
        tells = [link for effect in row.effects for link in self.links(effect) if link.target in OWNERS]
        told = max((sum(link.target == owner for link in tells) for owner in OWNERS), default=0)
        return {"settled": self.ghosts["settled"] + len(settles), "told": self.ghosts["told"] + told}

    def claims(self, state: Term, ghosts: dict[str, Term]) -> dict[str, Term]:
        """What might be true of a ghost in a state."""
        z3 = self.z3
        found = {}
        for word, number in self.part.number.items():
            for name, ghost in ghosts.items():
                for what, term in (("0", ghost == 0), ("1", ghost == 1), ("at most 1", z3.And(ghost >= 0, ghost <= 1))):
                    found[f"{word}: {name} is {what}"] = z3.Implies(state == number, term)
        return found

    def kept(self) -> set[str]:
        """The claims that are inductive together, from the birth of a part on."""
        z3, machine = self.z3, self.part.machine
        then, ghosts = z3.Int("state'"), {name: z3.Int(f"{name}'") for name in self.ghosts}
        steps = []
        for source, row in [(source, one) for one in machine.rows for source in one.sources]:
            target = self.part.number[source if row.to is None else row.to]
            equal = [ghosts[name] == count for name, count in self.counted(row).items()]
            steps.append([self.state == self.part.number[source], then == target, *equal])
        birth = [then == self.part.number[machine.initial], *(ghost == 0 for ghost in ghosts.values())]
        return houdini([self.claims(self.state, self.ghosts)], self.claims(then, ghosts), [birth], steps)


def one_settlement(spec: Spec) -> list[str]:
    """L2: a part lets go of its blocks at most once and tells its owner of its end at most once, whatever it hears."""
    world = Identity(spec)
    kept = world.kept()
    lemmas = [term for name, term in world.claims(world.state, world.ghosts).items() if name in kept]
    found = []
    for state, number in world.part.number.items():
        owed = [(f"a part may have {name} more than once", ghost <= 1) for name, ghost in world.ghosts.items()]
        found += unproved(Step(f"part, in {state}", (world.state == number,), tuple(owed)), lemmas)
    settled = Solver([*lemmas, world.ghosts["settled"] == 1])
    if settled.model() is None or not any(name.endswith("settled is 1") for name in kept):
        found.append("part: never lets go of its blocks")
    return found


def stale_changes_nothing(spec: Spec) -> list[str]:
    """L2: a report on a part that is settled, or was never launched, changes no part, block, key or owner.

    All that may follow is the count of stale reports. A second timeout of a part that is lost counts as stale, too.
    """
    world = Identity(spec)
    z3, kept, machine = world.z3, world.kept(), world.part.machine
    reports = [event.name for event in machine.events if event.kind == "report"]
    over = {state for state in world.part.number if f"{state}: settled is 1" in kept} | {machine.initial}
    found = [] if len(over) > 1 else ["part: never lets go of its blocks"]
    cells = [(state, event) for state in over for event in reports] + [("lost", "timeout")]
    for state, event in sorted(cells):
        for row in machine.cell(state, event):
            after = z3.IntVal(world.part.number[state if row.to is None else row.to])
            others = [link.id for effect in row.effects for link in world.links(effect)]
            acts = [act.id for act in spec.acts
                    if act.machine == "part" and act.effect in row.effects and act.act != COUNTS]  # fmt: skip
            owed = [("the part changes", after == world.state), *((f"{one} tells others", z3.BoolVal(False))
                                                                  for one in [*others, *acts])]  # fmt: skip
            found += unproved(Step(f"{row.id} on {event} in {state}", (world.state == world.part.number[state],),
                                   tuple(owed)), [])  # fmt: skip
    return found
