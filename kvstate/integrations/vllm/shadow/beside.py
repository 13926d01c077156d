"""kvstate's machines beside vLLM's scheduler: what it was seen to do is played to them, and a refusal is a finding.

* A device block has a new *life* when vLLM gives it to a request for what is computed or loaded, and not when it is
  found in the prefix cache: the bytes are the same then. That vLLM has freed it in between means nothing: its free
  blocks are its cache. What matters is whether a copy still touches it when the next life begins.
* A job is a part, the *copy* here: it touches device blocks and host slots until it was reported by every rank, or
  until a *wait* for it: vLLM lets its workers wait for a store whose blocks were given away before they compute.
* A host slot is a block of ours: filled, committed, found by loads, evicted when the next store takes it.

Nothing here knows vLLM's classes, threads or a clock; times come with what is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kvstate.integrations.vllm.shadow import machines
from kvstate.integrations.vllm.shadow.copies import Copy
from kvstate.integrations.vllm.shadow.kinds import Kind, Violation
from kvstate.integrations.vllm.shadow.record import Ring
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.foreign import Event as F
from kvstate.machines.tables.part import Event as P

STEPS: Final = 8
"""A job is overdue only if the engine has made so many steps since it began: an engine that was paused is not late."""
LOST: Final = 1000
"""So many jobs without an end are remembered."""


class Beside:
    """See the module. Errors: `ShadowError` where what was seen can't have been."""

    def __init__(self, told: Callable[[Violation], None], ring: Ring, *, deadline: float, blocks: int) -> None:
        self.told = told
        """Hears of each violation."""
        self.ring = ring
        """Keeps what happens."""
        self.deadline = deadline
        """Seconds that a job may take."""
        self.foreign, self.host, self.parts = machines.foreign(ring), machines.host(ring, blocks), machines.Parts(ring)
        self.copies: dict[int, Copy] = {}
        """Jobs that were not reported by every rank, the oldest first."""
        self.highest = -1
        """The highest number that a job had."""
        self.forgiven = -1
        """Nothing is known of jobs up to this number."""
        self.blind = False
        """Something was missed, so a slot that was never filled may have been."""
        self.adopted = 0
        """Device blocks that were stored and of which nobody was seen to be given them."""
        self.steps = 0
        """Steps that were seen."""
        self.epoch = 0
        """Resets that were seen."""
        self._put_off: dict[str, float] = {}

    def found(self, kind: Kind, sentence: str) -> None:
        """A law was broken."""
        self.told(Violation(kind, sentence, self.ring.now))

    # -- blocks of the device ------------------------------------------------------------------------------------------

    def given(self, blocks: Iterable[int], request: str) -> None:
        """vLLM gives these blocks to a request, for new bytes. Block 0 stands for none."""
        foreign = self.foreign
        for block in blocks:
            if block:
                foreign.must(block, F.ALLOCATED)
                if foreign.table.readers[block] or foreign.table.writers[block]:
                    self._given_away(block, request)

    def _given_away(self, block: int, request: str) -> None:
        for copy in self.copies.values():
            if block in copy.device and not copy.over:
                self.parts.must(copy.part, P.TAINT, copy.number)
                what = "which has no end yet" if not copy.late else "which was given up"
                self.found(Kind.GIVEN_AWAY, f"foreign {block} is given to request {request} under {copy}, {what}")

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def began(self, copy: Copy) -> None:
        """vLLM's scheduler has made a job."""
        copy.part, copy.step, copy.epoch, copy.began = self.parts.born(), self.steps, self.epoch, self.ring.now
        self.highest = max(self.highest, copy.number)
        self.copies[copy.number] = copy
        slots = [slot + self.host.base for slot in copy.host]
        src, dst = (copy.device, slots) if copy.store else (slots, copy.device)
        kind = "store" if copy.store else "fetch"
        self.ring.say(out=kind, token=[0, copy.number], src=list(src), dst=list(dst), request=copy.request)
        self.parts.must(copy.part, P.LAUNCH, copy.number)
        device, host = self._once(copy, copy.device, "device block"), self._once(copy, copy.host, "host slot")
        if copy.store:
            copy.device = [block for block in device if self._held(copy, block)]
            copy.host = [slot for slot in host if self._taken(copy, slot)]
        else:
            copy.host = [slot for slot in host if self._pinned(copy, slot)]
            copy.device = [block for block in device if self._filled(block)]

    def _once(self, copy: Copy, numbers: Sequence[int], what: str) -> list[int]:
        """These without what is listed again, which is told, and without vLLM's block that stands for none."""
        once = dict.fromkeys(numbers)
        if len(once) != len(numbers):
            again = next(number for place, number in enumerate(numbers) if number in numbers[:place])
            self.found(Kind.LISTED_TWICE, f"part {copy.number} is {copy}, and lists {what} {again} twice")
        if what == "device block":
            once.pop(0, None)
        return list(once)

    def _held(self, copy: Copy, block: int) -> bool:
        """A store holds a block to read from."""
        if self.foreign.state(block) == "outside":
            self.adopted += 1
            self.foreign.must(block, F.ALLOCATED)
        if self.foreign.ask(block, F.STORE):
            return True
        self.found(Kind.UNFIT_SOURCE, f"foreign {block} is {self._why(block)}, and {copy} stores it")
        return False

    def _why(self, block: int) -> str:
        state = self.foreign.state(block)
        return "stained by a copy of an earlier life" if state == "owned" else state

    def _taken(self, copy: Copy, slot: int) -> bool:
        """A store takes a host slot to fill it; what was cached there is evicted."""
        host = self.host
        if host.state(slot) == "cached":
            host.ask(slot, B.EVICT)
        if host.ask(slot, B.RESERVE) and host.ask(slot, B.CLAIM) and host.ask(slot, B.WRITE_BEGIN):
            return True
        self.found(Kind.SLOT_REUSED, f"block {slot + host.base} is {host.state(slot)}, and {copy} takes it")
        return False

    def _pinned(self, copy: Copy, slot: int) -> bool:
        """A load reads from a host slot."""
        host = self.host
        if self.blind and host.state(slot) == "free":
            for event in (B.RESERVE, B.SEAL, B.PUBLISH, B.RELEASE):
                host.must(slot, event)
        if host.ask(slot, B.SHARE) and host.ask(slot, B.READ_BEGIN):
            return True
        self.found(Kind.NOT_COMMITTED, f"block {slot + host.base} is {host.state(slot)}, and {copy} reads it")
        return False

    def _filled(self, block: int) -> bool:
        """A load fills a device block, which was given for that just now. If another copy is there, that was told."""
        return self.foreign.ask(block, F.CLAIM) and self.foreign.ask(block, F.WRITE_BEGIN)

    def waited(self, numbers: Iterable[int]) -> None:
        """The workers wait for these jobs before they compute or begin another one."""
        for number in numbers:
            copy = self.copies.get(number)
            if copy is not None and not copy.over:
                self.ring.say(**{"in": "fenced", "token": [0, number]})
                self._over(copy)

    def ended(self, number: int, ranks: int) -> None:
        """So many more ranks report that the job is completed."""
        self.ring.say(**{"in": "report", "token": [0, number], "outcome": "done", "failures": [], "ranks": ranks})
        copy = self.copies.get(number)
        if copy is None:
            if number > self.highest:
                self.found(Kind.UNKNOWN_REPORT, f"part {number} is unknown, and is reported as completed")
            elif number > self.forgiven:
                self.found(Kind.SECOND_REPORT, f"part {number} is over, and is reported as completed again")
            return
        copy.left -= ranks
        if copy.left > 0:
            return
        if copy.left < 0:
            self.found(Kind.SECOND_REPORT, f"part {number} is reported as completed more often than there are ranks")
        if not copy.over:
            self._over(copy)
        if copy.store:
            self._stored(copy)
        del self.copies[number]
        self.parts.leave(copy.part)

    def _over(self, copy: Copy) -> None:
        """The copy touches nothing any more."""
        copy.over = True
        self.parts.must(copy.part, P.DONE, copy.number)
        fit = self.parts.state(copy.part) in ("landed", "gone") and not self.parts.table.tainted[copy.part]
        if copy.store:
            for block in copy.device:
                self.foreign.must(block, F.READ_LATE if copy.late else F.READ_END)
            for slot in copy.host:
                self.host.must(slot, B.WRITE_LATE if copy.late else B.WRITE_END)
            return
        for slot in copy.host:
            self.host.must(slot, B.READ_LATE if copy.late else B.READ_END)
            self.host.must(slot, B.RELEASE)
        for block in copy.device:
            self.foreign.must(block, F.WRITE_LATE if copy.late else F.WRITE_END)
            self.foreign.must(block, F.COMMIT if fit else F.RELEASE)

    def _stored(self, copy: Copy) -> None:
        """vLLM lets its keys be found. Where they hold another's bytes they are none here: who loads them is told."""
        if copy.epoch == self.epoch:
            fit = not self.parts.table.tainted[copy.part]
            for slot in copy.host:
                for event in (B.COMMIT, B.PUBLISH, B.RELEASE) if fit else (B.RELEASE,):
                    self.host.must(slot, event)

    # -- the rest ------------------------------------------------------------------------------------------------------

    def stepped(self, began: Iterable[str], gone: Iterable[str]) -> None:
        """A step was scheduled; these requests are in one for the first time, and these are no more."""
        self.steps += 1
        if self._put_off:
            for name in (*began, *gone):
                self._put_off.pop(name, None)
        names = set(gone)
        if names:
            for copy in self.copies.values():
                if not copy.store and not copy.gone and copy.request in names:
                    copy.gone = True
                    if copy.late:
                        self._left_behind(copy)

    def reset(self) -> None:
        """Everything in the host pool was forgotten, also under copies."""
        self.epoch += 1
        self.ring.say(**{"in": "reset"})
        for slot in range(self.host.count()):
            match self.host.state(slot):
                case "cached" | "active":
                    self.host.must(slot, B.UNPUBLISH)
                case "loading":
                    self.host.must(slot, B.RELEASE)

    def put_off(self, request: str, still: bool) -> None:
        """A lookup of the request had no answer yet; or, not `still`, has one now."""
        if not still:
            self._put_off.pop(request, None)
            return
        since = self._put_off.setdefault(request, self.ring.now)
        if self.ring.now - since > self.deadline:
            self._put_off[request] = float("inf")
            seconds = self.ring.now - since
            self.found(Kind.PUT_OFF, f"request {request} is put off by its lookups for {seconds:.1f} s")

    def raised(self, hook: str, error: str) -> None:
        """An exception has left a hook of the stock connector."""
        self.ring.say(**{"in": "raised", "hook": hook, "error": error})
        self.found(Kind.RAISED, f"{hook} raised {error}")

    def tick(self, now: float) -> None:
        """It is this time: jobs that take too long are given up."""
        self.ring.at(now)
        for copy in list(self.copies.values()):
            if now - copy.began <= self.deadline or self.steps - copy.step < STEPS:
                break
            if not copy.late:
                self._give_up(copy)
        late = [copy for copy in self.copies.values() if copy.late]
        for copy in late[: max(len(late) - LOST, 0)]:
            del self.copies[copy.number]
            self.forgiven = max(self.forgiven, copy.number)

    def _give_up(self, copy: Copy) -> None:
        copy.late = True
        if copy.over and copy.epoch < self.epoch:
            return  # the stock connector has waited for it and forgotten it, so nobody waits for its report
        if not copy.over:
            self.parts.must(copy.part, P.GIVE_UP, copy.number)
            for block in copy.device:
                self.foreign.must(block, F.LOSE)
            for slot in copy.host:
                self.host.must(slot, B.LOSE)
        if copy.gone:
            self._left_behind(copy)
        else:
            self.found(Kind.ENDLESS, f"part {copy.number} is {copy}, and has no end after {self.deadline:g} s")

    def _left_behind(self, copy: Copy) -> None:
        what = f"foreign {copy.device[0]}" if copy.device else f"part {copy.number}"
        self.found(Kind.LEFT_BEHIND, f"{what} is held by {copy}, which is gone, and by nothing that ends")
