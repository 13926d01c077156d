"""How large the model of a scope is: how many records of each machine there can be, and which numbers stand for what.

A record keeps its number for ever here: the third part that was minted is the third one, whoever is over by then. So
the bounds are on how many there can ever be, and they follow from the scope: lives, attempts and lines are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property

from kvstate.explore.requests import DEADLINE
from kvstate.explore.scopes import Scope
from kvstate.machines.config import MAX_BATCHES, LedgerConfig, PoolConfig
from kvstate.machines.messages import Kind
from kvstate.spec.model import Machine, Spec

KINDS = (Kind.STORE, Kind.FETCH, Kind.PERSIST, Kind.VERIFY, Kind.STEP)
"""What a part can be there, numbered from 1."""
OPERATIONS = ("lookup", "allocate", "compute", "step", "seal", "load", "store", "finish")
"""The words of a program that are written in Promela."""
LIVING = "generation"
"""The counter that only grows: it is not kept; where a row moves it, what names the block's old life names nothing."""
KNOWN = frozenset(
    "pools ranks attempts part_blocks batch_blocks max_jobs grace retry_delay cool_for pending_for step_for "
    "durable verify given fails resets corrupt cancels drains fences lives ends "
    "name blocks copier tokens_per_block offload_for".split()
)
"""Settings of ledgers, pools, scopes and requests that the model has; in the last line those that change nothing."""
TIMES = ("grace", "retry_delay", "cool_for", "pending_for", "step_for")
"""The settings of a ledger that are times of the model."""


class UnprintableError(ValueError):
    """A scope, or a spec, of which no model can be printed: one sentence that says what is in the way."""


@dataclass(frozen=True)
class Shape:
    """See the module. Errors: `UnprintableError`, at once, for what the model does not have."""

    spec: Spec
    """Whose rows are printed."""
    scope: Scope
    """What there is and what may happen."""
    config: LedgerConfig
    """The settings of the scope's ledger."""

    def __post_init__(self) -> None:
        name, config = self.scope.name, self.config
        for request in self.scope.requests:
            for at, word in enumerate(request.program):
                if word not in OPERATIONS:
                    raise UnprintableError(
                        f"scope {name}: {request.name} is to {word}, which the Promela model does not have; "
                        f"it has {', '.join(OPERATIONS)}"
                    )
                if word == "lookup" and at:
                    raise UnprintableError(
                        f"scope {name}: {request.name} looks up when it may own blocks; "
                        "in the Promela model a lookup comes first in a program"
                    )
        for what, found, has in (
            ("pools", len(config.pools), 2),
            ("ranks", config.ranks, 1),
            ("blocks in a part (part=)", config.part_blocks, 1),
        ):
            if found != has:
                raise UnprintableError(f"scope {name}: it has {found} {what}; the Promela model is of {has}")
        for what, value, default in self._settings():
            if value != default:
                raise UnprintableError(f"scope {name}: it sets {what}, of which the Promela model knows nothing")
        for word in TIMES:
            if getattr(config, word) % self.unit or not getattr(config, word):
                raise UnprintableError(
                    f"scope {name}: {word} is {getattr(config, word)} s; "
                    f"the Promela model counts time in retry_delay, which is {self.unit} s"
                )

    def _settings(self) -> Iterator[tuple[str, object, object]]:
        """Every setting that the model does not know, with its value and its default: what may come later, too."""
        found: list[tuple[object, dict[str, object]]] = [(self.config, _defaults(self.config))]
        found += [(pool, _defaults(pool)) for pool in self.config.pools]
        found += [(self.scope, self.scope._field_defaults)]
        found += [(request, request._field_defaults) for request in self.scope.requests]
        for settings, defaults in found:
            yield from ((name, getattr(settings, name), of) for name, of in defaults.items() if name not in KNOWN)

    # -- time ----------------------------------------------------------------------------------------------------------

    @property
    def unit(self) -> float:
        """The seconds of one tick of the model."""
        return self.config.retry_delay

    def ticks(self, seconds: float) -> int:
        """So many ticks. Errors: `ValueError` where it is no whole number."""
        count = round(seconds / self.unit)
        if abs(count * self.unit - seconds) > 1e-6:
            raise ValueError(f"{seconds} s is no multiple of {self.unit} s")
        return count

    @property
    def deadline(self) -> int:
        """The ticks that each job and load has in all."""
        return self.ticks(DEADLINE)

    # -- how many ------------------------------------------------------------------------------------------------------

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """All keys, in the order in which the scope names them."""
        named = (*self.scope.given.split(), *(key for request in self.scope.requests for key in request.keys))
        return tuple(dict.fromkeys(named))

    @cached_property
    def lines(self) -> int:
        """Places of the longest prompt, and so the most lines of a job, a batch, a lease."""
        return max(len(request.keys) for request in self.scope.requests)

    @property
    def batch(self) -> int:
        """Lines of a batch at most."""
        return max(self.config.batch_blocks, -(-self.lines // MAX_BATCHES))

    def _lives(self, word: str) -> list[int]:
        """The lines of each life that may do this."""
        return [
            len(request.keys)
            for request in self.scope.requests
            for _ in range(request.lives)
            if word in request.program
        ]

    @cached_property
    def steps(self) -> int:
        """How many compute steps there can ever be."""
        return len(self._lives("step"))

    @cached_property
    def count(self) -> dict[str, int]:
        """By machine: how many records there can ever be. A machine that is not named has none."""
        loads, jobs = self._lives("load"), self._lives("store")
        attempts = self.config.attempts
        batches = sum(-(-lines // self.batch) for lines in loads)
        # A batch launches fetches and checks in each attempt; the two phases of a job count their attempts together.
        parts = (
            sum(2 * attempts * lines for lines in loads) + sum((attempts + 1) * lines for lines in jobs) + self.steps
        )
        count = {"block": sum(pool.blocks for pool in self.config.pools), "part": parts, "key": 2 * len(self.keys)}
        if jobs:
            count["offload"] = len(jobs)
        if self.scope.drains:
            count["service"] = 1
        if loads:
            count |= {"transfer": batches, "load": len(loads)}
        return count

    @cached_property
    def timers(self) -> int:
        """More than can be armed at once: of each record every timer, and one more of what may be armed twice."""
        armed = {"offload": 4, "load": 4, "transfer": 2, "key": 2}
        return sum(times * self.count.get(name, 0) for name, times in armed.items()) + self.steps

    @cached_property
    def machines(self) -> tuple[Machine, ...]:
        """The machines that have records here."""
        return tuple(machine for machine in self.spec.machines if machine.name in self.count)

    # -- which number --------------------------------------------------------------------------------------------------

    @cached_property
    def events(self) -> dict[tuple[str, str], int]:
        """The number of each event, by machine and name; those of one machine lie together. 0 is none."""
        pairs = [(machine.name, event.name) for machine in self.machines for event in machine.events]
        return {pair: number for number, pair in enumerate(pairs, 1)}

    @cached_property
    def states(self) -> dict[tuple[str, str], int]:
        """The number of each state, by machine and name, from 1; 0 is that there is no such record."""
        return {
            (machine.name, state.name): number
            for machine in self.machines
            for number, state in enumerate(machine.states, 1)
        }


def _defaults(settings: LedgerConfig | PoolConfig) -> dict[str, object]:
    return {field.name: field.default for field in fields(settings)}
