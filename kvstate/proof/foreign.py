"""A block of an engine's own and all that touch it, for any number of parts, jobs and lives: laws L2, L3 and L8.

The world is that of `kvstate.proof.holds`, with the machine `foreign` in the place of `block`. Two things differ. The
block may begin another life under a copy: the engine's reports are steps of the others, and none is refused. And a part
remembers whether that has happened under it (`tainted`), which the rows of a block say by an effect and the couplings
carry to every part that touches it.

What is proved: the counters of the block are the numbers of those who touch it, through all its lives; nothing that a
part says is refused; and whoever touches a life that is not the one it was given is tainted, or holds it as a job that
was told. So a part that ends without a taint has touched one life and no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvstate.proof.holds import HELD, HOLDS, TOUCHING, Holds, Of, World
from kvstate.proof.terms import Record, Step, Symbols, Term, unproved
from kvstate.spec.model import Row, Spec

BLOCK = "foreign"
"""The machine of such a block."""
RELATIONS = {"part_reads": "part_foreign_reads", "part_writes": "part_foreign_writes", HELD: "job_foreign_srcs"}
"""By relation to a block: the one to a block of the engine's."""
TAINT = "taint"
"""The effect of a block that begins another life under a copy, and the event that a part hears of it."""
PARTS = "foreign_parts"
"""The relation over which it does."""


@dataclass(frozen=True)
class Marked(World):
    """The world, with the mark of each part."""

    tainted: Of
    """Has a block that it touches begun another life meanwhile?"""


class ForeignHolds(Holds):
    """The world before a step, and what each step makes of it."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        z3 = self.z3
        self.block = Symbols(spec.machine(BLOCK))
        self.others = [link for link in spec.couplings if link.target == BLOCK and link.machine != "part"]
        before = {name: getattr(self.before, name) for name in World.__dataclass_fields__}
        before["block"] = self.block.record("b")
        self.marks = Marked(**before, tainted=z3.Function("tainted", self.p.sort(), z3.BoolSort()))

    def lemmas_of(self, world: Marked) -> list[tuple[str, Term]]:
        """As of a block; and the life, for parts that are not tainted."""
        z3, env = self.z3, world.block.env
        counters = [lemma for lemma in self.lemmas(world) if "another life" not in lemma[0]]
        return [
            *counters,
            *(
                (
                    "a part touches another life of the block than it was given, and is not tainted",
                    z3.Implies(
                        z3.And(self.touches(world, part), z3.Not(world.tainted(part))),
                        world.life(part) == env["generation"],
                    ),
                )
                for part in (self.p, self.q)
            ),
        ]

    def all_steps(self) -> Iterator[Step]:
        """Every row of a part from each of its states; every event of a block that the engine or others may fire."""
        for source in self.part.machine.states:
            for row in self.part.machine.rows:
                if source.name in row.sources:
                    yield self._of_part(source.name, row)
        for event in self.block.machine.events:
            if event.kind != "signal" or any(link.event == event.name for link in self.others):
                yield from self._of_other(event.name, event.kind)

    def _of_part(self, source: str, row: Row) -> Step:
        z3, before = self.z3, self.marks
        target = before.state(self.p) if row.to is None else z3.IntVal(self.part.number[row.to])
        where = {RELATIONS["part_reads"]: before.reads(self.p), RELATIONS["part_writes"]: before.writes(self.p)}
        owed: list[tuple[str, Term]] = []
        given = [
            before.state(self.p) == self.part.number[source],
            z3.Or(before.reads(self.p), before.writes(self.p)),
            self.part.answers(self._part(before), row),
        ]
        block = before.block
        for link in (link for effect in row.effects for link in self.spec.couplings
                     if (link.machine, link.effect, link.target) == ("part", effect, BLOCK)):  # fmt: skip
            answered, block = self.block.fire(block, link.event, where[link.over])
            if link.effect == "touch":
                given.append(answered)
            else:
                owed.append((f"{link.id} is refused by a block", answered))
        mark = self.part.after(self._part(before), row).env["tainted"]
        begins = source not in TOUCHING and (row.to or source) in TOUCHING
        after = replace(
            before,
            block=block,
            state=lambda x: z3.If(x == self.p, target, before.state(x)),
            tainted=lambda x: z3.If(x == self.p, mark, before.tainted(x)),
            life=(lambda x: z3.If(x == self.p, block.env["generation"], before.life(x))) if begins else before.life,
        )
        return self._step(f"{row.id} from {source}", given, owed, self._counted(after))

    def _part(self, world: Marked) -> Record:
        return Record(world.state(self.p), {"tainted": world.tainted(self.p)})

    def _counted(self, after: Marked) -> Marked:
        kept, self.before = self.before, self.marks
        counted = self.counted(after)
        self.before = kept
        assert isinstance(counted, Marked)
        return counted

    def _of_other(self, event: str, kind: str) -> Iterator[Step]:
        """The engine, a job or a batch fires this."""
        z3, before = self.z3, self.marks
        over = {link.over for link in self.others if link.event == event}
        accepted, block = self.block.fire(before.block, event, z3.BoolVal(True))
        rows = [row for row in self.block.machine.rows if event in row.events and TAINT in row.effects]
        told = any((link.machine, link.effect, link.target, link.event, link.over)
                   == (BLOCK, TAINT, "part", TAINT, PARTS) for link in self.spec.couplings)  # fmt: skip
        fires = z3.Or(*(self.block.answers(before.block, row) for row in rows)) if told else z3.BoolVal(False)
        after = replace(
            before,
            block=block,
            tainted=lambda x: z3.If(z3.And(fires, self.touches(before, x)), self._marked(before, x), before.tainted(x)),
        )
        owed = [(f"the engine's {event} is refused", accepted)] if kind == "report" else []
        if event == HOLDS:
            yield self._step(f"{event} by a job", [accepted, z3.Not(before.held(self.j))], [], self._held(after, True))
        elif RELATIONS[HELD] in over:
            told_off = [(f"{event} is refused by a block that a job holds", accepted)]
            yield self._step(
                f"{event} by a job that lets go", [before.held(self.j)], told_off, self._held(after, False)
            )
        elif kind != "report":
            yield self._step(f"{event} by others", [accepted], [], after)
        else:
            yield self._step(f"{event} by the engine", [], owed, after)

    def _marked(self, world: Marked, part: Term) -> Term:
        """What the mark is when the part has heard of it."""
        record = Record(world.state(part), {"tainted": world.tainted(part)})
        return self.part.fire(record, TAINT, self.z3.BoolVal(True))[1].env["tainted"]

    def _held(self, after: Marked, holds: bool) -> Marked:
        kept, self.before = self.before, self.marks
        held = self.holding(after, holds)
        self.before = kept
        assert isinstance(held, Marked)
        return held

    def _step(self, name: str, given: list[Term], owed: list[tuple[str, Term]], after: Marked) -> Step:
        facts = [*self.counting(self.marks), *self.counting(after)]
        return Step(name, (*given, *facts), (*owed, *self.lemmas_of(after)))


def lives_are_told_apart(spec: Spec) -> list[str]:
    """An engine's block counts who touches it, and who touches another life than it was given is tainted. Inductive."""
    holds = ForeignHolds(spec)
    z3, world = holds.z3, holds.marks
    counts = (world.readers, world.writers, world.lost_readers, world.lost_writers, world.holders)
    alone = [z3.Not(holds.touches(world, part)) for part in (holds.p, holds.q)]
    alone += [z3.Not(world.held(job)) for job in (holds.i, holds.j)]
    born = (holds.block.born(world.block), *alone, *(count == 0 for count in counts), *holds.block.bounds)
    lemmas = [term for _, term in holds.lemmas_of(world)]
    found = unproved(Step("birth", born, tuple(holds.lemmas_of(world))), [])
    return [*found, *(fault for step in holds.all_steps() for fault in unproved(step, lemmas))]
