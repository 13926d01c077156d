"""A ledger with nothing around it, driven by hand: what the tests of one request or one report need and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kvstate.errors import Code
from kvstate.machines.audit import audit
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Effect, Failure, Report, Token, Work
from kvstate.machines.verdicts import Grant, Hit, JobVerdict, LoadVerdict, Refusal, Started, Stored, Verdict

SPACE = "a"


def key(number: int) -> bytes:
    return bytes([number]) * 4


def keys(*numbers: int) -> list[bytes]:
    return [key(number) for number in numbers]


def failure(code: Code, line: int = -1, *, raw: str = "", message: str = "") -> Failure:
    return Failure(line, int(code), "fetch", raw=raw, message=message)


class Rig:
    """One ledger of a device and a host pool (or others), and what it has sent and told so far."""

    def __init__(
        self,
        device: int = 4,
        host: int = 4,
        *,
        durable: bool = False,
        verify: bool = False,
        pools: Sequence[PoolConfig] = (),
        ledger: dict[str, Any] | None = None,
        **config: Any,
    ) -> None:
        two = (PoolConfig("device", device), PoolConfig("host", host, durable=durable, verify=verify))
        self.ledger = Ledger(LedgerConfig(pools=tuple(pools) or two, **config), **(ledger or {}))
        self.sent: list[Effect] = []
        self.told: list[Verdict] = []

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def books(self) -> Any:
        return self.ledger.books

    def column(self, machine: str, name: str) -> list[int]:
        return list(self.books.column(machine, name))

    def state(self, block: int) -> str:
        return str(self.books.tables["block"].STATES[self.books.block_state[block]])

    def key_state(self, number: int, pool: int = 1, space: str = SPACE) -> str:
        slot = self.books.keys.find(pool, space, key(number))
        return "absent" if slot < 0 else str(self.books.tables["key"].STATES[self.books.keys.state[slot]])

    def job_state(self, job: int) -> str:
        return str(self.ledger.core.ports.job.state_of(self.books.job_ids[job]))

    def load_state(self, load: int) -> str:
        return str(self.ledger.core.ports.load.state_of(self.books.load_ids[load]))

    def batch_states(self, load: int) -> list[str]:
        record = self.books.loads[self.books.load_ids[load]]
        return [str(self.ledger.core.ports.batch.state_of(slot)) for slot in record.batches]

    def shape(self) -> object:
        """All that a refusal must leave as it was: every column, what waits to go out, and the canonical form."""
        columns = {
            machine: {name: list(c) for name, c in t.columns.items()} for machine, t in self.books.tables.items()
        }
        timers = [timer for timer in self.books.timers if timer.uid == self.books.uid(timer.machine, timer.slot)]
        out = (list(self.books.effects), list(self.books.verdicts), timers, self.books.serial)
        fired = {row: count for row, count in self.ledger.fired().items() if row != "S01"}  # S01 is the asking itself
        return self.ledger.canonical_hash(), columns, out, fired

    def fires(self, do: Callable[[], object]) -> set[str]:
        """The rows that fire while this is done."""
        before = self.ledger.fired()
        do()
        return {row for row, count in self.ledger.fired().items() if count > before[row]}

    def refuses(self, ask: Callable[[], object], sentence: str) -> None:
        """The request is refused with these words, and nothing has changed."""
        before = self.shape()
        answer = ask()
        assert isinstance(answer, Refusal), answer
        assert not answer
        assert sentence in answer.reason
        assert self.ledger.fatal is None
        assert self.shape() == before

    def check(self) -> None:
        """Whatever was done, the books balance; a poisoned ledger is allowed to be in disorder."""
        assert self.ledger.fatal is not None or audit(self.ledger) == []

    # -- what comes out ------------------------------------------------------------------------------------------------

    def effects(self) -> list[Effect]:
        """What it has sent since the last look."""
        taken = self.ledger.take_effects()
        self.sent += taken
        return taken

    def works(self) -> list[Work]:
        return [effect for effect in self.effects() if isinstance(effect, Work)]

    def verdicts(self) -> list[Verdict]:
        """What it has told since the last look."""
        taken = self.ledger.take_verdicts()
        self.told += taken
        return taken

    def verdict(self) -> Any:
        """The one verdict since the last look; settlements are passed over."""
        [verdict] = [told for told in self.verdicts() if isinstance(told, LoadVerdict | JobVerdict)]
        return verdict

    # -- what goes in --------------------------------------------------------------------------------------------------

    def open(self, space: str = SPACE) -> int:
        lease = self.ledger.open(space)
        assert isinstance(lease, int)
        return lease

    def allocate(self, lease: int, count: int) -> Sequence[BlockRef]:
        grant = self.ledger.allocate(lease, count)
        assert isinstance(grant, Grant), grant
        return grant.blocks

    def sealed(self, *numbers: int, space: str = SPACE) -> tuple[int, Sequence[BlockRef]]:
        """A lease with sealed, published blocks of these keys."""
        lease = self.open(space)
        refs = self.allocate(lease, len(numbers))
        assert self.ledger.seal(lease, refs, keys(*numbers)) == (True,) * len(numbers)
        return lease, refs

    def lookup(self, lease: int, *numbers: int) -> Hit:
        hit = self.ledger.lookup(lease, keys(*numbers))
        assert isinstance(hit, Hit), hit
        return hit

    def offload(self, lease: int, refs: Iterable[BlockRef], **options: Any) -> int:
        stored = self.ledger.offload(lease, tuple(refs), **options)
        assert isinstance(stored, Stored), stored
        return stored.job

    def below(self, *numbers: int, space: str = SPACE) -> None:
        """These keys are cached in the host pool, and nowhere else."""
        lease, refs = self.sealed(*numbers, space=space)
        self.offload(lease, refs)
        self.finish_all()
        self.ledger.finish(lease)
        self.flush()
        self.verdicts()

    def flush(self) -> None:
        """Evict all that is cached on the device."""
        lease = self.open("flush")
        short = self.ledger.allocate(lease, 10**6)
        self.allocate(lease, short.free)  # type: ignore[union-attr]
        self.ledger.finish(lease)

    def load(self, lease: int, hit: Hit, *, deadline: float = 10.0) -> tuple[int, Sequence[BlockRef]]:
        into = self.allocate(lease, len(hit.below))
        started = self.ledger.load(lease, hit, into, deadline=deadline)
        assert isinstance(started, Started), started
        return started.load, into

    def step(self, number: int, *leases: int) -> None:
        assert self.ledger.step_dispatched(number, leases) is True

    def retire(self, number: int) -> None:
        assert self.ledger.step_retired(number) is True

    def report(self, part: Work | Token, outcome: str = "done", *failures: Failure) -> None:
        token = part.token if isinstance(part, Work) else part
        assert self.ledger.report(Report(token, outcome, failures)) is None

    def finish_all(self) -> None:
        """Answer everything that is sent, and what that sends, with done."""
        self.finish_all_of(self.works())

    def finish_all_of(self, works: Sequence[Work]) -> None:
        """The same, beginning with these."""
        while works:
            for work in works:
                self.report(work)
            works = self.works()

    def tick(self, now: float) -> None:
        assert self.ledger.tick(now) is None
