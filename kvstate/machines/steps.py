"""Compute steps, holds, reports, fences and the clock: everything that reaches parts from outside."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kvstate.errors import Code, properties_of
from kvstate.machines.books import Pool
from kvstate.machines.causes import STAGES
from kvstate.machines.config import ENGINE
from kvstate.machines.messages import NO_BLOCKS, NO_REFS, BlockRefs, Failure, Kind, Outcome, Report, Token
from kvstate.machines.ports import InvariantError
from kvstate.machines.records import Lease, Part
from kvstate.machines.sound import sound_report
from kvstate.machines.tables.block import BlockTable
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.foreign import ForeignTable
from kvstate.machines.tables.key import Event as K
from kvstate.machines.tables.offload import Event as O
from kvstate.machines.tables.part import Event as P
from kvstate.machines.tables.service import Event as S
from kvstate.machines.transfers import Transfers
from kvstate.machines.verdicts import Refusal


class Steps(Transfers):
    """The requests and reports of `Ledger` that are not about one lease's blocks; see there for what they promise."""

    __slots__ = ()

    # -- steps and holds -----------------------------------------------------------------------------------------------

    def step_dispatched(self, step: int, leases: Sequence[int]) -> bool | Refusal:
        """Write down who is out on the step: as a part without blocks, which adopts what these leases let go of."""
        books = self.books
        if step <= books.last_step:
            return Refusal(f"step {step} comes after step {books.last_step}; steps are numbered upwards")
        for number in leases:
            held = books.leases.get(number)
            if held is None:
                return Refusal(f"lease {number} is not open")
            if held.loads:
                return Refusal(f"lease {number} waits for a load; it can go out on a step after the verdict")
        part = self._touch(Kind.STEP, array("q"))  # an array of its own: what the step adopts is added to it
        books.last_step = step
        books.steps[step] = part.slot
        books.step_leases[part.slot] = list(dict.fromkeys(leases))
        for lease in books.step_leases[part.slot]:
            books.leases[lease].steps.append(part.slot)
        books.arm(books.now + books.config.step_for, "part", "timeout", part.slot)
        return True

    def step_retired(self, step: int) -> bool | Refusal:
        """Report the parts of this step and of those before it done."""
        books = self.books
        if step not in books.steps:
            return Refusal(f"step {step} is not under way")
        for number in [number for number in books.steps if number <= step]:
            self.hear(Report(books.parts[books.steps[number]].token, Outcome.DONE))
        return True

    def hold(self, lease: Lease, refs: BlockRefs, deadline: float) -> Token | Refusal:
        """A part that reads these blocks until its token is reported; after the deadline it is given up."""
        stranger = self.books.stranger(lease, refs)
        if stranger is None:
            stranger = next((ref for ref in refs if not self.ports.block.choose(ref.block, B.HOLD)), None)
        if stranger is not None:
            return Refusal(f"block {stranger.block} gen {stranger.generation} can't be held by lease {lease.id}")
        blocks = array("q", dict.fromkeys(refs.blocks))
        self.ports.block.each(blocks, B.HOLD)
        part = self._touch(Kind.HOLD, blocks)
        self.books.arm(deadline, "part", "timeout", part.slot)
        return part.token

    def _touch(self, kind: Kind, blocks: array[int]) -> Part:
        """A part without an owner: somebody but a copier touches these blocks."""
        books = self.books
        part = Part(
            books.parts.slot(), books.mint(), kind, 0, ENGINE, 1, None, blocks, NO_BLOCKS, NO_REFS, (), books.now
        )
        books.enter_part(part)
        self.ports.part.signal(part.slot, P.LAUNCH)
        return part

    # -- reports -------------------------------------------------------------------------------------------------------

    def report(self, report: Report) -> None:
        """Hear a report, or count it: as unknown if its token was never minted, as stale if its part is over.

        Errors: `InvariantError` for a failure whose code is fatal, of whatever part.
        """
        books = self.books
        heard = sound_report(report)
        life = books.config.incarnation
        if heard is None or heard.token.incarnation > life or heard.token.serial < 1:
            books.unknown += 1
            return
        incarnation, serial = heard.token
        if incarnation == life and serial > books.serial:
            books.unknown += 1
            return
        if incarnation < life or serial not in books.tokens:
            books.stale += 1
            return
        if books.parts[books.tokens[serial]].kind is Kind.STEP:  # never sent down: no worker was given this token
            books.unknown += 1
            return
        for failure in heard.failures:
            if properties_of(failure.code).fatal:
                reason = failure.message or failure.raw or "no reason was given"
                raise InvariantError("device", f"{Code(failure.code).name}, nothing is freed: {reason}")
        self.hear(heard)

    def fenced(self, rank: int, copier: str, serial: int) -> int:
        """Feed `cancelled` to what is flying or lost; a part that is settled has nothing left to prove."""
        books = self.books
        home = books.parts.table.HOME
        over = [
            part
            for part in books.parts.live()
            if part.rank == rank
            and part.copier == copier
            and part.token.serial <= serial
            and books.parts_state[part.slot] not in home
        ]
        for part in sorted(over, key=lambda part: part.token):
            fenced = Failure(-1, Code.CANCELLED, STAGES.get(part.kind, "fetch"), message="fenced")
            self.hear(Report(part.token, Outcome.CANCELLED, (fenced,)))
        return len(over)

    # -- the clock -----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Fire what is due, the longest due first; each is run to its end, so the next one sees what came of it."""
        books = self.books
        books.now = max(books.now, now)
        while (timer := books.due(books.now)) is not None:
            port = self.ports.ports[timer.machine]
            if timer.machine == "part":
                self.hear(Report(books.parts[timer.slot].token, Outcome.TIMEOUT))
            else:
                port.signal(timer.slot, port.events[timer.event])
            self.conclude()

    # -- the whole -----------------------------------------------------------------------------------------------------

    def cancel(self, number: int) -> bool | Refusal:
        """Call off what has this number: jobs and loads share one row of numbers."""
        books = self.books
        if number in books.job_ids:
            return self.cancel_job(books.jobs[books.job_ids[number]]) or Refusal(f"job {number} is ending already")
        if number in books.load_ids:
            load = books.loads[books.load_ids[number]]
            return self.cancel_load(load) or Refusal(f"load {number} is ending already")
        return Refusal(f"{number} is no job and no load that is under way")

    def forget(self) -> int:
        """Drop all keys and call the jobs off; loads under way go on, and their blocks stay private."""
        books = self.books
        books.epoch += 1
        dropped = 0
        # By block, so that the order does not depend on which slots the keys happen to have.
        slots = sorted((name.pool, books.keys.blocks[slot], slot) for slot, name in books.keys.names())
        for _, _, slot in slots:
            dropped += self.ports.key.ask(slot, K.RESET)
        for slot in tuple(books.job_ids.values()):
            self.ports.job.ask(slot, O.CANCEL)
        books.loading.clear()
        books.pending_since.clear()
        return dropped

    def drain(self) -> bool | Refusal:
        """Admit no new work and call the jobs off; what is called off still has to end."""
        if not self.ports.service.ask(0, S.DRAIN):
            return Refusal(f"the ledger is {self.ports.service.state_of(0)} already")
        for slot in tuple(self.books.job_ids.values()):
            self.ports.job.ask(slot, O.CANCEL)
        return True

    def shut(self) -> bool | Refusal:
        """Close; refused with the first few things that are not at rest."""
        left = self.rest()
        if left:
            return Refusal("not at rest: " + "; ".join(left[:5]))
        return self.ports.service.ask(0, S.SHUT) or Refusal("only a drained ledger can be shut; drain it first")

    def pools_hold(self) -> list[str]:
        """What each pool holds, a sentence each."""
        return [
            f"{pool.config.name} holds "
            + ", ".join(f"{count} {state}" for state, count in zip(_states(pool), pool.counts, strict=True) if count)
            for pool in self.books.pools
        ]

    def rest(self) -> list[str]:
        """What is not at rest, a sentence each: leases, jobs, loads, and parts whose copy is not proved over."""
        books = self.books
        parts = [part for part in books.parts.live() if books.parts_state[part.slot] not in books.parts.table.HOME]
        return [
            *(f"lease {lease} is open" for lease in books.leases),
            *(f"job {job} is {self.ports.job.state_of(slot)}" for job, slot in books.job_ids.items()),
            *(f"load {load} is {self.ports.load.state_of(slot)}" for load, slot in books.load_ids.items()),
            *(f"{part.kind} part {part.token.serial} is {self.ports.part.state_of(part.slot)}" for part in parts),
        ]


def _states(pool: Pool) -> tuple[str, ...]:
    return (ForeignTable if pool.config.foreign else BlockTable).STATES
