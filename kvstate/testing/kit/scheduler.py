"""What a scheduler does to an engine: requests come, are computed, stored, and go, in any order.

Every move is total: where it does not apply, nothing happens. Its numbers count modulo what there is. So a list of
moves is a walk whatever is taken out of it, which is what shrinking does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kvstate.testing.kit.laws import AdapterError, Found
from kvstate.testing.kit.memory import Write
from kvstate.testing.kit.oracle import Oracle, Request

T = TypeVar("T")
REMEMBERED = 8
"""So many ended requests can be aborted once more, and so many reports can come a second time."""


def pick(things: Sequence[T], number: int) -> T | None:
    """The thing of that number, counted modulo; None where there is none."""
    return things[number % len(things)] if things else None


class Scheduling(Oracle):
    """The moves of the scheduler; each answers whether something was done."""

    arrived = 0
    """How many requests have come; each gets a name of its own."""
    step = 0
    """The number of the newest step."""
    computing = False
    """A step is sent down that the engine asked for by itself."""
    ended: tuple[str, ...] = ()
    """Requests that have ended, the last few."""

    # -- the scheduler -------------------------------------------------------------------------------------------------

    def admit(self, chain: int, length: int) -> bool:
        """A new request comes, with the first keys of a prompt."""
        if len(self.requests) >= self.scope.requests:
            return False
        self.arrived += 1
        return self._begin(f"r{self.arrived}", self.keys(chain, length))

    def again(self, which: int) -> bool:
        """A request that was preempted comes again."""
        name = pick(list(self.parked), which)
        if name is None or len(self.requests) >= self.scope.requests:
            return False
        return self._begin(name, self.parked.pop(name))

    def keys(self, chain: int, length: int) -> tuple[str, ...]:
        """The first keys of a prompt; both numbers count modulo what there is."""
        letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[chain % self.scope.chains]
        return tuple(f"{letter}{place + 1}" for place in range(length % self.scope.longest + 1))

    def _begin(self, name: str, keys: tuple[str, ...], *, again: bool = True) -> bool:
        self.tell(f"{name} comes with {' '.join(keys)}")
        self.admitting = True
        admitted = self.call("admit", name, keys)
        if admitted:
            request = self.requests[name] = Request(name, keys)
            self.settle()
            if name in self.requests:
                self.stats.count("hits", sum(request.view.ready))
                self.tell(f"{name} has {self._table(request)}")
        else:
            self.tell(f"{name} is not admitted")
            if again:
                self.parked[name] = keys
            self.settle()
        self.admitting = False
        self._at_once()
        return True

    def settle(self) -> None:
        """As before; and an engine that computes at once does so."""
        super().settle()
        if not self.admitting:
            self._at_once()

    def _at_once(self) -> None:
        """Compute whoever can be computed and lacks something, if the engine does that by itself."""
        while self.engine.eager and not self.computing:
            request = next((request for request in self.requests.values() if request.lacks), None)
            if request is None:
                return
            self.computing = True
            self._dispatch(request)
            self.computing = False
            if request.lacks and self.requests.get(request.name) is request:
                raise AdapterError(f"compute() was called for {request.name}, and its view still lacks something")

    @staticmethod
    def _table(request: Request) -> str:
        rows = [f"{place} for {key}{', ready' if ready else ''}" for _, place, key, ready in request.rows()]
        return "; ".join(rows) + (", and waits for a load" if request.view.waiting else "")

    def run(self, which: int) -> bool:
        """A step computes what a request lacks, from its beginning to its end."""
        request = pick([r for r in self.requests.values() if not r.view.waiting], which)
        if request is None:
            return False
        self._dispatch(request)
        while self.memory.steps:
            self._retire()
        return True

    def dispatch(self, which: int) -> bool:
        """A step is sent down that computes what a request lacks."""
        request = pick([r for r in self.requests.values() if not r.view.waiting], which)
        if request is None or not self.engine.steps:
            return False
        self._dispatch(request)
        return True

    def _dispatch(self, request: Request) -> None:
        self.step += 1
        lacking = [(place, key) for _, place, key, ready in request.rows() if not ready]
        fills = ", ".join(f"{place} with {key}" for place, key in lacking) or "nothing"
        if self.engine.steps:
            self.tell(f"step {self.step} is sent down over {request.name}; it will fill {fills}")
            self.memory.steps[self.step] = [Write(place, self.memory.tenant(place), key) for place, key in lacking]
            request.step = self.step
        else:
            self.tell(f"{request.name} is computed: {fills} is filled")
            for place, key in lacking:
                self.memory.contents[place] = key
        self.call("compute", request.name, self.step)
        self.settle()

    def retire(self) -> bool:
        """The oldest step ends."""
        if not self.memory.steps:
            return False
        self._retire()
        return True

    def _retire(self) -> None:
        step = min(self.memory.steps)
        self.tell(f"step {step} retires")
        self._run_kernels(step)
        self.memory.retire(step)
        self.call("retired", step)
        self.settle()

    def _run_kernels(self, step: int) -> None:
        for place in self.memory.run(step):
            raise Found("L3.no_reuse", f"step {step} writes {place}, to which a copy was sent for somebody else")

    def offload(self, which: int) -> bool:
        """What a request has computed is to be stored."""
        request = pick([r for r in self.requests.values() if any(r.view.ready)], which)
        if request is None or not self.engine.loads:
            return False
        self.tell(f"{request.name} is to be stored")
        self.call("offload", request.name)
        self.settle()
        return True

    def _end(self, how: str, which: int, requests: list[Request]) -> bool:
        request = pick(requests, which)
        if request is None:
            return False
        if self.memory.flights:
            self.stats.count("ends under a copy")
        self.tell(f"{request.name}: {how}")
        del self.requests[request.name]
        if how == "preempt":
            self.parked[request.name] = request.keys
        else:
            self.ended = (*self.ended, request.name)[-REMEMBERED:]
        self.call(how, request.name)
        self.settle()
        return True

    def finish(self, which: int) -> bool:
        """A request is done."""
        return self._end("finish", which, [r for r in self.requests.values() if not r.view.waiting])

    def abort(self, which: int) -> bool:
        """A request is not wanted any more."""
        return self._end("abort", which, list(self.requests.values()))

    def preempt(self, which: int) -> bool:
        """The blocks of a request are wanted."""
        return self._end("preempt", which, list(self.requests.values()))

    def abort_again(self, which: int) -> bool:
        """A client's abort comes for a request that has ended already, or waits to come again."""
        name = pick([*self.ended, *self.parked], which)
        if name is None:
            return False
        self.tell(f"{name}: abort, and it is not running")
        self.parked.pop(name, None)
        self.call("abort", name)
        self.settle()
        return True

    def evict(self) -> bool:
        """Somebody needs every free block for a moment."""
        count = self.call("free").device
        if count < 1:
            return False
        self.arrived += 1
        self._fill(f"x{self.arrived}", count)
        return True

    def _fill(self, name: str, count: int) -> bool:
        """A request with keys that nobody else has takes so many blocks and goes; did it get them?"""
        self._begin(name, tuple(f"{name}.{place + 1}" for place in range(count)), again=False)
        request = self.requests.get(name)
        if request is None:
            return False
        got = len(set(request.view.blocks)) == count
        self._end("abort", 0, [request])
        return got

    def reset(self) -> bool:
        """The cache is emptied."""
        if not self.engine.resets:
            return False
        self.tell("the cache is emptied")
        self.call("reset")
        self.settle()
        return True
