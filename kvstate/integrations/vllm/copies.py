"""The copies of the scheduler's half: what is stored and loaded, which of vLLM's blocks that pins, and how it ends.

For the ledger the life of a block of vLLM's begins when a copy wants it and ends with the verdict of that copy. If
something still touches it then, it is *freed under a copy*, the answer to which is a hold. So a block is pinned from
the moment at which a job is accepted until its verdict, or until its `Unhold`, and what vLLM does with the request
meanwhile, finish, abort, preempt, reset, has no bearing on it.

With a disk below the host pool, what goes there goes from the host (`kvstate.tiering`), and pins nothing of vLLM's;
what is loaded from there is stored in the host again, out of the blocks that it was loaded into.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from kvstate.errors import Code, KVError
from kvstate.integrations.vllm.counts import Counts
from kvstate.integrations.vllm.fences import Fences
from kvstate.integrations.vllm.lives import Life
from kvstate.integrations.vllm.messages import FailedLoad
from kvstate.integrations.vllm.pins import Pins
from kvstate.machines.messages import NO_REFS, BlockRef, BlockRefs, Unhold
from kvstate.machines.verdicts import Ending, Fatal, Freed, Hit, JobVerdict, LoadVerdict, Refusal
from kvstate.runtime.kv import KVRuntime

_log = logging.getLogger("vllm.kvstate")

SHOWN: Final = 3
"""Errors of one load or job in the log."""
LATE: Final = 0.1
"""Seconds after which the ledger is told the time before it is asked anything: vLLM makes no steps while it is idle."""


class Copies:
    """See the module. All methods are for the thread of vLLM's scheduler."""

    def __init__(self, kv: KVRuntime) -> None:
        self.kv = kv
        """The ledger and its outboxes."""
        self.counts = Counts()
        """For metrics and the log."""
        self.pins: Pins
        """vLLM's blocks that copies touch; there once vLLM has given its pool."""
        self.loads: dict[int, Life] = {}
        """Loads without a verdict, by the ledger's number."""
        self.codes: dict[str, list[str]] = {}
        """What went wrong with the loads of a request, in order, over all its lives; goes into the response."""
        self.failures: Counter[str] = Counter()
        """How many loads of a request have failed, over all its lives."""
        self.arrived: set[str] = set()
        """Requests whose load is over for vLLM, which has not been told."""
        self.failed: list[FailedLoad] = []
        """Loads that have failed, which the workers have not been told to say."""
        self.grouped = bool(kv.config.ledger.groups)
        """Does the ledger know KV groups?"""
        self.broken = ""
        """Why the ledger is out of service, if it is: then nothing is looked up, stored or given back."""
        self._jobs: dict[int, BlockRefs] = {}
        self._unsettled: set[int] = set()
        self._fences = Fences(kv)
        self._waits_since: float | None = None
        self._tiers = tuple(kv.tiering.counts.values())
        self._offer = kv.store if self._tiers else kv.offload

    # -- what begins ---------------------------------------------------------------------------------------------------

    def store(self, life: Life, tokens: int, block_ids: Sequence[Sequence[int]]) -> None:
        """Offer what of the first `tokens` tokens is full and was not offered yet; `block_ids` are the request's, by
        KV group.
        """
        full = tokens // self.kv.config.ledger.tokens_per_block
        for group, ids in enumerate(block_ids):
            self._store(life, full, ids, group)

    def _store(self, life: Life, full: int, ids: Sequence[int], group: int) -> None:
        """The same for one group. A block that is pinned is being stored or loaded already."""
        keys = life.request.block_hashes
        places = life.to_offer(min(full, len(keys), len(ids)), group)
        places = [place for place in places if ids[place] not in self.pins and not self.pins.is_null(ids[place])]
        if not places:
            return
        given = self.kv.foreign_allocated([ids[place] for place in places])
        if isinstance(given, Refusal):
            return
        names = [keys[place] for place in places]
        stored = self._offer(life.lease, given.refs, keys=names, group=group if self.grouped else None)
        if stored is None or isinstance(stored, Refusal):
            self.kv.foreign_freed(given.refs)
            return
        if stored.dropped:
            taken = set(stored.refs)
            self.kv.foreign_freed([ref for ref in given.refs if ref not in taken])
        self.pins.take(stored.refs)
        self._jobs[stored.job] = stored.refs
        self.counts.add("stores")
        self.counts.add("blocks_offered", len(stored.refs))

    def load(self, life: Life, hit: Hit, ids: Sequence[int]) -> str:
        """Load the hit into these blocks of the request; returns why that could not be started, or an empty text."""
        given = self.kv.foreign_allocated(ids)
        if isinstance(given, Refusal):
            return given.reason
        started = self.kv.load(life.lease, hit, given.refs)
        if isinstance(started, Refusal):
            self.kv.foreign_freed(given.refs)
            return started.reason
        self.pins.take(given.refs)
        life.load, life.refs, life.loading = started.load, given.refs, hit
        self.loads[life.load] = life
        self._unsettled.add(life.load)
        self.counts.add("loads")
        self.counts.add("blocks_asked", len(ids))
        return ""

    def give_up(self, life: Life, ids: Iterable[int], why: str) -> None:
        """A load that could not be started is one that failed: vLLM waits for an answer already."""
        self._note(life, [Code.BLOCK_NOT_FOUND.name])
        self.failed.append(FailedLoad(life.id, tuple(ids) if life.local and not self.grouped else ()))
        _log.warning("kvstate: request %s: nothing was loaded: %s", life.id, why)

    def end(self, life: Life) -> None:
        """Close the lease. A load of it is over for vLLM at once; its blocks are pinned for as long as it writes."""
        if self.broken:
            return
        self.kv.abort(life.lease)
        if life.load:
            self.loads.pop(life.load, None)
            self._loaded(life, 0)
            self.arrived.add(life.id)
            self._fences.suspect()
            self.counts.add("loads_aborted")
        self.heed()

    # -- what ends -----------------------------------------------------------------------------------------------------

    def keep_time(self) -> None:
        """Tell the ledger the time, if that was long ago: what it is asked next counts its deadlines from there."""
        if not self.broken and self.kv.now() - self.kv.ledger.books.now > LATE:
            self.turn()

    def turn(self) -> None:
        """Hear, tell the time, and do what the verdicts say."""
        done = self.kv.poll()
        for verdict in done.verdicts:
            self._load_over(verdict)
        for job in done.jobs:
            self._job_over(job)
        self._unsettled.difference_update(settled.load for settled in done.settled)
        for trouble in done.troubles:
            _log.warning("kvstate: %s", trouble)
        self.heed()
        if done.fatal is not None:
            self._out_of_service(done.fatal)

    def heed(self) -> None:
        """Give blocks back that nothing touches any more. A hold says what `foreign_freed` has answered already."""
        if holds := self.kv.take_holds():
            self._let_go(BlockRefs([one.ref for one in holds if isinstance(one, Unhold)]))

    def fence_if_need_be(self) -> None:
        """Ask the workers for a proof that what may have been given up is over; a few times."""
        self._fences.turn(len(self.pins))

    @property
    def is_busy(self) -> bool:
        """Is something under way that ends by itself, so that vLLM should go on stepping?"""
        if self.broken:
            return bool(self.failed)
        soon = self._jobs or self._unsettled or self.arrived or self.failed or self.pins.to_scrub
        return bool(soon or self.in_tiers or (self._fences and len(self.pins)))

    @property
    def in_tiers(self) -> int:
        """So many blocks are on their way into a tier, where there are several."""
        return sum(tier.in_flight for tier in self._tiers)

    def frees_soon(self, within: float) -> bool:
        """Will blocks come back by themselves, so that nobody has to be preempted for them?

        Where none has come back for so many seconds, the answer is no: a copy that is stuck must not stop the engine.
        Its blocks stay pinned all the same.
        """
        if self.broken or not len(self.pins) or not (self._jobs or self._unsettled or self.in_tiers):
            return False
        now = self.kv.now()
        if self._waits_since is None:
            self._waits_since = now
        return now - self._waits_since < within

    # -- within --------------------------------------------------------------------------------------------------------

    def _loaded(self, life: Life, good: int) -> bool:
        """The load has no use for its blocks any more, the first `good` of which are whole.

        Those that something of ours still touches stay pinned, and those that are not whole are zeroed before they are
        let go. Returns whether there are any that are both: a whole one may be on its way to the host again.
        """
        refs, life.load, life.refs, life.loading = life.refs, 0, NO_REFS, None
        self.pins.spoil(refs[good:])
        held = self._over(refs)
        return bool(held) and not held.isdisjoint(refs[good:])

    def _over(self, refs: BlockRefs) -> set[BlockRef]:
        """The ledger has no use for these any more. What is touched even now stays pinned: these are returned."""
        freed = self.kv.foreign_freed(refs)
        held = set(freed.held) if isinstance(freed, Freed) else set(refs)
        self._let_go(BlockRefs([ref for ref in refs if ref not in held]) if held else refs)
        return held

    def _let_go(self, refs: BlockRefs) -> None:
        """Nothing of ours touches these any more."""
        if self.pins.let_go(refs):
            self._waits_since = None

    def _load_over(self, verdict: LoadVerdict) -> None:
        life = self.loads.pop(verdict.load, None)
        if life is None:  # the request is over, and vLLM has been told
            return
        life.lower, arrived = verdict.blocks, verdict.ending is Ending.PROCEED
        if self._tiers and life.loading is not None:
            self.counts.add("blocks_promoted", self.kv.promote(verdict, life.loading, life.refs))
        ids = list(life.refs.blocks)
        good = len(ids) if arrived else 0 if self.grouped else verdict.blocks
        held = self._loaded(life, good)
        self.counts.add("blocks_loaded", good)
        if arrived:
            self.arrived.add(life.id)
            return
        if held:
            self._fences.suspect()
        self._note(life, [error.code.name for error in verdict.errors])
        # What is held, the request must not compute into; and of several groups vLLM keeps nothing.
        whole = held or self.grouped or life.local + good == 0
        self.failed.append(FailedLoad(life.id, () if whole else tuple(ids[good:])))
        _log.warning(
            "kvstate: request %s: %d of %d blocks were loaded; %s",
            life.id, good, len(ids), _some(verdict.errors),
        )  # fmt: skip

    def _note(self, life: Life, codes: list[str]) -> None:
        self.codes.setdefault(life.id, []).extend(codes)
        self.failures[life.id] += 1
        self.counts.add("loads_failed")
        self.counts.add_codes("load", codes)

    def _job_over(self, verdict: JobVerdict) -> None:
        """A store has ended: of ours, into the host; or one of the tiers' own."""
        refs = self._jobs.pop(verdict.job, None)
        if refs is not None:
            self._over(refs)
        what = "tier_" if refs is None else ""
        if verdict.ending is Ending.COMMITTED:
            self.counts.add(f"{what}blocks_stored", len(verdict.keys))
        elif verdict.ending is Ending.FAILED:
            self._fences.suspect()
            self.counts.add(f"{what}stores_failed")
            self.counts.add_codes("store", [error.code.name for error in verdict.errors])
            _log.warning("kvstate: a store failed, its blocks stay a miss: %s", _some(verdict.errors))

    def _out_of_service(self, fatal: Fatal) -> None:
        """A broken invariant. The engine goes on without us: nothing is looked up, stored or given back any more."""
        self.broken = f"{fatal.law}: {fatal.sentence}"
        dump = "\n".join(fatal.dump)
        _log.error("kvstate is out of service, the engine goes on without it: %s\n%s", self.broken, dump)
        self.counts.add("out_of_service")
        self.failed += [FailedLoad(life.id, ()) for life in self.loads.values()]
        self.loads.clear()


def _some(errors: Sequence[KVError]) -> str:
    """The first few, for the log; all of them are counted."""
    more = f"; and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
    return "; ".join(map(str, errors[:SHOWN])) + more if errors else "no reason was given"
