"""The slots of a pool that stands for an object store, and what parts do there. Plain calls, one request after another.

A slot says which object is meant; the object lies in the store, where others put and replace it as well. So:

1. A STORE copies a block into memory of ours, sums and all. Nothing is visible, and the block is free of us.
2. A PERSIST puts that where nothing is, in one request. What is there already and looks right was put by somebody who
   had the same bytes, and counts; a tombstone, or what is known to be bad, is replaced, if it is still that version.
3. A FETCH gets the object into memory of ours, looks at all of it, and copies it into the block by itself: a request
   that hangs touches no block. One that is bad is replaced by a tombstone, if it is still that version, so that it is
   no hit for anybody and the next store puts a good one there.
4. A SEEK looks which names have an object.
5. `undo` puts a tombstone where one very part had put an object, if it is still that. A slot that is given to another
   object leaves the old one in the store: whoever knows its key finds it again.
6. A reset (a sweep of everything) can't remove what others use. From then on all names are new ones.

A slot needs no lock: the ledger gives it to one part at a time (law L3).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kvstate.errors import Code, KVException, from_exception
from kvstate.machines.messages import Adopt, Failure, Kind, Report, Sweep, Undo, Work
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.copy import Cancelled
from kvstate.runtime.memory import Memory, NoSuchBlockError
from kvstate.runtime.stages import STAGES
from kvstate.runtime.tiers.blocks import check_seal, landing, reading
from kvstate.runtime.tiers.objects.kept import Kept, Source, fits, told
from kvstate.runtime.tiers.objects.names import Names
from kvstate.runtime.tiers.objects.staging import Staging
from kvstate.runtime.tiers.objects.versions import BadVersionError, Versions
from kvstate.runtime.tiers.sealed import ObjectError
from kvstate.wire import Found


class Objects:
    """See the module. Blocks of the pool are numbered from `base`, so many as `slots`; `memory` has all other pools.

    `carry` may be called by several threads; the rest is for one, the one that gives out effects.
    """

    def __init__(
        self, versions: Versions, names: Names, memory: Memory, base: int, slots: int, staging: Staging,
        *, name: str = "store", compare: bool = False, source: Source | None = None,
    ) -> None:  # fmt: skip
        """`name` is that of the copier. With `compare` a VERIFY compares the bytes in the block with their sum; else it
        trusts our own memory. `source` reads blocks of a pool that lies in files.
        """
        self.versions = versions
        """What is in the store."""
        self.names = names
        """Under which names."""
        self.name = name
        self.staging = staging
        """Bytes on their way."""
        self._memory = memory
        self._base = base
        self._slots: list[Kept | None] = [None] * slots
        self._compare = compare
        self._source = source
        self._epoch = 0
        self._troubles: list[str] = []
        self._broom: Workers[Callable[[], object]] = Workers(self._tidy, 1, f"kvstate-{name}-broom")

    # -- parts ---------------------------------------------------------------------------------------------------------

    def carry(self, work: Work, *, cancelled: Cancelled | None = None) -> Report:
        """Do what `work` says, now and in this thread. Total, and a proof, as `kvstate.runtime.copy.attempt`."""
        try:
            failures = self._do(work, cancelled)
        except BaseException as error:  # a copier's thread has nobody to raise to
            failures = (from_exception(error, stage=STAGES.get(work.kind, "fetch")),)
        return told(work, failures)

    def _do(self, work: Work, cancelled: Cancelled | None) -> tuple[Failure, ...]:
        """Line by line. Where something is stored, one line that fails ends it: the rest would be for nothing."""
        do = {
            Kind.STORE: self._store, Kind.PERSIST: self._persist, Kind.FETCH: self._fetch, Kind.VERIFY: self._verify,
            Kind.SEEK: self._seek,
        }  # fmt: skip
        line_of, stage, lines = do[Kind(work.kind)], STAGES[work.kind], len(work.keys)
        if not fits(work):
            raise ValueError(
                f"part {work.token.serial} has {len(work.src)} sources, {len(work.dst)} destinations and {lines} keys; "
                "a line has one of each"
            )
        failures: list[Failure] = []
        for line in range(lines):
            if cancelled is not None and cancelled():
                failures.append(Failure(line, int(Code.CANCELLED), stage, message=f"cancelled before line {line}"))
                break
            try:
                line_of(work, line)
            except Exception as error:
                failures.append(from_exception(error, stage=stage, line=line))
                if work.kind in (Kind.STORE, Kind.PERSIST):
                    break
        return tuple(failures)

    def _store(self, work: Work, line: int) -> None:
        slot, space, key = self._slot(work.dst[line]), work.space(line), work.keys[line]
        self._forget(slot)
        kept = Kept(space, key, self.names.of(space, key))
        seal, epoch = self.versions.seal, self._epoch
        begin = seal.begin_of(space, key, self._memory.block_bytes)
        kept.staged = self.staging.take(begin + self._memory.block_bytes)
        try:
            data = kept.staged.buffer.data
            self._copy(work.src[line], space, key, data[begin:])
            data[:begin] = seal.header(space, key, [data[begin:]])
        except BaseException:
            self.staging.give_back(kept.staged)
            raise
        if epoch == self._epoch:
            self._slots[slot] = kept
        else:
            self.staging.give_back(kept.staged)

    def _copy(self, block: int, space: str, key: bytes, into: memoryview) -> None:
        """The bytes of a block, of whichever pool above, end to end."""
        if self._source is not None and self._source(block, space, key, into):
            return
        pieces, at, to = reading(self._memory, block), 0, np.frombuffer(into, np.uint8)
        check_seal(self._memory, block, key, pieces)
        for piece in pieces:
            size = piece.nbytes
            np.copyto(to[at : at + size], np.frombuffer(piece, np.uint8))
            at += size

    def _persist(self, work: Work, line: int) -> None:
        kept = self._slots[self._slot(work.src[line])]
        if kept is None or (kept.space, kept.key) != (work.space(line), work.keys[line]):
            raise ObjectError(Code.SLOT_CONFLICT, "commit", f"block {work.src[line]} does not hold what was stored")
        if kept.visible:
            kept.token = work.token
            return
        staged, epoch, put = kept.staged, self._epoch, kept.put
        if staged is None or not self.staging.hold(staged):
            raise ObjectError(Code.NO_SPACE, "commit", "its bytes have waited for too long, and gave way to others")
        kept.token = work.token
        try:
            self.versions.put(kept.name, staged.buffer.data, put)
        finally:
            self.staging.let_go(staged, clean=not put.doubtful)
        self.staging.give_back(staged)
        kept.staged, kept.visible = None, True
        if epoch != self._epoch:
            kept.visible = False
            self.versions.take_back(kept.name, put)
            raise ObjectError(Code.CANCELLED, "commit", "the cache was reset meanwhile")

    def _fetch(self, work: Work, line: int) -> None:
        kept = self._held(work, line, "fetch")
        try:
            kept.said, data = self.versions.get(kept.name, kept.space, kept.key)
        except BadVersionError as error:
            self._broom.put(partial(self.versions.bury, kept.name, error.e_tag, error.error.message))
            raise
        into, land = landing(self._memory, work.dst[line])
        at = 0
        for piece in into:
            np.copyto(np.frombuffer(piece, np.uint8), np.frombuffer(data[at : at + piece.nbytes], np.uint8))
            at += piece.nbytes
        if land is not None:
            land()

    def _verify(self, work: Work, line: int) -> None:
        kept = self._held(work, line, "verify")
        if kept.said is None:
            raise ObjectError(Code.BLOCK_NOT_FOUND, "verify", f"block {work.src[line]} was not fetched")
        if self._compare:
            self.versions.seal.check_bytes(kept.said, reading(self._memory, work.dst[line]), "verify")

    def _seek(self, work: Work, line: int) -> None:
        if not self.versions.is_there(self.names.of(work.space(line), work.keys[line])):
            raise ObjectError(Code.BLOCK_NOT_FOUND, "lookup", "it is not in the store")

    def _held(self, work: Work, line: int, stage: str) -> Kept:
        """What the slot means, if that is what is asked for."""
        block, key, kept = work.src[line], work.keys[line], self._slots[self._slot(work.src[line])]
        if kept is None or not kept.visible:
            raise ObjectError(Code.BLOCK_NOT_FOUND, stage, f"block {block} stands for nothing")
        if (kept.space, kept.key) != (work.space(line), key):
            raise ObjectError(
                Code.KEY_MISMATCH,
                stage,
                f"block {block} stands for {kept.key.hex()} of {kept.space!r}, not {key.hex()}",
            )
        return kept

    def _slot(self, block: int) -> int:
        """Errors: `NoSuchBlockError`."""
        if not 0 <= block - self._base < len(self._slots):
            raise NoSuchBlockError(f"block {block} is none of {self.name}'s {len(self._slots)} from {self._base} on")
        return block - self._base

    def _forget(self, slot: int) -> None:
        """The slot means nothing any more; what is in the store stays there."""
        kept, self._slots[slot] = self._slots[slot], None
        if kept is not None and kept.staged is not None:
            self.staging.give_back(kept.staged)

    def staged(self, block: int) -> memoryview | None:
        """The bytes of a slot that wait to be put, header included; for tests, and for whoever breaks them."""
        kept = self._slots[self._slot(block)]
        return None if kept is None or kept.staged is None or kept.staged.gone else kept.staged.buffer.data

    # -- as a keeper ---------------------------------------------------------------------------------------------------

    def found(self) -> Found:
        """As `Keeper.found`: nothing. A store may hold anything, and is asked for what is wanted."""
        return Found(self.name, (), (), 0, 0, 0, last=True)

    def undo(self, effect: Undo) -> None:
        """As `Keeper.undo`. What was not put is given up at once; what was, is replaced in a thread."""
        for block, key in zip(effect.src, effect.keys, strict=False):
            kept = self._slots[block - self._base] if 0 <= block - self._base < len(self._slots) else None
            if kept is None or kept.key != key:
                continue
            if kept.staged is not None:
                self._forget(block - self._base)
            if kept.token == effect.token:
                kept.visible = False
                self._broom.put(partial(self.versions.take_back, kept.name, kept.put))

    def adopt(self, effect: Adopt) -> None:
        """As `Keeper.adopt`."""
        for block, space, key in zip(effect.blocks, effect.spaces, effect.keys, strict=True):
            slot = self._slot(block)
            self._forget(slot)
            kept = self._slots[slot] = Kept(space, key, self.names.of(space, key))
            kept.visible = True

    def sweep(self, effect: Sweep) -> None:
        """As `Keeper.sweep`. What no slot holds may be somebody else's and stays. After a sweep of everything nothing
        that was stored before is found here, since all names are others from then on.
        """
        if not effect.everything:
            return
        self._epoch += 1
        self.names.renew()
        self.versions.forget_bad()
        for slot in range(len(self._slots)):
            self._forget(slot)

    def take_troubles(self) -> list[str]:
        """As `Keeper.take_troubles`."""
        return [self._troubles.pop(0) for _ in range(len(self._troubles))]

    def look_around(self) -> None:
        """See, in a thread, whether the store can be read; a trouble says so if not."""
        self._broom.put(self._reach)

    def _reach(self) -> None:
        sentence = self.versions.bucket.reach(self.names.root)
        if sentence:
            self._troubles.append(f"{self.name}: {sentence}")

    def _tidy(self, job: Callable[[], object]) -> None:
        try:
            job()
        except KVException as error:
            self._troubles.append(
                f"{self.name}: {self.versions.bucket.url} still has what is void: {error.error.message}"
            )

    # -- the end -------------------------------------------------------------------------------------------------------

    def settle(self, within: float | None = None) -> bool:
        """Wait until all that was to be replaced is, or could not be; False if that took longer."""
        return self._broom.wait(within)

    def close(self, within: float) -> bool:
        """End the thread. Once no part is carried any more."""
        return self._broom.stop(within)
