"""A block and all that touch it: law L3, for any number of blocks, parts, jobs and lives.

The model. There are any number of parts and of jobs, as uninterpreted sorts; `b` is any block, `p` the part (and `j`
the job) that acts, `q` and `i` any others or the same ones. Whether a part reads or writes `b` is a relation, as is
whether a job holds it. A ghost counts: how many parts touch `b` as readers and as writers, how many of these were given
up, how many jobs hold it. What is known of such a count is only what is true of the number of elements of any finite
set (`counting`).

What can happen is read off the data. A *part* makes any of its rows, and its effects fire events on `b` by the
couplings, in their order, wherever the relation has it. Everybody else (leases, pins, jobs, batches, keys, the policy)
is replaced by more than they can do: any other event of a block, at any time, on any block, wherever a row answers. One
input of the ledger is a sequence of such steps, so what every step keeps, every input keeps.

What is abstracted. A step that takes a block over from several leases stands for several parts, one a lease. A job
takes its hold on a source by `store`, once, and gives it back once, by the coupling over `job_srcs`. A launch is only
looked at where its blocks accept it; that they do is not proved here. Nor is it that what others than parts tell a
block is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kvstate.proof.terms import Record, Step, Symbols, Term, import_z3, unproved
from kvstate.spec.model import Row, Spec

TOUCHING = ("flying", "lost")
"""A part in one of these states touches its blocks. The lemma by hand: all else is read off the data."""
GIVEN_UP = ("lost",)
"""And in one of these it is not expected to report any more."""
HOLDS = "store"
"""The event by which a job takes its hold."""
HELD = "job_srcs"
"""The relation over which it gives its hold back."""
GROWS = "keep_adopted"
"""The act by which a step's list of blocks grows."""
ASSUMED = "touch"
"""The effect of a launch; that the blocks accept it is assumed."""

Of = Callable[[Term], Term]
"""A function or a relation of parts, or of jobs, at the block `b`."""


@dataclass(frozen=True)
class World:
    """All that is said of the block `b`, before a step or after it.

    `block` is its record; `state` is that of each part, `reads` and `writes` say whether a part does so with `b`;
    `held` says whether a job holds it, and `held_life` since which generation. The ghost's counts are `readers`,
    `writers`, those of them that were given up (`lost_readers`, `lost_writers`), and the jobs that hold (`holders`).
    """

    block: Record
    state: Of
    reads: Of
    writes: Of
    life: Of
    """The generation in which a part began to touch `b`."""
    held: Of
    held_life: Of
    readers: Term
    writers: Term
    lost_readers: Term
    lost_writers: Term
    holders: Term


class Holds:
    """The world before a step, and what each step makes of it."""

    def __init__(self, spec: Spec) -> None:
        z3 = self.z3 = import_z3()
        self.spec = spec
        self.part, self.block = Symbols(spec.machine("part")), Symbols(spec.machine("block"))
        parts, jobs = z3.DeclareSort("Part"), z3.DeclareSort("Job")
        self.p, self.q = z3.Consts("p q", parts)
        self.j, self.i = z3.Consts("j i", jobs)
        self.adopted = z3.Bool("adopted")
        number, flag = z3.IntSort(), z3.BoolSort()
        self.before = World(
            self.block.record("b"),
            z3.Function("state", parts, number),
            z3.Function("reads", parts, flag),
            z3.Function("writes", parts, flag),
            z3.Function("life", parts, number),
            z3.Function("held", jobs, flag),
            z3.Function("held_life", jobs, number),
            *z3.Ints("N_readers N_writers N_lost_readers N_lost_writers N_holders"),
        )

    # What is believed of every world

    def touches(self, world: World, part: Term) -> Term:
        """The part reads or writes `b` now."""
        z3 = self.z3
        return z3.And(self.part.is_in(world.state(part), TOUCHING), z3.Or(world.reads(part), world.writes(part)))

    def lemmas(self, world: World) -> list[tuple[str, Term]]:
        """The counters of the block are the ghost's counts; who touches it does so in its present life."""
        z3, env = self.z3, world.block.env
        return [
            ("readers is not the number of those who read", env["readers"] == world.readers + world.holders),
            ("writers is not the number of those who write", env["writers"] == world.writers),
            ("lost is not the number of those given up", env["lost"] == world.lost_readers + world.lost_writers),
            ("the invariant of the block's state is broken", self.block.within(world.block)),
            *(
                (
                    "a part touches another life of the block than it was given",
                    z3.Implies(self.touches(world, part), world.life(part) == env["generation"]),
                )
                for part in (self.p, self.q)
            ),
            *(
                (
                    "a job holds another life of the block than it was given",
                    z3.Implies(world.held(job), world.held_life(job) == env["generation"]),
                )
                for job in (self.j, self.i)
            ),
        ]

    def counting(self, world: World) -> list[Term]:
        """What is true of the numbers of elements of finite sets, the given-up being among those that touch."""
        z3 = self.z3
        facts = [world.holders >= 0, *(z3.Implies(world.held(job), world.holders >= 1) for job in (self.j, self.i))]
        for relation, count, lost in (
            (world.reads, world.readers, world.lost_readers),
            (world.writes, world.writers, world.lost_writers),
        ):
            facts += [lost >= 0, lost <= count]
            for part in (self.p, self.q):
                touch = z3.And(relation(part), self.part.is_in(world.state(part), TOUCHING))
                given_up = self.part.is_in(world.state(part), GIVEN_UP)
                facts += [
                    z3.Implies(touch, count >= 1),
                    z3.Implies(z3.And(touch, given_up), lost >= 1),
                    z3.Implies(z3.And(touch, z3.Not(given_up)), lost < count),
                ]
        return facts

    # What can happen

    def steps(self) -> Iterator[Step]:
        """Every row of a part from each of its states; every event of a block that others than parts may fire."""
        for source in self.part.machine.states:
            for row in self.part.machine.rows:
                if source.name in row.sources:
                    yield self.of_part(source.name, row)
        yield from self.of_others()

    def of_part(self, source: str, row: Row) -> Step:
        """The part `p` makes this row, and its blocks hear of it."""
        z3, before = self.z3, self.before
        target = before.state(self.p) if row.to is None else z3.IntVal(self.part.number[row.to])
        where = {"part_reads": before.reads(self.p), "part_writes": before.writes(self.p), "part_adopted": self.adopted}
        answered: list[tuple[str, Term]] = []
        assumed: list[tuple[str, Term]] = []
        block = before.block
        for link in (
            link
            for effect in row.effects
            for link in self.spec.couplings
            if (link.machine, link.effect, link.target) == ("part", effect, "block")
        ):
            one, block = self.block.fire(block, link.event, where[link.over])
            (assumed if link.effect == ASSUMED else answered).append((f"{link.id} is refused by a block", one))
            answered += [
                (f"{other.id} tells others in the middle of it", z3.BoolVal(False))
                for other in self.block.machine.rows
                if link.event in other.events and other.effects
            ]
        grows = any((act.machine, act.act) == ("part", GROWS) and act.effect in row.effects for act in self.spec.acts)
        after = replace(
            before,
            block=block,
            state=lambda x: z3.If(x == self.p, target, before.state(x)),
            reads=(lambda x: z3.Or(before.reads(x), z3.And(x == self.p, self.adopted))) if grows else before.reads,
        )
        begins = z3.And(z3.Not(self.touches(before, self.p)), self.touches(after, self.p))
        after = self.counted(replace(
            after, life=lambda x: z3.If(z3.And(x == self.p, begins), block.env["generation"], before.life(x))
        ))  # fmt: skip
        given = [
            before.state(self.p) == self.part.number[source],
            z3.Or(before.reads(self.p), before.writes(self.p), self.adopted),
            # `part_adopted`: blocks that are open or active, and that this step has not taken over from this lease yet.
            z3.Implies(self.adopted, z3.And(z3.Not(before.reads(self.p)), z3.Not(before.writes(self.p)),
                                            self.block.is_in(before.block.state, ("open", "active")))),
            *(term for _, term in assumed),
        ]  # fmt: skip
        return self.step(f"{row.id} from {source}", given, answered, after)

    def counted(self, after: World) -> World:
        """The counts after a step in which at most `p` changed what it does."""
        z3, before = self.z3, self.before

        def change(relation: str, states: tuple[str, ...]) -> Term:
            now, then = (
                z3.And(getattr(world, relation)(self.p), self.part.is_in(world.state(self.p), states))
                for world in (after, before)
            )
            return z3.If(now, 1, 0) - z3.If(then, 1, 0)

        return replace(
            after,
            readers=before.readers + change("reads", TOUCHING),
            writers=before.writers + change("writes", TOUCHING),
            lost_readers=before.lost_readers + change("reads", GIVEN_UP),
            lost_writers=before.lost_writers + change("writes", GIVEN_UP),
        )

    def of_others(self) -> Iterator[Step]:
        """Anything that is not a part's: requests, and what jobs, batches, loads and keys tell a block."""
        z3, before = self.z3, self.before
        others = [link for link in self.spec.couplings if link.target == "block" and link.machine != "part"]
        requests = [event.name for event in self.block.machine.events if event.kind == "request"]
        for event in dict.fromkeys([*requests, *(link.event for link in others if link.over != HELD)]):
            accepted, block = self.block.fire(before.block, event, z3.BoolVal(True))
            after, given = replace(before, block=block), [accepted]
            if event == HOLDS:
                given.append(z3.Not(before.held(self.j)))
                after = self.holding(after, True)
            yield self.step(f"{event} by others", given, [], after)
        for event in dict.fromkeys(link.event for link in others if link.over == HELD):
            answered, block = self.block.fire(before.block, event, z3.BoolVal(True))
            after = self.holding(replace(before, block=block), False)
            owed = [(f"{event} is refused by a block that a job holds", answered)]
            yield self.step(f"{event} by a job that lets go", [before.held(self.j)], owed, after)

    def holding(self, after: World, holds: bool) -> World:
        """The job `j` has just taken its hold, or given it back."""
        z3, before = self.z3, self.before
        return replace(
            after,
            held=lambda x: z3.If(x == self.j, z3.BoolVal(holds), before.held(x)),
            held_life=lambda x: z3.If(x == self.j, after.block.env["generation"], before.held_life(x)),
            holders=before.holders + (1 if holds else -1),
        )

    def step(self, name: str, given: list[Term], answered: list[tuple[str, Term]], after: World) -> Step:
        """A step into that world: what is assumed with what is known of counts, and what is owed with the lemmas."""
        facts = [*self.counting(self.before), *self.counting(after)]
        return Step(name, (*given, *facts), (*answered, *self.lemmas(after)))


def kept(spec: Spec) -> list[str]:
    """The counters of a block are what the ghost counts, in one life; and nothing that a part says is refused.

    Inductive: true of a block that nobody ever touched, and kept by every step.
    """
    holds = Holds(spec)
    z3, world = holds.z3, holds.before
    counts = (world.readers, world.writers, world.lost_readers, world.lost_writers, world.holders)
    alone = [
        z3.Not(holds.touches(world, holds.q)),
        z3.Not(world.held(holds.i)),
        z3.Not(holds.touches(world, holds.p)),
        z3.Not(world.held(holds.j)),
    ]
    birth = Step("birth", (holds.block.born(world.block), *alone, *(count == 0 for count in counts),
                           *holds.block.bounds), tuple(holds.lemmas(world)))  # fmt: skip
    lemmas = [term for _, term in holds.lemmas(world)]
    return [*unproved(birth, []), *(found for step in holds.steps() for found in unproved(step, lemmas))]


def free_means_untouched(spec: Spec) -> list[str]:
    """L3: a free block is touched by no part and held by no job; while one does, the block stays in that life."""
    holds = Holds(spec)
    z3, world = holds.z3, holds.before
    free = world.block.state == holds.block.number["free"]
    rest = Step("at rest", (*holds.counting(world), *(term for _, term in holds.lemmas(world)), free), (
        ("a part touches a free block", z3.Not(holds.touches(world, holds.q))),
        ("a job holds a free block", z3.Not(world.held(holds.i))),
        ("a free block has an owner", world.block.env["owners"] == 0),
    ))  # fmt: skip
    return [*kept(spec), *unproved(rest, [])]
