"""The world with three pools, the last of which outlives the process: kill, start again, recover.

Objects are stored from the device and, block by block, from the host (a demotion); they are loaded, go bad, are
evicted, undone, and swept when the cache is reset. The process may be killed in the middle of anything: the ledger is
thrown away, and a new one takes in what the disks hold. With two ranks one of them may be lost alone.

The world knows by hidden numbers which object is which, and by its own count of resets what bytes are of today. So it
sees an object of before a reset that comes back, an object that is gone under a key that is a hit, and one that is
under another's name.
"""

from __future__ import annotations

from kvstate.machines.messages import Adopt, Kind, Outcome, Report, Sweep, Undo, Work
from kvstate.machines.ranks import RankLost, rank_lost
from kvstate.machines.verdicts import Hit, Recovered, Stored
from tests.stateful.base import Bytes, Content, Flight, Junk, Poison, Scope, Tier
from tests.stateful.disk import Disk, Name
from tests.stateful.requests import HOLD
from tests.stateful.world import World

DISK = Tier(5, durable=True, verify=False, copier="disk")
"""What is fetched from there is checked on the way, so no other check follows."""
DURABLE_SCOPES = {
    "a disk": Scope(device=6, tiers=(Tier(4), DISK), keys=7),
    "a small disk": Scope(
        device=4, tiers=(Tier(3), DISK._replace(blocks=2)), part_blocks=2, max_jobs=2, keys=5, longest=3
    ),
    "a disk on two ranks": Scope(device=6, tiers=(Tier(4), DISK), ranks=2, part_blocks=2, attempts=3, keys=6),
    "a disk alone": Scope(device=5, tiers=(DISK,), keys=6),
}
"""In the last there is no host pool between the two."""
PERSISTS = ("arrive", "start", "compute", "retire", "store", "land", "deliver")
"""Begins a store, and leaves it, where it is one into the disk, when it is being made durable."""


class DurableWorld(World):
    """See the module."""

    QUESTIONS = (*World.QUESTIONS, "objects_true", "bound")  # type: ignore[assignment]
    disks: list[Disk]
    """By rank."""
    things = 0
    """How many objects were made."""
    recovered = 0
    """How many were taken in by a ledger."""
    kills = 0
    loaded = 0
    """How many blocks were fetched from a disk, and were good."""
    demoted = 0
    """How many jobs went from the host pool to the disk."""
    swept = 0
    """How many objects were removed because their bytes are of a day that is over."""

    def begin(self, incarnation: int) -> None:
        if incarnation == 1:
            self.disks = [Disk() for _ in range(self.scope.ranks)]
            self.found_bad: set[int] = set()
            """Hidden numbers of the objects that a fetch has found bad, in this process or before."""
        epoch = getattr(self, "epoch", 0)
        self.voided: set[int] = set()
        """Hidden numbers of the persists that a sweep has made void."""
        super().begin(incarnation)
        self.epoch = epoch  # weights, and what is on a disk, know of no process
        self.take_in()

    @property
    def pool(self) -> int:
        """The durable pool, which is the last."""
        return len(self.scope.tiers)

    def on_disk(self, block: int) -> bool:
        return block >= self.scope.total - self.scope.tiers[-1].blocks

    @classmethod
    def moves(cls, mix: str) -> dict[str, int]:
        return {**super().moves(mix), "demote": 8, "make_durable": 2, "die": 3, "lose_rank": 2}

    # -- a start, and an end -------------------------------------------------------------------------------------------

    def take_in(self) -> None:
        """What is on the disk of every rank is told to the ledger, the oldest first."""
        first, *others = self.disks
        found = [name for name in first.scan() if all(name in disk.things for disk in others)]
        taken = self.ledger.recover(self.pool, found)
        assert isinstance(taken, Recovered), f"L9.recovered: nothing was taken in: {taken}"
        self.recovered += len(taken.refs)
        room = self.scope.tiers[-1].blocks
        assert self.flights or len(taken.refs) == min(len(found), room), (
            f"L9.recovered: of {len(found)} objects {len(taken.refs)} were taken in, and there is room for {room}"
        )

    def begin_again(self) -> None:
        for disk in self.disks:
            disk.restart()
        super().begin_again()

    def die(self) -> None:
        """The process is killed in the middle of everything, and another begins."""
        if self.dice.chance(60):
            self.kills += 1
            self.begin_again()

    def lose_rank(self) -> None:
        """The worker of one rank is killed, and replaced: objects stay, memory and copies do not."""
        if self.scope.ranks == 1 or self.shutting or not self.dice.chance(40):
            return
        rank = self.dice.below(self.scope.ranks)
        self.kills += 1
        for flight in [f for f in (*self.flights, *self.waiting) if f.work.rank == rank and f.work.kind != HOLD]:
            (self.flights if flight in self.flights else self.waiting).remove(flight)
            self.past.append(flight.work.token)
            self.note_fenced(flight)
        self.preempted, self.requests = [*self.preempted, *self.requests][-4:], []
        self.disks[rank].restart()
        for block in range(self.scope.total):
            self.write(rank, block, Poison(block, self.ledger.books.generation[block]))
        assert isinstance(rank_lost(self.ledger, rank), RankLost)
        self.all_forgotten()
        self.take_in()

    def tended(self, effect: Adopt | Sweep) -> None:
        """What a start or a reset says of the objects."""
        disk = self.disks[effect.rank]
        if isinstance(effect, Adopt):
            for slot, *name in zip(effect.blocks, effect.spaces, effect.keys, strict=True):
                disk.adopt(slot, tuple(name), self.newest_sent)  # type: ignore[arg-type]
            return
        self.swept += len(disk.things) if effect.everything else 0
        disk.sweep(self.newest_sent, everything=effect.everything)
        if effect.everything:
            self.objects &= {
                thing.maker for other in self.disks for thing in other.things.values() if thing.maker is not None
            }

    def make_durable(self) -> None:
        """See `PERSISTS`."""
        for name in PERSISTS:
            getattr(self, name)()
            self.check()

    # -- from tier to tier ---------------------------------------------------------------------------------------------

    def demote(self) -> None:
        """What a lookup finds in the host pool is to be stored on the disk."""
        request = self.pick([r for r in self.requests if r.hit is None])
        hit = self.look_up(request) if request is not None else None
        if request is None or not isinstance(hit, Hit) or hit.pending:
            return
        pools = self.ledger.books.pool_of
        refs = [hit.blocks[line] for line in hit.below if 0 < pools[hit.blocks[line].block] < self.pool]
        stored = self.ledger.offload(request.lease, refs, pool=self.pool, deadline=self.now + 5.0) if refs else None
        if isinstance(stored, Stored):
            self.demoted += 1
            self.jobs.add(stored.job)
        assert self.ledger.unpin(hit)

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def name_of(self, work: Work, line: int) -> Name:
        return work.space(line), work.keys[line]

    def copy(self, flight: Flight, line: int) -> None:
        work = flight.work
        disk, src, dst = self.disks[work.rank], work.src[line], work.dst[line]
        if self.on_disk(dst):
            disk.store(dst, self.found(work.rank, src))
        elif not self.on_disk(src):
            super().copy(flight, line)
        else:
            has = disk.slots.get(src)
            thing = disk.things.get(has) if has is not None else None
            content = disk.fetch(src, self.name_of(work, line))
            if content is not None:
                self.loaded += 1
                self.write(work.rank, dst, content)
            else:
                flight.bad += (line,)
                self.found_bad |= {thing.hidden} if thing is not None else set()

    def land_lines(self, flight: Flight, count: int) -> None:
        work, first = flight.work, flight.landed
        for line in range(first, first + count) if work.kind == Kind.PERSIST else ():
            self.things += 1
            if not self.disks[work.rank].persist(work.src[line], self.name_of(work, line), work.token, self.things):
                self.voided.add(flight.hidden)
        super().land_lines(flight, count)
        if flight.hidden in self.voided:
            self.objects.discard(work.token)

    def answer(self, flight: Flight) -> None:
        if flight.hidden in self.voided:
            self.send(flight, Report(flight.work.token, Outcome.CANCELLED))
        else:
            super().answer(flight)

    def send(self, flight: Flight, report: Report) -> None:
        """A persist that has failed leaves nothing behind."""
        work = flight.work
        if work.kind == Kind.PERSIST and report.outcome not in (Outcome.DONE, Outcome.TIMEOUT):
            self.disks[work.rank].undo(work.token, [self.name_of(work, line) for line in range(len(work.keys))])
        super().send(flight, report)

    def undone(self, undo: Undo) -> None:
        super().undone(undo)
        disk = self.disks[undo.rank]
        disk.undo(undo.token, [name for name in disk.things if name[1] in undo.keys])

    def found(self, rank: int, block: int) -> Bytes:
        if not self.on_disk(block):
            return super().found(rank, block)
        held = self.disks[rank].holds(block)
        return Poison(block, -1) if held is None else held

    def write(self, rank: int, block: int, content: Bytes) -> None:
        """A block that begins another life keeps its object, until a store begins there."""
        super().write(rank, block, content)
        if self.on_disk(block) and isinstance(content, Junk):
            self.disks[rank].spoil(block, content)

    def verified(self, block: int) -> bool:
        return self.on_disk(block) or super().verified(block)

    # -- what must be true ---------------------------------------------------------------------------------------------

    def objects_true(self) -> None:
        """L9: every object that can be found holds the bytes of its name, and of today."""
        for rank, disk in enumerate(self.disks):
            for (space, key), thing in disk.things.items():
                assert thing.hidden not in self.found_bad, (
                    f"L5.bad_keys: on rank {rank} the object {key!r} of {space} was found bad and can be found again"
                )
                assert isinstance(thing.content, Junk) or thing.content == Content(space, key, self.epoch), (
                    f"L9.swept: on rank {rank} the object {key!r} of {space} holds {thing.content} in {self.epoch}"
                )

    def bound(self) -> None:
        """L8: there are no more objects than slots, and no slot has two."""
        for rank, disk in enumerate(self.disks):
            assert len(disk.things) <= self.scope.tiers[-1].blocks, f"L8.bound: rank {rank} keeps {disk.things.keys()}"
