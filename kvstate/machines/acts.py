"""The acts of `coupling.toml`: what the ledger itself does when a row has an effect.

An act writes a link down, mints the tokens of new work, arms a timer, asks a part to stop, or tells the scheduler. It
never assigns a state or a counter: where something has to change its state, an act fires an event through a port, like
everybody else. Links are written BEFORE the couplings of an effect fire, and struck AFTER them; `coupling.toml` says
which is which.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain

from kvstate.errors import Code, KVError, properties_of
from kvstate.machines import bulk
from kvstate.machines.causes import STAGES, in_order, silent, unanswered
from kvstate.machines.groups import by_space, told
from kvstate.machines.messages import NO_BLOCKS, NO_REFS, BlockRef, Cancel, Failure, Kind, Undo, Work
from kvstate.machines.naming import publish
from kvstate.machines.records import Batch, Job, Load, Part
from kvstate.machines.relations import job_keys
from kvstate.machines.seek_acts import SeekActs, wait_no_more
from kvstate.machines.tables.part import Event as PE
from kvstate.machines.tables.part import State as P
from kvstate.machines.verdicts import Ending, GroupVerdict, JobVerdict, LoadVerdict, Settlement

ENDINGS = {"tell_committed": Ending.COMMITTED, "tell_failed": Ending.FAILED, "tell_cancelled": Ending.CANCELLED}
"""What each effect tells the owner of a job."""


class Acts(SeekActs):
    """Every public method is an act: it takes the record whose row fired and the effect's name."""

    __slots__ = ()

    # -- parts ---------------------------------------------------------------------------------------------------------

    def count_stale(self, part: Part, effect: str) -> None:
        """The report was late, repeated or of no use: counted, and nothing else."""
        self.books.stale += 1

    def keep_adopted(self, part: Part, effect: str) -> None:
        """The step reads the blocks that the lease has just handed over, until it retires."""
        part.reads.extend(self.books.handing)

    def note_failures(self, part: Part, effect: str) -> None:
        """Keep what the worker said, with block, token and attempt, for whoever owns the part (law L10)."""
        books = self.books
        heard = books.heard
        assert heard is not None, f"part {part.token.serial} has {effect} without a report"
        named = [failure for failure in heard.failures if 0 <= failure.line < len(part.names)]
        bad = [failure for failure in heard.failures if properties_of(failure.code).condemns]
        lines = [failure.line for failure in bad or named]
        part.bad = () if any(failure not in named for failure in bad) else tuple(dict.fromkeys(lines))
        if part.owner is None:
            return
        machine, slot = part.owner
        owner = books.jobs[slot] if machine == "offload" else books.batches[slot]
        failures = heard.failures or (silent(part.kind, heard.outcome),)
        owner.failures.extend(self._error(part, failure) for failure in failures)

    def _error(self, part: Part, failure: Failure) -> KVError:
        blocks = part.writes or part.reads
        failure = failure if failure.stage else failure._replace(stage=STAGES[part.kind])
        line = failure.line if 0 <= failure.line < len(blocks) else -1
        ref = self.books.ref(blocks[line]) if line >= 0 else BlockRef(-1, -1)
        return KVError.of(failure, block=ref.block, generation=ref.generation, token=part.token, attempt=part.attempt)

    def undo_late(self, part: Part, effect: str) -> None:
        """A persist answered after its job was over: remove what it may have made durable. A live job sees to it."""
        if part.kind is Kind.PERSIST and part.owner is None:
            self._undo(part)

    def _undo(self, part: Part) -> None:
        self.books.effects.append(Undo(part.token, part.rank, part.copier, tuple(part.reads), part.keys))

    # -- starting and stopping work ------------------------------------------------------------------------------------

    def launch_parts(self, owner: Job | Batch, effect: str) -> None:
        """Send the copies of a job or batch on their way; of an earlier attempt nothing is remembered."""
        self._let_go(owner)
        if isinstance(owner, Job):
            self._launch(owner, "offload", Kind.STORE, owner.after_step)
        else:
            self._launch(owner, "transfer", Kind.FETCH, self.books.engine.fetch_after(self.books.steps))

    def launch_persist(self, job: Job, effect: str) -> None:
        """Have what was copied made durable; in a pool that is not, the parts are answered in the same input."""
        self._launch(job, "offload", Kind.PERSIST, 0, at_once=not self.books.pools[job.pool].config.durable)

    def launch_verify(self, batch: Batch, effect: str) -> None:
        """Have the fetched bytes checked; from a pool that is not verified, the parts are answered likewise."""
        self._launch(batch, "transfer", Kind.VERIFY, 0, at_once=not self.books.pools[batch.pool].config.verify)

    def _launch(self, owner: Job | Batch, machine: str, kind: Kind, after_step: int, *, at_once: bool = False) -> None:
        books, copier = self.books, self.books.pools[owner.pool].config.copier
        attempt = books.column(machine, "attempt")[owner.slot]
        books.retries += attempt > 1 and kind in (Kind.STORE, Kind.FETCH)
        all_names, all_spaces = NO_REFS, owner.spaces
        if isinstance(owner, Batch):
            all_names, all_spaces = owner.names, all_spaces or (books.loads[owner.load].namespace,)
        for rank, lines in self._chunks(len(owner.keys)):
            src, dst, keys, names, spaces = owner.srcs, owner.dsts, owner.keys, all_names, all_spaces
            if lines is not None:
                src, dst, keys, names = bulk.cut(src, lines), bulk.cut(dst, lines), keys[lines], names[lines]
                spaces = spaces if len(spaces) == 1 else spaces[lines]
            if kind is Kind.PERSIST:
                src, dst = dst, NO_BLOCKS
            reads, writes = (src + dst, NO_BLOCKS) if kind is Kind.VERIFY else (src, dst)
            part = Part(
                books.parts.slot(), books.mint(), kind, rank, copier, attempt, (machine, owner.slot),
                reads, writes, names, keys, books.now,
            )  # fmt: skip
            books.enter_part(part)
            owner.parts.append(part.slot)
            self.ports.part.signal(part.slot, PE.LAUNCH)
            if at_once:
                books.at_once.append(part.token)
            else:
                books.effects.append(
                    Work(
                        part.token, kind.value, rank, copier, attempt, tuple(src), tuple(dst), keys, after_step, spaces
                    )
                )

    def _chunks(self, lines: int) -> list[tuple[int, slice | None]]:
        """The parts of so many lines, rank by rank; None is all of them, which is how it is for most."""
        size, ranks = self.books.config.part_blocks, range(self.books.config.ranks)
        if lines <= size:
            return [(rank, None) for rank in ranks]
        return [(rank, slice(start, start + size)) for rank in ranks for start in range(0, lines, size)]

    def ask_cancel(self, owner: Job | Batch, effect: str) -> None:
        """Ask what is still under way to stop. The answer, or the lapse, ends the wait; the asking ends nothing."""
        books = self.books
        for slot in owner.parts:
            if books.parts_state[slot] == P.FLYING:
                books.effects.append(Cancel(books.parts[slot].token))
        if isinstance(owner, Job):
            books.arm(books.now + books.config.grace, "offload", "lapse", owner.slot)

    def undo_persist(self, job: Job, effect: str) -> None:
        """Remove what the job's own parts made durable; a part that was given up carries it until it answers."""
        for slot in job.parts:
            part = self.books.parts[slot]
            if part.kind is Kind.PERSIST and self.books.parts_state[slot] != P.LOST:
                self._undo(part)

    def arm_retry(self, owner: Job | Batch, effect: str) -> None:
        """Back off before the next attempt, twice as long each time."""
        books = self.books
        machine = "offload" if isinstance(owner, Job) else "transfer"
        attempt = books.column(machine, "attempt")[owner.slot]
        books.arm(books.now + books.config.retry_delay * 2 ** (attempt - 1), machine, "retry_due", owner.slot)

    def arm_warm(self, key: int, effect: str) -> None:
        """Let the key be a hit again when it has cooled."""
        self.books.arm(self.books.now + self.books.config.cool_for, "key", "warm", key)

    # -- an offload ends -----------------------------------------------------------------------------------------------

    def link_keys(self, job: Job, effect: str) -> None:
        """From here on the keys name the blocks that were filled for them."""
        self.books.keys.link(job.key_slots, job.dsts)

    def forget_srcs(self, job: Job, effect: str) -> None:
        """The job has let go of its sources."""
        job.srcs = NO_BLOCKS

    def forget_dsts(self, job: Job, effect: str) -> None:
        """The job has released its slots."""
        job.dsts = NO_BLOCKS

    def tell_job(self, job: Job, effect: str) -> None:
        """Tell how the job ended; it writes no key any more, and leaves the record."""
        books = self.books
        books.turn += 1
        ending = ENDINGS[effect]
        errors = job.failures
        if ending is Ending.FAILED and books.now >= job.deadline:
            errors = in_order(unanswered(Code.LOAD_TIMEOUT, "store"), errors)
        keys = job.keys if ending is Ending.COMMITTED else ()
        books.verdicts.append(
            JobVerdict(job.id, job.lease, ending, keys, tuple(errors) if ending is Ending.FAILED else ())
        )
        bulk.put(books.keys.writers, job_keys(books, job), 0)
        self._let_go(job)
        books.doomed.append(("offload", job.slot))

    def _let_go(self, owner: Job | Batch) -> None:
        """The owner is over, or starts anew: its parts answer for themselves from here on."""
        for slot in owner.parts:
            self.books.parts[slot].owner = None
            self.books.doom_part(slot)
        owner.parts = []

    # -- a batch ends --------------------------------------------------------------------------------------------------

    def name_blocks(self, batch: Batch, effect: str) -> None:
        """Publish the loaded blocks; they stay private if the cache was reset meanwhile or another was first."""
        books = self.books
        if batch.epoch != books.epoch or books.engine.count:  # a block of the engine's has no name here
            return
        if not batch.spaces:
            publish(books, self.ports, batch.dsts, books.loads[batch.load].namespace, batch.keys)
        for space, lines in by_space(batch.spaces).items():
            blocks = array("q", [batch.dsts[line] for line in lines])
            publish(books, self.ports, blocks, space, [batch.keys[line] for line in lines])

    def strike_left(self, batch: Batch, effect: str) -> None:
        """The lease has left the batch's blocks: a copy may still write them."""
        self.books.strike(self.books.leases[self.books.loads[batch.load].lease], batch.dsts)
        batch.left, batch.dsts = batch.dsts, NO_BLOCKS

    def strike_unpinned(self, batch: Batch, effect: str) -> None:
        """The lease's pins on the batch's sources have been released."""
        lease = self.books.leases[self.books.loads[batch.load].lease]
        if len(lease.pins) == len(batch.srcs):  # every one of these is a pin of the lease
            lease.pins.clear()
        for block in batch.srcs if lease.pins else ():
            del lease.pins[block]
        batch.srcs = NO_BLOCKS

    def advance_turn(self, batch: Batch, effect: str) -> None:
        """The batch is committed: the next one may."""
        self.books.loads[batch.load].turn += 1
        self._unlist(batch)

    def note_hole(self, batch: Batch, effect: str) -> None:
        """The batch fell: nothing behind it may commit."""
        load = self.books.loads[batch.load]
        load.hole = batch.index if load.hole is None else min(load.hole, batch.index)
        self._unlist(batch)

    def note_over(self, batch: Batch, effect: str) -> None:
        """The batch has settled; its parts answer for themselves."""
        self.books.loads[batch.load].live.remove(batch.slot)
        self._unlist(batch)
        self._let_go(batch)

    def _unlist(self, batch: Batch) -> None:
        """Nobody waits for these keys any more."""
        if not batch.spaces:
            self._unlist_in(self.books.loads[batch.load].namespace, batch, batch.awaited)
        elif batch.awaited:
            for space, lines in by_space(batch.spaces).items():
                self._unlist_in(space, batch, [batch.awaited[line] for line in lines])
        batch.awaited = ()

    def _unlist_in(self, namespace: str, batch: Batch, awaited: Sequence[bytes]) -> None:
        books = self.books
        loading = books.loading.get(namespace, {})
        if len(loading) == len(awaited) and set(loading.values()) == {batch.slot} and not books.pending_since:
            loading.clear()  # all that is awaited there is the batch's
        for key in awaited if loading else ():
            if loading.get(key) == batch.slot:
                del loading[key]
                if books.pending_since:
                    wait_no_more(books, namespace, key)
        if not loading:
            books.loading.pop(namespace, None)

    # -- a load ends ---------------------------------------------------------------------------------------------------

    def tell_load(self, load: Load, effect: str) -> None:
        """Tell how long the prefix is, which blocks the lease kept and left, and why it is no longer."""
        books = self.books
        batches = [books.batches[slot] for slot in load.batches]
        for batch in batches:
            self._unlist(batch)
        lines = sum(len(batch.keys) for batch in batches[: load.turn])
        blocks = load.positions[lines] if lines < len(load.positions) else load.total
        ending = Ending.RECOMPUTE if load.turn < len(batches) else Ending.PROCEED
        kept = tuple(chain.from_iterable(batch.dsts for batch in batches))
        left = tuple(chain.from_iterable(batch.left for batch in batches))
        if effect == "tell_aborted":
            ending, kept, left = Ending.ABORTED, kept[:0], left[:0]
        errors = tuple(error for batch in batches for error in batch.failures) if ending is Ending.RECOMPUTE else ()
        if ending is Ending.RECOMPUTE and not errors:
            errors = (unanswered(load.ended_by, "fetch"),)
        tokens, groups = blocks * books.config.tokens_per_block, books.config.groups
        parts: tuple[GroupVerdict, ...] = ()
        if groups:
            tokens, parts = told(groups, load, () if ending is Ending.ABORTED else batches, lines)
            blocks = parts[0].blocks
        books.leases[load.lease].loads.remove(load.slot)
        books.verdicts.append(LoadVerdict(load.id, load.lease, ending, tokens, blocks, kept, left, errors, parts))

    def tell_settled(self, load: Load, effect: str) -> None:
        """Tell that no copy of the load is waited for any more; it leaves the record with its batches."""
        books = self.books
        books.verdicts.append(Settlement(load.id))
        books.doomed.extend(("transfer", slot) for slot in load.batches)
        books.doomed.append(("load", load.slot))
