"""kvstate's own ledger as an engine of the kit: the adapter that an embedder of kvstate starts from.

It uses what an embedder uses, `Ledger` and its messages, and keeps for itself only what a scheduler keeps: the lease
of each request, its block table, and which load it waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kvstate.errors import Code
from kvstate.machines.audit import audit
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Cancel, Failure, Kind, Outcome, Token, Work
from kvstate.machines.messages import Report as LedgerReport
from kvstate.machines.verdicts import Grant, Hit, JobVerdict, LoadVerdict, Short, Started, Stored
from kvstate.testing.adapter import FAULTS, NONE, Adapter, Copier, Free, Refused, Report, Scope, View

CODES = {"failed": Code.KV_OOM, "denied": Code.PERMISSION_DENIED, "broken": Code.CRC_MISMATCH}
"""The code that a worker would give for an outcome that has one."""
STAGES = {Kind.FETCH: "fetch", Kind.VERIFY: "verify"}
"""The stage of a failure, by the part; all others are the store's."""


@dataclass(eq=False, slots=True)
class Life:
    """One life of a request: its lease, its table, and how far the table is true."""

    lease: int
    keys: tuple[str, ...]
    table: list[BlockRef] = field(default_factory=list)
    ready: list[bool] = field(default_factory=list)
    load: int | None = None
    below: tuple[int, ...] = ()
    """The places in the prompt that the load brings."""


class KVStateEngine(Adapter):
    """A scheduler with two pools and `Ledger` under it."""

    loads: ClassVar[bool] = True
    steps: ClassVar[bool] = True
    resets: ClassVar[bool] = True
    faults: ClassVar[Sequence[str]] = tuple(FAULTS)

    def __init__(self, scope: Scope, copier: Copier) -> None:
        self.scope, self.copier = scope, copier
        pools = (PoolConfig("device", scope.device), PoolConfig("host", scope.host, verify=True))
        # Several parts in a job and batches in a load, however long prompts are.
        part, batch = max(scope.longest // 4, 1), max(scope.longest // 2, 2)
        self.ledger = self.build(
            LedgerConfig(
                pools, part_blocks=part, batch_blocks=batch, max_jobs=3, grace=2.0, retry_delay=0.5, cool_for=3.0,
                pending_for=2.0, offload_for=5.0,
            )
        )  # fmt: skip
        self.lives: dict[str, Life] = {}
        self.now = 0.0
        self.serial = 0

    def build(self, config: LedgerConfig) -> Ledger:
        """Make the ledger; for tests that break it."""
        return Ledger(config)

    # -- the scheduler -------------------------------------------------------------------------------------------------

    def admit(self, request: str, keys: Sequence[str]) -> bool:
        """Look up, allocate, load; a lookup that is pending or an allocation that is short closes the lease again."""
        lease = self.ledger.open("kit")
        assert isinstance(lease, int), lease
        hit = self.ledger.lookup(lease, [key.encode() for key in keys])
        short = True
        if isinstance(hit, Hit) and not hit.pending:
            grant = self.ledger.allocate(lease, len(keys) - len(hit.blocks) + len(hit.below))
            if isinstance(grant, Grant):
                short = False
                self.lives[request] = self._begin(Life(lease, tuple(keys)), hit, list(grant.blocks))
        if short:
            self.ledger.abort(lease)
        self.pump()
        return not short

    def _begin(self, life: Life, hit: Hit, fresh: list[BlockRef]) -> Life:
        into = [fresh.pop(0) for _ in hit.below]
        missing = dict(zip(hit.below, into, strict=True))
        life.table = [missing.get(place, ref) for place, ref in enumerate(hit.blocks)] + fresh
        life.ready = [place < len(hit.blocks) and place not in missing for place in range(len(life.keys))]
        if into:
            started = self.ledger.load(life.lease, hit, into, deadline=self.now + 1.0)
            assert isinstance(started, Started), started
            life.load, life.below = started.load, hit.below
            self.copier.began(("load", started.load))
        return life

    def view(self, request: str) -> View | None:
        """The table of the life. What a load fills is the load's: its verdict says which blocks it has left behind."""
        life = self.lives.get(request)
        if life is None:
            return None
        waiting = life.load is not None
        lent = life.below if waiting else ()
        blocks = tuple(NONE if place in lent else ref.block for place, ref in enumerate(life.table))
        return View(blocks, tuple(life.ready), waiting)

    def compute(self, request: str, step: int) -> None:
        """Announce the step, and seal what it will fill."""
        life = self.lives[request]
        assert self.ledger.step_dispatched(step, [life.lease])
        places = [place for place, ready in enumerate(life.ready) if not ready]
        if places:
            refs, keys = [life.table[place] for place in places], [life.keys[place].encode() for place in places]
            sealed = self.ledger.seal(life.lease, refs, keys)
            assert isinstance(sealed, tuple), sealed
        life.ready = [True] * len(life.keys)
        self.pump()

    def retired(self, step: int) -> None:
        """The step is over."""
        self.ledger.step_retired(step)
        self.pump()

    def offload(self, request: str) -> None:
        """Store what is ready; that there is nothing to store, or no room, is a refusal."""
        life = self.lives[request]
        refs = [ref for ref, ready in zip(life.table, life.ready, strict=True) if ready]
        stored = self.ledger.offload(life.lease, refs)
        if isinstance(stored, Stored):
            self.copier.began(("job", stored.job))
        self.pump()

    def finish(self, request: str) -> None:
        """The three ends are one; ending what has ended is nobody's fault."""
        self._end(request)

    def abort(self, request: str) -> None:
        """As `finish`."""
        self._end(request)

    def _end(self, request: str) -> None:
        life = self.lives.pop(request, None)
        if life is not None:
            self.ledger.abort(life.lease)
        self.pump()

    # -- the world -----------------------------------------------------------------------------------------------------

    def on_report(self, report: Report) -> None:
        """A report of the kit's as one of a worker's: with failures, if it went wrong."""
        assert isinstance(report.tag, tuple)
        kind, token = report.tag
        self._report(token, report.outcome, self._failures(kind, report))
        self.pump()

    def _failures(self, kind: str, report: Report) -> tuple[Failure, ...]:
        stage = STAGES.get(Kind(kind), "store")
        if report.outcome == "timeout":
            return (Failure(-1, int(Code.PEER_LOST), stage),)
        code = CODES.get(report.outcome)
        return () if code is None else tuple(Failure(line, int(code), stage) for line in report.bad or (-1,))

    def _report(self, token: Token, outcome: str, failures: tuple[Failure, ...]) -> None:
        self.ledger.report(LedgerReport(token, outcome, failures))

    def fenced(self) -> None:
        """Everything that was handed out is over."""
        self.ledger.fenced(0, "cpu", self.serial)
        self.pump()

    def tick(self, now: float) -> None:
        """Tell the time."""
        self.now = now
        self.ledger.tick(now)
        self.pump()

    def reset(self) -> None:
        """A new epoch."""
        self.ledger.reset()
        self.pump()

    def pump(self) -> None:
        """Hand out effects and hear verdicts until there are none."""
        while True:
            effects, verdicts = self.ledger.take_effects(), self.ledger.take_verdicts()
            for effect in effects:
                if isinstance(effect, Work):
                    self._submit(effect)
                elif isinstance(effect, Cancel):
                    for kind in Kind:
                        self.copier.cancel((str(kind), effect.token))
            for verdict in verdicts:
                if isinstance(verdict, LoadVerdict):
                    self._loaded(verdict)
                elif isinstance(verdict, JobVerdict):
                    self.copier.told(("job", verdict.job))
            if not effects and not verdicts:
                return

    def _submit(self, work: Work) -> None:
        self.serial = max(self.serial, work.token.serial)
        keys = [key.decode() for key in work.keys]
        tag = (str(work.kind), work.token)
        base = self.scope.device
        try:
            if work.kind == Kind.STORE:
                self.copier.store(work.src, [slot - base for slot in work.dst], keys, tag, work.after_step)
            elif work.kind == Kind.FETCH:
                self.copier.load([slot - base for slot in work.src], work.dst, keys, tag)
            else:
                self.copier.check([slot - base for slot in work.src], work.dst, keys, tag)
        except Refused:
            failure = Failure(-1, int(Code.KV_OOM), STAGES.get(Kind(work.kind), "store"))
            self._report(work.token, Outcome.FAILED, (failure,))

    def _loaded(self, verdict: LoadVerdict) -> None:
        """So much of the prefix is there; a block that was left is replaced, or the request has to come again."""
        self.copier.told(("load", verdict.load))
        name = next((name for name, life in self.lives.items() if life.load == verdict.load), None)
        if name is None:
            return
        life = self.lives[name]
        life.load = None
        for place in life.below:
            life.ready[place] = place < verdict.blocks
        lost = [place for place in life.below if life.table[place].block in verdict.left]
        grant = self.ledger.allocate(life.lease, len(lost))
        if isinstance(grant, Grant):
            for place, ref in zip(lost, grant.blocks, strict=True):
                life.table[place] = ref
        else:
            self.ledger.preempt(life.lease)
            del self.lives[name]

    # -- what can be seen ----------------------------------------------------------------------------------------------

    def free(self) -> Free:
        """What an allocation that can't be granted says of itself."""
        lease = self.ledger.open("kit")
        short = self.ledger.allocate(lease, 10**6) if isinstance(lease, int) else None
        if isinstance(lease, int):
            self.ledger.finish(lease)
        return Free(short.free if isinstance(short, Short) else 0)

    def check(self) -> Sequence[str]:
        """A poisoned ledger, or books that do not balance."""
        if self.ledger.fatal is not None:
            return (f"the ledger is poisoned: {self.ledger.fatal.law}: {self.ledger.fatal.sentence}",)
        return audit(self.ledger)

    def counted(self) -> Mapping[str, int]:
        """How often each row of the spec has fired."""
        return self.ledger.fired()

    def close(self) -> Sequence[str]:
        """Drain and shut: what is left is told."""
        left = self.ledger.rest()
        self.ledger.drain()
        shut = self.ledger.shut()
        return left or (() if shut is True else (str(shut),))
