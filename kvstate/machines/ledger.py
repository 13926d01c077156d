"""The ledger: all machines of one runtime, composed. Requests and reports go in, effects and verdicts come out.

Single-threaded and pure: no clock (time is told with `tick`), no thread, no randomness, no I/O. A race between a
callback and an abort is therefore only an order of two inputs, which a test can enumerate and a fuzzer can shuffle.

Three kinds of input. A *request* comes from the caller and may be refused: the answer is then a `Refusal` or a `Short`,
false in a condition, and nothing has changed. A *report* comes from the world and is answered in every state. The
*clock* fires what is due. What a row then sets off is not decided here but in `spec/`: see `cascade`.

Two kinds of trouble. What may go wrong is an error with a code, and ends up in a verdict. What the data calls
impossible is a broken invariant: the ledger is poisoned, says so in a `Fatal` verdict, frees nothing, and refuses every
request from then on. Neither ever leaves the ledger as an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from typing import NamedTuple

from kvstate.machines import tables
from kvstate.machines.adaptive import Adaptive
from kvstate.machines.allocator import Allocator
from kvstate.machines.books import Books, MakePolicy, Tables
from kvstate.machines.canonical import digest
from kvstate.machines.cascade import ActRow, Coupling
from kvstate.machines.config import LedgerConfig
from kvstate.machines.door import door
from kvstate.machines.durable import Durable
from kvstate.machines.durables import Durables
from kvstate.machines.explain import explain
from kvstate.machines.messages import BlockRef, BlockRefs, Effect, Report, Token
from kvstate.machines.records import Lease
from kvstate.machines.shared import Shared
from kvstate.machines.tables import coupling
from kvstate.machines.tables.service import Event as S
from kvstate.machines.verdicts import Closed, Fatal, Grant, Hit, Refusal, Short, Started, Stored, Verdict

COUPLINGS = tuple(Coupling(*row) for row in coupling.COUPLINGS)
ACTS = tuple(ActRow(*row) for row in coupling.ACTS)
"""`COUPLINGS` and `ACTS` are the lines of the shipped `coupling.toml`."""


class Snapshot(NamedTuple):
    """What `Ledger.snapshot` gives: `books`, `fired` and `fatal` as they were. Opaque: only `restore` reads it."""

    books: Books
    fired: dict[str, list[int]]
    fatal: Fatal | None


class Ledger(Allocator, Durable, Shared):
    """See the module. Times are seconds on the caller's clock; blocks are numbered through all pools, device first.

    Blocks are given and taken as references: `BlockRefs`, as the ledger gives them out, or any list of `BlockRef`. The
    first are quicker. Errors: `ValueError` at its birth, for lines of `coupling.toml` that name what is not there.
    """

    def __init__(
        self,
        config: LedgerConfig,
        *,
        machines: Tables = tables.TABLES,
        couplings: Sequence[Coupling] = COUPLINGS,
        acts: Sequence[ActRow] = ACTS,
        policy: MakePolicy = Adaptive,
    ) -> None:
        self.config = config
        self.books = Books(config, machines, policy)
        self._couplings, self._acts = tuple(couplings), tuple(acts)
        self.core = Durables(self.books, self._couplings, self._acts)
        self.fatal: Fatal | None = None

    # -- leases --------------------------------------------------------------------------------------------------------

    @door
    def open(self, namespace: str) -> int | Refusal:
        """Begin one life of one request, in a namespace; returns the number of the lease."""
        return self.core.open(namespace)

    @door
    def lookup(self, lease: int, keys: Sequence[bytes]) -> Hit | Refusal:
        """Find the longest prefix of `keys` that is cached in any tier, and pin it for the lease.

        While another load is bringing the next block in, the answer is `pending` and nothing is pinned; after
        `pending_for` seconds it is a miss.
        """
        held = self.core.lease(lease)
        return held if isinstance(held, Refusal) else self.core.lookup(held, keys)

    @door
    def lookup_groups(self, lease: int, lists: Sequence[Sequence[bytes]]) -> Hit | Refusal:
        """As `lookup`, where there are KV groups: the greatest length that is valid for all, and what it needs of each.

        A list of keys for each group, block by block from the first token. In a sliding window a hole in front of what
        is needed does no harm; a hole inside of it shortens the hit for all groups. See `groups`.
        """
        held = self.core.lease(lease)
        return held if isinstance(held, Refusal) else self.core.lookup_groups(held, lists)

    @door
    def unpin(self, hit: Hit) -> bool | Refusal:
        """Give a hit back that will not be used: whatever that lookup pinned, on the device and below."""
        held = self.core.lease(hit.lease)
        return held if isinstance(held, Refusal) else self.core.unpin(held, hit)

    @door
    def allocate(self, lease: int, count: int) -> Grant | Short | Refusal:
        """Get that many open device blocks, evicting cached ones if need be: all of them, or what there would be."""
        held = self.books.leases.get(lease)
        return self.core.not_open(lease) if held is None else self.core.allocate(held, count)

    @door
    def seal(
        self, lease: int, blocks: Sequence[BlockRef], keys: Sequence[bytes], *, group: int | None = None
    ) -> tuple[bool, ...] | Refusal:
        """These blocks are full and will not be written again; publish each under its key, as one of its KV group's.

        False for a block that stays private: another one has the key already, or the cache was reset meanwhile.
        """
        held = self.core.lease(lease)
        return held if isinstance(held, Refusal) else self.core.seal(held, BlockRefs.of(blocks), keys, group)

    @door
    def release(self, lease: int, blocks: Sequence[BlockRef]) -> Closed | Refusal:
        """Give some blocks back while the lease lives on (a window that has moved)."""
        held = self.books.leases.get(lease)
        return self.core.not_open(lease) if held is None else self.core.release(held, BlockRefs.of(blocks))

    @door
    def finish(self, lease: int) -> Closed | Refusal:
        """The request is done: give back all that the lease holds."""
        return self._close(lease)

    @door
    def abort(self, lease: int) -> Closed | Refusal:
        """The request is no longer wanted. Loads of it are told aborted; what they still write drains."""
        return self._close(lease)

    @door
    def preempt(self, lease: int) -> Closed | Refusal:
        """Take the blocks of a request back; it will come again with a new lease.

        Says how many blocks are free now and how many drain, so that nobody else is preempted for nothing.
        """
        return self._close(lease)

    def _close(self, lease: int) -> Closed | Refusal:
        held = self.core.lease(lease)
        return held if isinstance(held, Refusal) else self.core.close(held)

    def _admitted(self, lease: int) -> Lease | Refusal:
        """The lease, if new work may come in. (A refusal is false: `or` would pass it over.)"""
        refused = self.core.admit()
        return self.core.lease(lease) if refused is None else refused

    # -- copies --------------------------------------------------------------------------------------------------------

    @door
    def offload(
        self, lease: int, blocks: Sequence[BlockRef], *, pool: int = 1, deadline: float | None = None,
        keys: Sequence[bytes] | None = None, group: int | None = None,
    ) -> Stored | Refusal:  # fmt: skip
        """Store these blocks in a lower pool, under the keys that name them. Accepted at once, done later.

        A block that is listed twice, has begun another life, has no key or is stored already is dropped and reported.
        No key names a block of a `foreign` pool: there, and only there, `keys` has one for each (all of one `group`).
        """
        until = self.books.now + self.config.offload_for if deadline is None else deadline
        held = self._admitted(lease)
        if isinstance(held, Refusal):
            return held
        if not 0 < pool < len(self.books.pools):
            return Refusal(f"there is no pool {pool} below the device")
        if self.config.pools[pool].shared and not self.config.pools[pool].durable:
            return Refusal(f"pool {pool} is what others offer: nothing is stored there")
        return self.core.offload(held, BlockRefs.of(blocks), pool, until, keys, group)

    @door
    def load(self, lease: int, hit: Hit, into: Sequence[BlockRef], *, deadline: float) -> Started | Refusal:
        """Load what of `hit` lies below the device into these open blocks of the lease, batch by batch, in order."""
        held = self._admitted(lease)
        return held if isinstance(held, Refusal) else self.core.load(held, hit, BlockRefs.of(into), deadline)

    @door
    def cancel(self, number: int) -> bool | Refusal:
        """Call a job or a load off. What has ended is refused quietly."""
        return self.core.cancel(number)

    # -- compute steps and holds ---------------------------------------------------------------------------------------

    @door
    def step_dispatched(self, step: int, leases: Sequence[int]) -> bool | Refusal:
        """The engine has sent a step down that may touch the blocks of these leases. Steps are numbered from 1 up."""
        return self.core.step_dispatched(step, leases)

    @door
    def step_retired(self, step: int) -> bool | Refusal:
        """That step and all before it are over."""
        return self.core.step_retired(step)

    @door
    def hold(self, lease: int, blocks: Sequence[BlockRef], *, deadline: float) -> Token | Refusal:
        """The embedder will touch these blocks until it reports the token done; they outlive their lease till then."""
        held = self.core.lease(lease)
        return held if isinstance(held, Refusal) else self.core.hold(held, BlockRefs.of(blocks), deadline)

    # -- the world -----------------------------------------------------------------------------------------------------

    @door
    def report(self, report: Report) -> None:
        """A worker's answer. Total: whatever comes, in whatever state, at worst it is counted."""
        self.core.report(report)

    @door
    def fenced(self, rank: int, copier: str, serial: int) -> int | Refusal:
        """All that this copier of this rank was given up to `serial` is proved over; returns how many that ended."""
        return self.core.fenced(rank, copier, serial)

    @door
    def tick(self, now: float) -> None:
        """Tell the time and fire what is due. Time that runs backwards is ignored."""
        self.core.tick(now)

    @door
    def drain(self) -> bool | Refusal:
        """Take no new work; call every job off. What is left is told by `rest`."""
        return self.core.drain()

    @door
    def shut(self) -> bool | Refusal:
        """Close a drained ledger that is at rest."""
        return self.core.shut()

    # -- what comes out ------------------------------------------------------------------------------------------------

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in the order in which they have to be begun."""
        taken, self.books.effects = self.books.effects, []
        return taken

    def take_verdicts(self) -> list[Verdict]:
        """The verdicts and settlements since the last call. A poisoned ledger says so once, in a `Fatal`."""
        taken, self.books.verdicts = self.books.verdicts, []
        return taken

    def next_timer(self) -> float | None:
        """When `tick` has something to do; `None` if nothing waits."""
        timer = self.books.next_timer()
        return None if timer is None else timer.when

    def rest(self) -> list[str]:
        """What keeps the ledger from rest, a sentence each; empty when nothing does."""
        return self.core.rest()

    def explain(self, *, block: int | None = None, work: int | None = None, lease: int | None = None) -> str:
        """In a sentence, who holds this block, job, load (`work`) or lease, since when, and what would free it.

        Never raises: of what does not exist, it says so.
        """
        return explain(self.books, block, work, lease)

    def snapshot(self) -> Snapshot:
        """All that the ledger remembers; `restore` brings it back, any number of times."""
        fired = {name: list(port.fired) for name, port in self.core.ports.ports.items()}
        return Snapshot(deepcopy(self.books), fired, self.fatal)

    def restore(self, snapshot: Snapshot) -> None:
        """Be again what the ledger was when `snapshot` was taken. Sinks stay attached."""
        sinks = {name: port.sink for name, port in self.core.ports.ports.items()}
        self.books = deepcopy(snapshot.books)
        self.core = Durables(self.books, self._couplings, self._acts)
        for name, port in self.core.ports.ports.items():
            port.sink = sinks[name]
            port.fired = list(snapshot.fired[name])
        self.fatal = snapshot.fatal

    def canonical_hash(self) -> str:
        """The same for two ledgers that will behave alike, whatever numbers they have reached."""
        return digest(self.books)

    def fired(self) -> dict[str, int]:
        """How often each row has fired, by id."""
        ports = self.core.ports.ports.values()
        return {row: count for port in ports for row, count in zip(port.table.ROWS, port.fired, strict=True)}

    def _poison(self, fatal: Fatal) -> Refusal:
        """An invariant is broken: from here on nothing is freed and nothing granted."""
        with suppress(Exception):  # books that are broken may not even be readable
            fatal = fatal._replace(dump=(*self.core.rest(), *self.core.pools_hold()))
        self.fatal = fatal
        with suppress(Exception):  # a sink may be what broke
            self.core.ports.service.ask(0, S.BROKE)
        self.books.verdicts.append(fatal)
        self.books.effects.clear()
        return Refusal(f"the ledger is poisoned: {fatal.sentence}")
