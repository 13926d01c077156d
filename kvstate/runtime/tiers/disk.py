"""The slots of a durable pool, and the objects in a folder that they hold. Plain calls: no thread moves bytes here.

1. A STORE into a slot removes what the slot held, and writes its bytes where nobody finds them. So the pool's number of
   slots bounds what lies on the disk. A block of the host that has a seal is held against it first.
2. A PERSIST makes them visible under their name, unless a younger object has the name already: its job was over then.
3. A FETCH reads and checks an object that the slot holds, and none else. One that is bad is removed, so that no restart
   finds it again.
4. `undo` removes what one very part made visible, `adopt` says that a slot holds what was found, and `sweep` removes
   what no slot holds, or all. What a sweep of everything found half done can't become visible any more: its epoch is
   over.

Blocks are written and read `TOGETHER`: their files are opened one after the other, then their bytes are moved, then all
are closed. It takes the half of the time that a block's calls take between two copies, which leave nothing of them in
the core's caches, and a disk that is asked to keep them all has to be asked once (see `docs/tiers.md`).

Removing takes its time. So `undo` and `sweep` leave it to a thread; a sweep of everything renames one folder first, and
waits for that, but not for long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final

from kvstate.errors import Code, from_exception, properties_of
from kvstate.machines.messages import Adopt, Failure, Kind, Report, Sweep, Undo, Work
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.copy import Cancelled, answer
from kvstate.runtime.memory import Memory
from kvstate.runtime.stages import STAGES
from kvstate.runtime.tiers.blocks import check_seal, landing, reading
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.keeper import one_word
from kvstate.runtime.tiers.lines import TOGETHER, Lines
from kvstate.runtime.tiers.reading import Wanted
from kvstate.runtime.tiers.sealed import ObjectError
from kvstate.runtime.tiers.slots import Kept, Slots
from kvstate.wire import Found

PATIENCE: Final = 2.0
"""Seconds for which a reset waits for the disk to take the objects away."""


class Disk(Slots):
    """See the module. Blocks of the pool are numbered from `base`, so many as `slots`; `memory` has all other pools.

    `carry` may be called by several threads; the rest is for one, the one that gives out effects.
    """

    def __init__(self, folder: Folder, memory: Memory, base: int, slots: int, *, name: str = "disk") -> None:
        """Takes the folder for itself, and closes it in the end. `name` is that of the copier."""
        super().__init__(folder, base, slots, name)
        self._memory = memory
        self._troubles: list[str] = []
        self._order = threading.Lock()
        """Held by the one reset whose objects are being taken away."""
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
        """Some lines together, until all are done. Where something is stored, one line that fails ends it: the rest
        would be for nothing.
        """
        do = {Kind.STORE: self._store, Kind.PERSIST: self._persist, Kind.FETCH: self._fetch, Kind.VERIFY: self._verify}
        some_lines, blocks = do[Kind(work.kind)], work.dst if work.kind == Kind.STORE else work.src
        lines = Lines(work, cancelled)
        lines.slots = self.slots_of(blocks)
        for start in range(0, len(blocks), TOGETHER):
            some_lines(lines, range(start, min(start + TOGETHER, len(blocks))))
            if lines.stopped:
                break
        if work.kind == Kind.PERSIST:
            try:
                self.folder.settle(lines.done)
            except OSError as error:
                lines.failed(-1, error)
        return tuple(sorted(lines.failures, key=lambda failure: failure.line))

    def _store(self, lines: Lines, numbers: range) -> None:
        work, begun, filled = lines.work, [], []
        for line in numbers:
            try:
                self.empty(work.dst[line])
                kept = self.begin(lines.space(line), work.keys[line])
                length = self._memory.block_bytes
                begun.append((line, kept, self.folder.begin(kept.born, kept.space, kept.key, length, kept.name)))
            except Exception as error:
                lines.failed(line, error, stop=True)
                break
        while begun and not lines.cancelled(begun[0][0]):
            line, kept, file = begun[0]
            try:
                pieces = reading(self._memory, work.src[line])
                check_seal(self._memory, work.src[line], kept.key, pieces)
            except Exception as error:
                lines.failed(line, error, stop=True)
                break
            del begun[0]
            try:
                self.folder.fill(file, pieces)
            except Exception as error:
                lines.failed(line, error, stop=True)
                break
            filled.append((line, kept, file))
        for _, _, file in begun:
            self.folder.drop(file)
        for at, (line, kept, file) in enumerate(filled):
            try:
                self.folder.end(file)
            except Exception as error:
                lines.failed(line, error, stop=True)
                for _, _, left in filled[at + 1 :]:
                    self.folder.drop(left)
                break
            self._slots[lines.slots[line]] = kept

    def _persist(self, lines: Lines, numbers: range) -> None:
        for line in numbers:
            if lines.cancelled(line):
                return
            kept, block = self._slots[lines.slots[line]], lines.work.src[line]
            try:
                if kept is None or kept.key != lines.work.keys[line] or kept.space != lines.space(line):
                    raise ObjectError(Code.SLOT_CONFLICT, "commit", f"block {block} does not hold what was stored")
                self.show(kept, lines.slots[line], lines.work.token)
            except Exception as error:
                lines.failed(line, error, stop=True)
                return
            lines.done.append(kept.name)

    def _fetch(self, lines: Lines, numbers: range) -> None:
        work, slots, holders, places, space = lines.work, self._slots, self._holders, lines.slots, lines.space
        asked: list[tuple[int, Kept, Callable[[], None] | None]] = []
        wanted: list[Wanted] = []
        for line in numbers:
            try:
                kept, key = slots[places[line]], work.keys[line]
                if kept is None or holders.get(kept.name) is not kept or kept.key != key or kept.space != space(line):
                    kept = self.held(work, line, places[line], space(line), "fetch")  # says what is wrong
                into, land = landing(self._memory, work.dst[line])
                wanted.append((kept.name, kept.space, kept.key, into))
                asked.append((line, kept, land))
            except Exception as error:
                self._unfetched(lines, line, error)
        unwanted = None if lines.asked is None else lambda at: lines.cancelled(asked[at][0])
        outcomes = self.folder.read_each(wanted, self._memory.block_bytes, unwanted)
        for (line, kept, land), wrong in zip(asked, outcomes, strict=False):
            try:
                if wrong is not None:
                    raise wrong
                if holders.get(kept.name) is not kept:
                    raise ObjectError(Code.BLOCK_NOT_FOUND, "fetch", "it was removed while it was read")
                if land is not None:
                    land()
            except Exception as error:
                self._unfetched(lines, line, error)

    def _unfetched(self, lines: Lines, line: int, error: Exception) -> None:
        """What is bad is removed, if the slot holds it, and not another than was asked for."""
        lines.failed(line, error)
        if not isinstance(error, ObjectError) or not properties_of(error.error.code).condemns:
            return
        kept = self._slots[lines.slots[line]]
        if kept is not None and kept.visible and (kept.space, kept.key) == (lines.space(line), lines.work.keys[line]):
            self._tidy(partial(self.remove, kept))

    def _verify(self, lines: Lines, numbers: range) -> None:
        for line in numbers:
            if lines.cancelled(line):
                return
            try:
                kept = self.held(lines.work, line, lines.slots[line], lines.space(line), "verify")
                self.folder.check(kept.space, kept.key, reading(self._memory, lines.work.dst[line]))
            except Exception as error:
                lines.failed(line, error)

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
                self._broom.put(partial(self.remove, kept))

    def adopt(self, effect: Adopt) -> None:
        """As `Keeper.adopt`. What these slots held otherwise is left for the sweep."""
        for block, space, key in zip(effect.blocks, effect.spaces, effect.keys, strict=True):
            begun = self.take(self.slot_of(block), self.begin(space, key))
            if begun is not None:  # for a job that went with a rank
                self._broom.put(partial(self.folder.discard, begun.born))

    def sweep(self, effect: Sweep) -> None:
        """As `Keeper.sweep`. Where the folder can't be renamed, its files are removed one by one.

        That all is void is so at once, in this process. That it is on the disk is waited for `PATIENCE` seconds; a disk
        that hangs is told of, and until it answers nothing is made visible.
        """
        if not effect.everything:
            self._broom.put(self._sweep_unheld)
            return
        with self._books:
            self._epoch += 1
            self._sweeping += 1
            self._holders.clear()
            self.folder.void()
        thread = threading.Thread(target=self._clear, name=f"kvstate-{self.name}-reset", daemon=True)
        thread.start()
        thread.join(PATIENCE)
        if thread.is_alive():
            self._troubles.append(
                f"{self.name}: {self.folder.path} does not answer, and what a reset made void is still there; it is "
                "not served, but do not start another process before the disk answers"
            )

    def take_troubles(self) -> list[str]:
        """As `Keeper.take_troubles`."""
        return [self._troubles.pop(0) for _ in range(len(self._troubles))]

    def _clear(self) -> None:
        try:
            with self._order:
                self.folder.clear()
        except OSError as error:
            self._tell(error)
            self._broom.put(self._sweep_unheld)
        finally:
            self._broom.put(self.folder.bury)
            with self._books:
                self._sweeping -= 1
                self._calm.notify_all()

    def _sweep_unheld(self) -> None:
        for name in self.folder.names():
            with self._stripe(name):
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
        end = None if within is None else monotonic() + within
        with self._books:
            if not self._calm.wait_for(lambda: not self._sweeping, within):
                return False
        return self._broom.wait(None if end is None else max(end - monotonic(), 0.0))

    def close(self, within: float) -> bool:
        """End the thread, and let go of the folder if it has ended. Once no part is carried any more."""
        end = monotonic() + within
        with self._books:
            ended = self._calm.wait_for(lambda: not self._sweeping, within)
        if ended and self._broom.stop(max(end - monotonic(), 0.0)):
            self.folder.close()
            return True
        return False
