"""The slots of a durable pool, and the objects in a folder that they hold. Plain calls: no thread moves bytes here.

A slot holds one object, and an object is held by one slot, the last that was made visible under its name. So:

1. A STORE into a slot removes what the slot held, and writes its bytes where nobody finds them. So the pool's number of
   slots bounds what lies on the disk. A block of the host that has a seal is held against it first.
2. A PERSIST makes them visible under their name, unless a younger object has the name already: its job was over then.
3. A FETCH reads and checks an object that the slot holds, and none else. One that is bad is removed, so that no restart
   finds it again.
4. `undo` removes what one very part made visible, `adopt` says that a slot holds what was found, and `sweep` removes
   what no slot holds, or all. What a sweep of everything found half done can't become visible any more: its epoch is
   over.

Names are locked by stripes: a file is renamed, replaced or removed by one thread at a time, and the slot that holds it
changes with it. A slot itself needs no lock: the ledger gives it to one part at a time (law L3).

Removing takes its time. So `undo` and `sweep` leave it to a thread; a sweep of everything renames one folder first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Final

from kvstate.errors import Code, from_exception, properties_of
from kvstate.machines.messages import Adopt, Failure, Kind, Report, Sweep, Token, Undo, Work
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.copy import Cancelled, answer
from kvstate.runtime.memory import Memory, NoSuchBlockError
from kvstate.runtime.stages import STAGES
from kvstate.runtime.tiers.blocks import check_seal, landing, reading
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.keeper import one_word
from kvstate.runtime.tiers.sealed import ObjectError
from kvstate.wire import Found

STRIPES: Final = 64
"""Locks over all names."""
NEVER: Final = -1
"""The epoch of what can't become visible."""


class Kept:
    """One object, from the moment in which its slot was given to it."""

    __slots__ = ("born", "epoch", "key", "name", "space", "token", "visible")

    def __init__(self, born: int, epoch: int, space: str, key: bytes, name: str) -> None:
        self.born = born
        """Numbers all of them, in the order in which they were begun; names its bytes until they are visible."""
        self.epoch = epoch
        """How many sweeps of everything there had been."""
        self.space = space
        """Its key space."""
        self.key = key
        """Its key there."""
        self.name = name
        """That of its file."""
        self.token: Token | None = None
        """Of the part that made it visible; None for one that was found."""
        self.visible = False
        """Does its name lead to it, as far as nobody else took the name?"""


class Disk:
    """See the module. Blocks of the pool are numbered from `base`, so many as `slots`; `memory` has all other pools.

    `carry` may be called by several threads; the rest is for one, the one that gives out effects.
    """

    def __init__(self, folder: Folder, memory: Memory, base: int, slots: int, *, name: str = "disk") -> None:
        """Takes the folder for itself, and closes it in the end. `name` is that of the copier."""
        self.folder = folder
        """Where the files are."""
        self.name = name
        self._memory = memory
        self._base = base
        self._slots: list[Kept | None] = [None] * slots
        self._holders: dict[str, Kept] = {}
        """Who has the name of a file."""
        self._stripes = [threading.Lock() for _ in range(STRIPES)]
        self._births = count(1)
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
        return Report(work.token, answer(failures, proved=True), failures)

    def _do(self, work: Work, cancelled: Cancelled | None) -> tuple[Failure, ...]:
        """Line by line. Where something is stored, one line that fails ends it: the rest would be for nothing."""
        do = {Kind.STORE: self._store, Kind.PERSIST: self._persist, Kind.FETCH: self._fetch, Kind.VERIFY: self._verify}
        line_of, stage, lines = do[Kind(work.kind)], STAGES[work.kind], len(work.src)
        slots = work.dst if work.kind == Kind.STORE else work.src
        if len(work.keys) != lines or (len(work.dst) != lines and work.kind != Kind.PERSIST):
            raise ValueError(
                f"part {work.token.serial} has {lines} sources, {len(work.dst)} destinations and {len(work.keys)} "
                "keys; a line has one of each"
            )
        places = [self._slot(block) for block in slots]
        failures, done, spaces, space = list[Failure](), list[str](), work.spaces, work.space(0)
        many = len(spaces) > 1
        for line, slot in enumerate(places):
            if cancelled is not None and cancelled():
                failures.append(Failure(line, int(Code.CANCELLED), stage, message=f"cancelled before line {line}"))
                break
            try:
                done.append(line_of(work, line, slot, spaces[line] if many else space))
            except Exception as error:
                failures.append(from_exception(error, stage=stage, line=line))
                if work.kind in (Kind.STORE, Kind.PERSIST):
                    break
        if work.kind == Kind.PERSIST:
            try:
                self.folder.settle(done)
            except OSError as error:
                failures.append(from_exception(error, stage=stage))
        return tuple(failures)

    def _store(self, work: Work, line: int, slot: int, space: str) -> str:
        key = work.keys[line]
        self.empty(work.dst[line])
        kept = Kept(next(self._births), self._epoch, space, key, self.folder.name_of(space, key))
        pieces = reading(self._memory, work.src[line])
        check_seal(self._memory, work.src[line], key, pieces)
        self.folder.write(kept.born, space, key, pieces, kept.name)
        self._slots[slot] = kept
        return kept.name

    def _persist(self, work: Work, line: int, slot: int, space: str) -> str:
        kept = self._slots[slot]
        if kept is None or (kept.space, kept.key) != (space, work.keys[line]):
            raise ObjectError(Code.SLOT_CONFLICT, "commit", f"block {work.src[line]} does not hold what was stored")
        with self._lock(kept.name):
            holder = self._holders.get(kept.name)
            if kept.epoch != self._epoch or (holder is not None and holder.born > kept.born):
                if not kept.visible:
                    self.folder.discard(kept.born)
                    kept.epoch = NEVER
                raise ObjectError(Code.CANCELLED, "commit", "its key was given to another since, or was swept away")
            if kept.visible and holder is not kept:
                raise ObjectError(Code.CANCELLED, "commit", "it was made visible before, and has been removed")
            if not kept.visible:
                self.folder.commit(kept.born, settle=False)
            kept.visible, kept.token = True, work.token
            self._holders[kept.name] = kept
        return kept.name

    def _fetch(self, work: Work, line: int, slot: int, space: str) -> str:
        kept = self._held(work, line, slot, space, "fetch")
        into, land = landing(self._memory, work.dst[line])
        try:
            self.folder.read(kept.space, kept.key, into, kept.name)
        except ObjectError as error:
            if properties_of(error.error.code).condemns:
                self._remove(kept)
            raise
        if land is not None:
            land()
        return kept.name

    def _verify(self, work: Work, line: int, slot: int, space: str) -> str:
        kept = self._held(work, line, slot, space, "verify")
        self.folder.check(kept.space, kept.key, reading(self._memory, work.dst[line]))
        return kept.name

    def _held(self, work: Work, line: int, slot: int, space: str, stage: str) -> Kept:
        """The object in a slot, if it is the one that is asked for."""
        block, key, kept = work.src[line], work.keys[line], self._slots[slot]
        if kept is None or not kept.visible or self._holders.get(kept.name) is not kept:
            raise ObjectError(Code.BLOCK_NOT_FOUND, stage, f"block {block} holds nothing")
        if (kept.space, kept.key) != (space, key):
            raise ObjectError(
                Code.KEY_MISMATCH, stage, f"block {block} holds key {kept.key.hex()} of {kept.space!r}, not {key.hex()}"
            )
        return kept

    def _slot(self, block: int) -> int:
        """Errors: `NoSuchBlockError`."""
        if not 0 <= block - self._base < len(self._slots):
            raise NoSuchBlockError(f"block {block} is none of {self.name}'s {len(self._slots)} from {self._base} on")
        return block - self._base

    def empty(self, block: int) -> None:
        """What a slot holds, visible or not, goes from the disk, as far as it is still the slot's."""
        kept, self._slots[block - self._base] = self._slots[self._slot(block)], None
        if kept is not None and kept.visible:
            self._remove(kept)
        elif kept is not None:
            self.folder.discard(kept.born)

    def _remove(self, kept: Kept) -> None:
        with self._lock(kept.name):
            if self._holders.get(kept.name) is kept:
                self.folder.remove_named(kept.name)
                del self._holders[kept.name]

    def _lock(self, name: str) -> threading.Lock:
        return self._stripes[int(name[:8], 16) % STRIPES]

    def path_of(self, block: int) -> str | None:
        """Where the bytes of a slot's object lie now, visible or not; for tests, and for whoever breaks them."""
        kept = self._slots[self._slot(block)]
        if kept is None or (kept.visible and self._holders.get(kept.name) is not kept):
            return None
        return self.folder.path_of(kept.name if kept.visible else kept.born)

    # -- as a keeper ---------------------------------------------------------------------------------------------------

    def found(self) -> Found:
        """As `Keeper.found`. Objects of blocks of another size are none that can be served."""
        start = self.folder.start
        good = [one for one in start.found if one.length == self._memory.block_bytes]
        refused = len(start.refused) + len(start.found) - len(good)
        spaces = one_word([one.namespace for one in good])
        return Found(
            self.name, spaces, tuple(one.key for one in good), start.removed, refused, len(start.strange), last=True
        )

    def undo(self, effect: Undo) -> None:
        """As `Keeper.undo`."""
        for block in effect.src:
            kept = self._slots[block - self._base] if 0 <= block - self._base < len(self._slots) else None
            if kept is not None and kept.token == effect.token:
                self._broom.put(partial(self._remove, kept))

    def adopt(self, effect: Adopt) -> None:
        """As `Keeper.adopt`. What these slots held otherwise is left for the sweep."""
        for block, space, key in zip(effect.blocks, effect.spaces, effect.keys, strict=True):
            slot, name = self._slot(block), self.folder.name_of(space, key)
            kept = Kept(next(self._births), self._epoch, space, key, name)
            kept.visible = True
            before, self._slots[slot] = self._slots[slot], kept
            if before is not None and not before.visible:  # begun for a job that went with a rank
                self._broom.put(partial(self.folder.discard, before.born))
            elif before is not None:
                with self._lock(before.name):
                    if self._holders.get(before.name) is before:
                        del self._holders[before.name]
            with self._lock(name):
                self._holders[name] = kept

    def sweep(self, effect: Sweep) -> None:
        """As `Keeper.sweep`. Where the folder can't be renamed, its files are removed one by one."""
        if not effect.everything:
            self._broom.put(self._sweep_unheld)
            return
        with ExitStack() as locks:
            for stripe in self._stripes:
                locks.enter_context(stripe)
            self._epoch += 1
            self._holders.clear()
            try:
                self.folder.clear()
            except OSError as error:
                self._tell(error)
                self._broom.put(self._sweep_unheld)
        self._broom.put(self.folder.bury)

    def take_troubles(self) -> list[str]:
        """As `Keeper.take_troubles`."""
        return [self._troubles.pop(0) for _ in range(len(self._troubles))]

    def _sweep_unheld(self) -> None:
        for name in self.folder.names():
            with self._lock(name):
                if name not in self._holders:
                    self._tidy(partial(self.folder.remove_named, name))  # one that stays keeps no other from going

    def _tidy(self, job: Callable[[], object]) -> None:
        try:
            job()
        except OSError as error:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        self._troubles.append(f"{self.name}: what is void could not be removed from {self.folder.path}: {error}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def settle(self, within: float | None = None) -> bool:
        """Wait until all that was to be removed is; False if that took longer."""
        return self._broom.wait(within)

    def close(self, within: float) -> bool:
        """End the thread, and let go of the folder if it has ended. Once no part is carried any more."""
        if ended := self._broom.stop(within):
            self.folder.close()
        return ended
