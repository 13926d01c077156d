"""All that can happen next, and how it happens.

A move is a tuple of words and small numbers and names nothing by a number of the ledger's: copies are counted from the
oldest one that is not over, requests from the first of the scope. So a sequence of moves can be played again anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kvstate.explore import requests
from kvstate.explore.form import Former
from kvstate.explore.keep import Keeper
from kvstate.explore.matter import EMPTY, JUNK, Flight, LawBroken, Run
from kvstate.explore.requests import OPERATIONS, Scene
from kvstate.explore.scopes import Request, Scope
from kvstate.explore.stage import Rules, begun
from kvstate.explore.world import World
from kvstate.machines.audit import audit
from kvstate.machines.keybook import NONE
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Kind, Outcome
from kvstate.machines.ranks import rank_lost
from kvstate.testing.world import COPIER

Move = tuple[Any, ...]
"""A word, then what it is about."""
WORLD = frozenset({"land", "deliver", "land-step", "retire", "tick", "fence"})
"""Moves of hardware and clock, which nobody asks for."""
CODES = {"failed": "", "denied": "PERMISSION_DENIED", "broken": "CRC_MISMATCH", "timeout": "", "cancelled": ""}
"""What a scenario says beside the outcome."""


class System:
    """The ledger of a scope and the world around it, and the moves of both."""

    def __init__(self, scope: Scope, rules: Rules) -> None:
        requests.check_known(list(scope.requests))
        self.scope = scope
        self.ledger: Ledger
        self.world: World
        self.ledger, self.world, self.names, self.opening = begun(scope, rules)
        self.keeper = Keeper(self.ledger)
        self.former = Former(self.ledger.books)
        self.fresh = self.save() if scope.restarts else b""
        self.said: Callable[[list[str]], None] | None = None

    def save(self) -> bytes:
        """Ledger and world as they are."""
        return self.keeper.save(self.world)

    def restore(self, saved: bytes) -> None:
        """Ledger and world as they were."""
        self.world = self.keeper.restore(saved)

    def digest(self) -> bytes:
        """The same in states that behave alike."""
        return self.former.digest(self.world)

    # -- what can happen -----------------------------------------------------------------------------------------------

    def moves(self) -> list[Move]:
        """Every move that the scope allows now."""
        return [*self._requests(), *self._copies(), *self._steps(), *self._rest()]

    def _requests(self) -> Iterator[Move]:
        for number, (request, run) in enumerate(zip(self.scope.requests, self.world.runs, strict=True)):
            if not run.lease:
                if run.lives:
                    yield ("open", number)
                continue
            yield from (("end", number, verb) for verb in request.ends)
            if not run.load and run.at < len(request.program):
                yield ("go", number)
            yield from self._thefts(number, request, run)

    def _thefts(self, number: int, request: Request, run: Run) -> Iterator[Move]:
        """What an engine does with its blocks against its word."""
        allocator = self.world.allocator
        takes = request.program[run.at : run.at + 1] == ("take",)
        if allocator.steals and takes and None in (run.refs or [None]):
            yield from (("steal", number, block) for block in allocator.prey(number))

    def _copies(self) -> Iterator[Move]:
        for place, serial in enumerate(sorted(self.world.flights)):
            flight = self.world.flights[serial]
            may_land = flight.work.after_step not in self.world.steps
            check = flight.work.kind == Kind.VERIFY
            if may_land and not flight.landed and not check:
                yield ("land", place)
            if flight.landed or check:
                yield ("deliver", place, "")
            yield from (("deliver", place, outcome) for outcome in self.scope.fails if _plausible(flight, outcome))

    def _steps(self) -> Iterator[Move]:
        steps = self.world.steps
        for place, number in enumerate(sorted(steps)):
            if not steps[number].landed:
                yield ("land-step", place)
            elif place == 0:
                yield ("retire",)

    def _rest(self) -> Iterator[Move]:
        world = self.world
        if self.ledger.next_timer() is not None:
            yield ("tick",)
        if self.scope.fences and world.flights:
            yield ("fence",)
        if world.resets:
            yield ("reset",)
        if world.drains:
            yield ("drain",)
        if world.deaths:
            yield from (("lose", rank) for rank in range(world.ranks))
        if world.restarts:
            yield ("restart",)
        if world.corrupt:
            yield from (("corrupt", key) for key in sorted(self._stored()))
        if world.news:
            yield from world.others.moves(sorted({key for request in self.scope.requests for key in request.keys}))
        if world.cancels:
            yield from (("cancel", "job", place) for place in range(len(world.jobs)))
            yield from (("cancel", "load", place) for place, load in enumerate(world.loads.values()) if not load.told)

    def _stored(self) -> dict[str, int]:
        """Keys in the pools below the device, and the block of each."""
        keys = self.ledger.books.keys
        return {
            name.key.decode(): keys.blocks[slot]
            for slot, name in keys.names()
            if name.pool and keys.blocks[slot] != NONE
        }

    # -- how it happens ------------------------------------------------------------------------------------------------

    def do(self, move: Move) -> None:
        """Make a move. `said` is told the commands of a scenario that do the same. Errors: `LawBroken`."""
        verb, *rest = move
        lines: list[str] = getattr(self, "_" + verb.replace("-", "_"))(*rest)
        if self.said is not None and lines:
            self.said(lines)
        self.world.harvest(self.ledger)
        if self.ledger.fatal is not None:
            raise LawBroken(f"fatal {self.ledger.fatal.law}: {self.ledger.fatal.sentence}")

    def look(self) -> None:
        """Errors: `LawBroken` for what is broken in this state, though no move was refused."""
        for sentence in (*audit(self.ledger), *self.world.look(self.ledger.books)):
            raise LawBroken(sentence)

    def _scene(self) -> Scene:
        return Scene(self.ledger, self.world, self.names)

    def _open(self, number: int) -> list[str]:
        return requests.open_(self._scene(), self.scope.requests[number], self.world.runs[number])

    def _end(self, number: int, verb: str) -> list[str]:
        return requests.close(self._scene(), self.scope.requests[number], self.world.runs[number], verb)

    def _go(self, number: int) -> list[str]:
        request, run = self.scope.requests[number], self.world.runs[number]
        return OPERATIONS[request.program[run.at]](self._scene(), request, run)

    def _steal(self, number: int, block: int) -> list[str]:
        return requests.steal(self._scene(), self.scope.requests[number], self.world.runs[number], block)

    def _land(self, place: int) -> list[str]:
        serial = sorted(self.world.flights)[place]
        self.world.land(self.world.flights[serial])
        return [f"land t{serial}"]

    def _deliver(self, place: int, outcome: str) -> list[str]:
        serial = sorted(self.world.flights)[place]
        flight = self.world.flights[serial]
        lines = [f"deliver t{serial} {outcome} {CODES.get(outcome, '')}".rstrip()]
        if not outcome and flight.work.kind == Kind.VERIFY:
            lines = [f"land t{serial}", *lines]
        report = self.world.blame(flight, outcome) if outcome else self.world.truth(flight)
        self.world.others.sayings.heard(report)
        if outcome == Outcome.TIMEOUT:
            flight.silent = True
        else:
            self.world.end(serial)
            if report.outcome != Outcome.DONE and flight.work.kind == Kind.PERSIST:
                self.world.objects.undo(flight.work)  # who says that it failed leaves nothing
        self.ledger.report(report)
        if report.outcome == Outcome.BROKEN and self.world.allocator.overtaken(self.world, flight):
            self.world.allocator.wrong += self.world.allocator.condemned(self.ledger.books, flight)
        return lines

    def _land_step(self, place: int) -> list[str]:
        number = sorted(self.world.steps)[place]
        step = self.world.steps[number]
        step.landed = True
        for block, _, key in step.writes:
            self.world.put(block, key)
        return [f"land step {number}"]

    def _retire(self) -> list[str]:
        number = min(self.world.steps)
        del self.world.steps[number]
        self.ledger.step_retired(number)
        return [f"retire {number}"]

    def _tick(self) -> list[str]:
        when = self.ledger.next_timer()
        passed = 0.0 if when is None else round(when - self.ledger.books.now, 6)
        if when is not None:
            self.world.others.sayings.passed(when)
            self.ledger.tick(when)
        return [f"tick {passed:g}"]

    def _fence(self) -> list[str]:
        self.fence()
        return ["fence"]

    def fence(self) -> None:
        """Everything that was sent down is proved over."""
        for serial in sorted(self.world.flights):
            self.world.end(serial)
        for rank in range(self.world.ranks):
            self.ledger.fenced(rank, COPIER, self.ledger.books.serial)

    def _reset(self) -> list[str]:
        self.world.resets -= 1
        self.world.objects.expire(self.ledger.books.serial)
        self.world.others.sayings.reset()
        self.ledger.reset()
        return ["reset"]

    def _drain(self) -> list[str]:
        self.world.drains -= 1
        self.world.others.sayings.called_off()
        self.ledger.drain()
        return ["drain"]

    def _lose(self, rank: int) -> list[str]:
        """The process of a rank is gone: its pieces of all blocks, its copies, and what `rank_lost` gives up."""
        world = self.world
        world.deaths -= 1
        blocks = len(world.tenants)
        world.contents[rank * blocks : (rank + 1) * blocks] = [EMPTY] * blocks
        for serial in sorted(serial for serial, flight in world.flights.items() if flight.work.rank == rank):
            world.end(serial)
        rank_lost(self.ledger, rank)
        for run in world.runs:
            if run.lease and run.lease not in self.ledger.books.leases:
                run.over()
        return [f"lose {rank}"]

    def _restart(self) -> list[str]:
        """The process is killed, and another takes in what it finds."""
        self.keeper.restore(self.fresh)
        self.world.restart()
        self.ledger.recover(len(self.ledger.books.pools) - 1, self.world.objects.found())
        return ["restart", "recover"]

    def _others(self, verb: str, key: str) -> list[str]:
        self.world.news -= 1
        return self.world.others.do(self.ledger, verb, key)

    def _corrupt(self, key: str) -> list[str]:
        self.world.corrupt -= 1
        block = self._stored()[key]
        self.world.put(block, JUNK)
        return [f"corrupt {self.names[block]}"]

    def _cancel(self, what: str, place: int) -> list[str]:
        self.world.cancels -= 1
        numbers: Sequence[int] = self.world.jobs if what == "job" else list(self.world.loads)
        self.ledger.cancel(numbers[place])
        return [f"cancel {what} {numbers[place]}"]


def _plausible(flight: Flight, outcome: str) -> bool:
    """Only a fetch finds bad bytes by itself, as a check does by looking; what was not asked to stop does not."""
    match outcome:
        case "broken":
            return flight.work.kind == Kind.FETCH
        case "cancelled":
            return flight.asked
        case "timeout":
            return not flight.silent
        case _:
            return True
