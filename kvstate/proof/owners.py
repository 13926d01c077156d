"""A job or a batch and its parts: laws L4 and L5, for any number of parts and attempts.

The model. One owner, a job or a batch, and any number of parts, as an uninterpreted sort; `p` is the part that acts,
`q` any other or the same one. All parts are its own: a relation leads from a record to its own parts only, so that
those of others stay as they are. A ghost counts the owner's parts that fly (`flying`), and ghost sets say which parts
the latest firing of each launching effect minted. What is known of the count is what is true of the number of elements
of any finite set.

What can happen is read off the data. A part hears a report and makes its row; the effects of that row fire events of
the owner by the couplings. Or the owner hears of anything else: a request, a timer, its load. Either way the owner's
row runs, and its effects in their order: those that mint, and those that give parts up.

What is abstracted. An act that mints makes exactly `parts` new parts and launches all of them in the same input; that
is a claim about the code of the ledger and is assumed here. Blocks, keys and loads are left out: what a batch tells its
load comes back as an event at any time. An effect ends before the next begins, so what it sets off elsewhere, and what
that sends back to this owner, is a step of its own.

The lemmas about attempts are searched: of all candidates that can be made from the data ("in this state, with this flag
so, every part that this effect minted has landed", or "flies or has landed", or "some effect has minted any") those are
kept that are inductive together (Houdini).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from kvstate.proof.terms import Record, Symbols, Term, houdini, import_z3
from kvstate.spec.model import Row, Spec

OWNERS = ("offload", "transfer")
"""The machines that own parts."""
MINTING = ("launch_parts", "launch_persist", "launch_verify")
"""The acts that mint parts and launch them."""
PUBLISHING = (("block", "commit"), ("block", "publish"), ("key", "commit"))
"""What an owner fires by which others can see its bytes."""
NEW, FLYING, LANDED = "new", "flying", "landed"
"""The states of a part that the ledger's relations and acts speak of."""

Of = Callable[[Term], Term]
"""A function or a set of parts."""


@dataclass(frozen=True)
class World:
    """An owner and all its parts, before a step or after it: the `owner`'s record, and the `state` of each part."""

    owner: Record
    state: Of
    flying: Term
    """The ghost's count of its parts that fly."""
    minted: dict[str, Of]
    """For each launching effect: is the part one of those that its latest firing made?"""
    begun: Term
    """Has any of them fired yet? Where none has, "all parts have landed" would be said of none."""


@dataclass(frozen=True)
class Move:
    """A step by its `name`: what is assumed (`given`), the world `after` it, and what is `owed` on the way, by name."""

    name: str
    given: tuple[Term, ...]
    after: World
    owed: tuple[tuple[str, Term], ...]
    commits: tuple[World, ...] = ()
    """The worlds in which it publishes blocks."""
    whole: bool = True
    """Does it end in a world of which all is to be shown? Not if all that is asked is whether a row answers."""


class Owners:
    """The world before a step, and what each step makes of it."""

    def __init__(self, spec: Spec, machine: str) -> None:
        z3 = self.z3 = import_z3()
        self.spec, self.name = spec, machine
        self.part, self.owner = Symbols(spec.machine("part")), Symbols(spec.machine(machine))
        parts = z3.DeclareSort("Part")
        self.p, self.q = z3.Consts("p q", parts)
        self.launching = [act.effect for act in spec.acts if act.machine == machine and act.act in MINTING]
        self.fresh = {effect: z3.Function(f"fresh_{effect}", parts, z3.BoolSort()) for effect in self.launching}
        self.before = World(
            self.owner.record("o"),
            z3.Function("state", parts, z3.IntSort()),
            z3.Int("N_flying"),
            {effect: z3.Function(f"minted_{effect}", parts, z3.BoolSort()) for effect in self.launching},
            z3.Bool("begun"),
        )
        self.ends = [state.name for state in self.owner.machine.states if state.home]

    # What is believed of every world

    def lemmas(self, world: World) -> list[tuple[str, Term]]:
        """`left` is the number of parts that fly, and the owner's own invariant holds."""
        return [
            ("left is not the number of its parts that fly", world.owner.env["left"] == world.flying),
            ("the invariant of the owner's state is broken", self.owner.within(world.owner)),
        ]

    def counting(self, world: World) -> list[Term]:
        """What is true of the number of parts that fly, as of that of any finite set."""
        z3 = self.z3
        flies = [world.state(part) == self.part.number[FLYING] for part in (self.p, self.q)]
        return [
            world.flying >= 0,
            *(z3.Implies(one, world.flying >= 1) for one in flies),
            z3.Implies(z3.And(*flies, self.p != self.q), world.flying >= 2),
        ]

    # What can happen

    def moves(self) -> Iterator[Move]:
        """A report on the part `p`, or any event of the owner that is not its parts' to fire."""
        events = {event.name: event.kind for event in self.part.machine.events}
        for source in self.part.machine.states:
            for row in self.part.machine.rows:
                if source.name in row.sources and any(events[event] == "report" for event in row.events):
                    yield from self.of_part(source.name, row)
        told = {link.event for link in self.spec.couplings if link.machine == "part" and link.target == self.name}
        for event in self.owner.machine.events:
            if event.name not in told:
                for row in self.owner.machine.rows:
                    if event.name in row.events:
                        given = (self.owner.answers(self.before.owner, row),)
                        yield self.of_row(f"{row.id} on {event.name}", self.before, row, given)

    def of_part(self, source: str, row: Row) -> Iterator[Move]:
        """The part `p` has heard a report, and tells its owner, if its row says so."""
        z3, before = self.z3, self.before
        given = (before.state(self.p) == self.part.number[source],)
        heard = self.with_part(before, source, row)
        links = [link for effect in row.effects for link in self.spec.couplings
                 if (link.machine, link.effect, link.target) == ("part", effect, self.name)]  # fmt: skip
        name = f"{row.id} from {source}"
        if len(links) != 1 or source != FLYING:
            owed = [("reaches its owner, twice or when it does not fly", z3.BoolVal(False))] if links else []
            yield Move(name, given, heard, tuple(owed))
            return
        rows = [row for row in self.owner.machine.rows if links[0].event in row.events]
        answered = z3.Or(*(self.owner.answers(heard.owner, one) for one in rows))
        yield Move(name, given, heard, ((f"{links[0].id} is refused by the owner", answered),), whole=False)
        for one in rows:
            answers = (*given, self.owner.answers(heard.owner, one))
            yield self.of_row(f"{name}, {one.id} on {links[0].event}", heard, one, answers)

    def with_part(self, world: World, source: str, row: Row) -> World:
        """The part `p` has made its row."""
        z3 = self.z3
        target = self.part.number[source if row.to is None else row.to]
        change = (target == self.part.number[FLYING]) - (source == FLYING)
        return replace(
            world,
            state=lambda x: z3.If(x == self.p, z3.IntVal(target), world.state(x)),
            flying=world.flying + change,
        )

    def of_row(self, name: str, world: World, row: Row, given: tuple[Term, ...]) -> Move:
        """The owner makes this row, and its effects happen, one after the other."""
        owed: list[tuple[str, Term]] = []
        commits: list[World] = []
        minted = [effect for effect in row.effects if effect in self.launching]
        assumed = [term for effect in minted for part in (self.p, self.q) for term in self.new(world, effect, part)]
        world = replace(world, owner=self.owner.after(world.owner, row))
        for effect in row.effects:
            if effect in self.launching:
                world = self.launched(world, effect)
            for link in self.spec.couplings:
                if (link.machine, link.effect) != (self.name, effect):
                    continue
                if link.target == "part":
                    world, faults = self.given_up(world, link.event)
                    owed += faults
                elif (link.target, link.event) in PUBLISHING:
                    commits.append(world)
        return Move(name, (*given, *assumed), world, tuple(owed), tuple(commits))

    def new(self, world: World, effect: str, part: Term) -> list[Term]:
        """What is assumed of a part that is minted at `effect`: it was not there before."""
        z3, fresh = self.z3, self.fresh[effect](part)
        known = z3.Or(*(minted(part) for minted in world.minted.values()))
        return [z3.Implies(fresh, z3.And(self.before.state(part) == self.part.number[NEW], z3.Not(known)))]

    def launched(self, world: World, effect: str) -> World:
        """`parts` new parts are launched."""
        z3, fresh = self.z3, self.fresh[effect]
        _, launched = self.part.fire(Record(z3.IntVal(self.part.number[NEW]), {}), "launch", z3.BoolVal(True))
        flies = launched.state == self.part.number[FLYING]
        return replace(
            world,
            state=lambda x: z3.If(fresh(x), launched.state, world.state(x)),
            flying=world.flying + z3.If(flies, world.owner.env["parts"], 0),
            minted={**world.minted, effect: fresh},
            begun=z3.BoolVal(True),
        )

    def given_up(self, world: World, event: str) -> tuple[World, list[tuple[str, Term]]]:
        """The owner fires `event` on each of its parts that fly, in the middle of its row."""
        z3 = self.z3
        flying = self.part.number[FLYING]
        answered, record = self.part.fire(Record(z3.IntVal(flying), {}), event, z3.BoolVal(True))
        faults = [(f"{event} is refused by a part that flies", answered)]
        for row in self.part.machine.cell(FLYING, event):
            back = [link.id for link in self.spec.couplings
                    if (link.machine, link.target) == ("part", self.name) and link.effect in row.effects]  # fmt: skip
            faults += [(f"{one} reaches the owner in the middle of its row", z3.BoolVal(False)) for one in back]
        return replace(
            world,
            state=lambda x: z3.If(world.state(x) == flying, record.state, world.state(x)),
            flying=z3.If(record.state == flying, world.flying, 0),
        ), faults

    # The lemmas that are searched

    def claims(self, world: World, part: Term, states: Iterable[str]) -> dict[str, Term]:
        """In a state, with a flag so, a part that some effect minted has landed, or flies or has landed; or some has
        been minted at all."""
        z3, env = self.z3, world.owner.env
        flags = [var.name for var in self.owner.machine.vars if var.type == "bool"]
        when = {"always": z3.BoolVal(True)}
        when |= {flag: env[flag] for flag in flags} | {f"not {flag}": z3.Not(env[flag]) for flag in flags}
        fine = {
            f"{effect} {' or '.join(names)}":
                z3.Implies(world.minted[effect](part), self.part.is_in(world.state(part), names))
            for effect, names in product(self.launching, ((LANDED,), (FLYING, LANDED)))
        }  # fmt: skip
        fine["begun"] = world.begun
        found: dict[str, Term] = {}
        for state, (flag, holds) in product(states, when.items()):
            here = z3.And(world.owner.state == self.owner.number[state], holds)
            found |= {f"{state}, {flag}: {words}": z3.Implies(here, term) for words, term in fine.items()}
        return found

    def searched(self) -> set[str]:
        """The candidates that are inductive together, with the lemmas given by hand."""
        z3, everywhere = self.z3, list(self.owner.number)
        state, flags = z3.Int("state'(q)"), {effect: z3.Bool(f"minted'_{effect}(q)") for effect in self.launching}
        then = World(
            self.owner.record("o'"),
            _always(state),
            z3.Int("N_flying'"),
            {effect: _always(flag) for effect, flag in flags.items()},
            z3.Bool("begun'"),
        )
        by_hand = [*(term for _, term in self.lemmas(self.before)), *self.counting(self.before)]
        steps = []
        for move in (move for move in self.moves() if move.whole):
            equal = [state == move.after.state(self.q), then.owner.same(move.after.owner)]
            equal += [then.begun == move.after.begun]
            equal += [flag == move.after.minted[effect](self.q) for effect, flag in flags.items()]
            steps.append([*move.given, *by_hand, *self.counting(move.after), *equal])
        birth = [self.owner.born(then.owner), z3.Not(then.begun), *(z3.Not(flag) for flag in flags.values())]
        before = [self.claims(self.before, part, everywhere) for part in (self.p, self.q)]
        return houdini(before, self.claims(then, self.q, everywhere), [birth], steps)


def _always(value: Term) -> Of:
    """What is the same of any part: only one is spoken of after a step."""
    return lambda _: value
