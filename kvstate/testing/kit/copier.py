"""The copier that an engine is built with: it writes down what is submitted, and moves nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from kvstate.testing.adapter import Copier, Refused, Report, Scope
from kvstate.testing.kit.laws import AdapterError, Found
from kvstate.testing.kit.memory import CHECK, LOAD, STORE, Flight, Line, Memory, Place

DEVICE, HOST = "b", "h"
"""How places are called: block 3 of the device is b3, slot 3 below it is h3."""


class Yard(Copier):
    """A `Copier`, and what the kit has to see of it."""

    def __init__(self, scope: Scope, memory: Memory) -> None:
        self.scope = scope
        self.memory = memory
        self.serial = 0
        self.submitted: list[Flight] = []
        """What was submitted in the call that is running."""
        self.asked: list[Hashable] = []
        """What it asked to be stopped."""
        self.refuse = False
        """The next copy is refused."""
        self.refusals = 0
        self.untold: dict[Hashable, None] = {}
        self.ended: set[Hashable] = set()
        self.found: list[Found] = []
        self.waiter: Callable[[Hashable], list[Report]] = lambda _: []
        """Ends the copies of a tag; whoever moves the bytes puts it here."""

    # -- what the engine calls -----------------------------------------------------------------------------------------

    def store(
        self, blocks: Sequence[int], slots: Sequence[int], keys: Sequence[str], tag: Hashable, after: int = 0
    ) -> None:
        """See `Copier`, as for all of these."""
        self._submit(STORE, self._device(blocks), self._host(slots), keys, tag, after)

    def load(self, slots: Sequence[int], blocks: Sequence[int], keys: Sequence[str], tag: Hashable) -> None:
        self._submit(LOAD, self._host(slots), self._device(blocks), keys, tag)

    def check(self, slots: Sequence[int], blocks: Sequence[int], keys: Sequence[str], tag: Hashable) -> None:
        self._submit(CHECK, self._host(slots), self._device(blocks), keys, tag)

    def cancel(self, tag: Hashable) -> None:
        self.asked.append(tag)

    def wait(self, tag: Hashable) -> Sequence[Report]:
        return self.waiter(tag)

    def began(self, work: Hashable) -> None:
        if work in self.untold or work in self.ended:
            self.found.append(Found("L1.verdict_once", f"work {work!r} began twice; a new work needs a new name"))
        self.untold[work] = None

    def told(self, work: Hashable) -> None:
        if work in self.ended:
            self.found.append(Found("L1.verdict_once", f"somebody was told twice how work {work!r} ended"))
        elif work not in self.untold:
            self.found.append(Found("L1.verdict_once", f"somebody was told how work {work!r} ended, which never began"))
        self.untold.pop(work, None)
        self.ended.add(work)

    # -- what the kit takes --------------------------------------------------------------------------------------------

    def take(self) -> tuple[list[Flight], list[Hashable]]:
        """What was submitted, and what was asked to be stopped, since the last time."""
        taken = self.submitted, self.asked
        self.submitted, self.asked = [], []
        return taken

    def _submit(
        self, kind: str, src: list[Place], dst: list[Place], keys: Sequence[str], tag: Hashable, after: int = 0
    ) -> None:
        if not len(src) == len(dst) == len(keys) or not keys:
            raise AdapterError(
                f"a {kind} has {len(src)} sources, {len(dst)} targets and {len(keys)} keys; give one of each for a line"
            )
        if self.refuse:
            self.refuse = False
            self.refusals += 1
            raise Refused(f"this {kind} could not be submitted")
        self.serial += 1
        lines = tuple(Line(*line) for line in zip(src, dst, keys, strict=True))
        self.submitted.append(Flight(self.serial, kind, lines, tag, after))

    def _device(self, blocks: Sequence[int]) -> list[Place]:
        return _places(DEVICE, blocks, self.scope.device, "device blocks")

    def _host(self, slots: Sequence[int]) -> list[Place]:
        return _places(HOST, slots, self.scope.host, "host slots")


def _places(pool: str, numbers: Sequence[int], size: int, what: str) -> list[Place]:
    for number in numbers:
        if number not in range(size):
            raise AdapterError(f"a copy names {number!r}; the {what} are the whole numbers from 0 to {size - 1}")
    return [Place(pool, number) for number in numbers]


def raised(what: str, error: Exception) -> str:
    """A sentence for an exception that came out of an engine's call: what was called, the exception, and its place."""
    where, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        where = f" ({code.co_filename.rpartition('/')[2]}, line {trace.tb_lineno}, in {code.co_name})"
        trace = trace.tb_next
    said = (str(error).splitlines() or [""])[0]
    return f"{what} raised {type(error).__name__}: {said}{where}"
