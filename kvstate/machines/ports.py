"""One machine of a ledger as the others see it: fire an event on one record, or on many.

`ask` fires a request or a report and says whether a row took it; `signal` fires what must never be refused in a
reachable world, and breaks loudly if it is; `each` is `signal` on many records. What follows from a row (the effects,
in order, and what they mean) is wired in by the cascade; here is only that it follows.

The ports of blocks, ours and the engine's, keep the views of their states in step (see `Books`); the ports of parts
and of keys see records off.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kvstate.machines import bulk
from kvstate.machines.books import BlockViews, Books
from kvstate.machines.config import DEVICE
from kvstate.machines.table import REFUSED, Table

if TYPE_CHECKING:
    from kvstate.machines.columns import View

Follow = Callable[[int], None]
"""What follows from a row, on the record that it fired on."""
FollowAll = Callable[[Sequence[int]], None]
"""The same, on many records that it fired on."""
Sink = Callable[[str, Sequence[int], str, int, int], None]
"""Told of every row that fires, on one record or on many: machine, slots, row id, state before, state after.

`Books.uid` tells the record in a slot from those before and after it. A sink runs in the middle of an input: it must be
quick, must not call the ledger, and must not raise, for an error in it poisons the ledger."""


class InvariantError(Exception):
    """Something happened that the data calls impossible. It never leaves the ledger as an exception."""

    def __init__(self, law: str, sentence: str) -> None:
        super().__init__(f"{law}: {sentence}")
        self.law = law
        self.sentence = sentence


class Port:
    """One machine: its table, what each row sets off, and how often each row has fired."""

    __slots__ = ("books", "each_at_once", "events", "fire", "fired", "level", "many", "name", "plan", "settles", "sink",
                 "state", "table", "view", "watches")  # fmt: skip

    def __init__(self, name: str, books: Books) -> None:
        self.name = name
        self.books = books
        self.table: Table = books.tables[name]
        self.fire = self.table.fire
        self.state = books.column(name, "state")
        self.events = {event: number for number, event in enumerate(self.table.EVENTS)}
        self.fired = [0] * len(self.table.ROWS)
        self.plan: list[tuple[Follow, ...]] = []
        """For each row: what follows from it, on one record."""
        self.many = self.table.MANY
        self.level: list[tuple[FollowAll, ...] | None] = []
        """For each row: what follows from it on many records at once; None where they have to go one by one."""
        self.each_at_once: tuple[bool, ...] = ()
        """For each event: may many records take it at once?"""
        self.view: View | None = None
        """NumPy's look at the columns, for a table that never grows."""
        self.sink: Sink | None = None
        """Who keeps the record of a run, if anybody does."""
        self.watches = type(self).moved is not Port.moved
        """Does this machine do anything in `moved`? To call what does nothing takes as long as a row."""
        self.settles = type(self).done is not Port.done
        """Does it in `done`?"""

    # -- one record ----------------------------------------------------------------------------------------------------

    def choose(self, slot: int, event: int) -> bool:
        """Would a row take it? Changes nothing."""
        return self.table.choose(slot, event) != REFUSED

    def ask(self, slot: int, event: int) -> bool:
        """Fire; False, and nothing changed, if no row takes it."""
        before = self.state[slot]
        row = self.fire(slot, event)
        if row == REFUSED:
            return False
        self.fired[row] += 1
        if self.sink is not None:
            self.sink(self.name, (slot,), self.table.ROWS[row], before, self.state[slot])
        if self.watches and before != self.state[slot]:
            self.moved((slot,), before, self.state[slot])
        for step in self.plan[row]:
            step(slot)
        if self.settles:
            self.done((slot,))
        return True

    def signal(self, slot: int, event: int) -> None:
        """Fire what must be taken; a refusal breaks an invariant."""
        if not self.ask(slot, event):
            raise self.broken(slot, event)

    def state_of(self, slot: int) -> str:
        """The word for the state of this record."""
        return self.table.STATES[self.state[slot]]

    def broken(self, slot: int, event: int) -> InvariantError:
        """No row takes what must be taken: the sentence that says so."""
        values = ", ".join(f"{var} {self.books.column(self.name, var)[slot]}" for var in self.table.VARS)
        uid = self.books.uid(self.name, slot)
        sentence = f"{self.name} {uid} is {self.state_of(slot)} ({values}) and no row takes {self.table.EVENTS[event]}"
        return InvariantError(f"{self.name}.{self.table.EVENTS[event]}", sentence)

    # -- many records --------------------------------------------------------------------------------------------------

    def takes(self, slots: Sequence[int], event: int) -> bool:
        """Would each of these slots take it? Changes nothing."""
        if self.many is not None and bulk.is_wide(slots):
            return bulk.columns.taken(self._view(), slots, event)  # type: ignore[union-attr, no-any-return]
        choose = self.table.choose
        for slot in slots:  # noqa: SIM110 - all() over a generator takes three times as long
            if choose(slot, event) == REFUSED:
                return False
        return True

    def ask_all(self, slots: Sequence[int], event: int) -> bool:
        """As `each` if every one of these takes it; False, and nothing changed, if one does not."""
        if self.each_at_once[event] and bulk.is_wide(slots):
            return self._fire_wide(slots, event)
        if not self.takes(slots, event):
            return False
        self.each(slots, event)
        return True

    def each(self, slots: Sequence[int], event: int) -> None:
        """As `signal` on one slot after the other; none of them stands twice in an array, while in a list it may.

        Where the wiring allows it (see `cascade`), all of them take their rows first, and then what follows from these
        is done for all that went the same arc one after the other. States, counters and the order in each view are
        those of one by one; the sink hears the rows level by level.
        """
        if len(slots) == 1 or not self.each_at_once[event]:
            for slot in slots:
                self.signal(slot, event)
        else:
            self._together(slots, event)

    def _together(self, slots: Sequence[int], event: int) -> None:
        """As `each`, of several, where the order makes no difference."""
        if len(slots) >= bulk.WIDE and bulk.is_wide(slots) and self._fire_wide(slots, event):
            return
        arcs = self.table.each(slots, event)  # where one of many refuses, too: the loop says which
        if arcs and arcs.count(arcs[0]) == len(slots):
            self._follow(slots, arcs[0])
            return
        self._follow_runs(slots, [(arc, sum(1 for _ in run)) for arc, run in groupby(arcs)])
        if len(arcs) < len(slots):
            self.signal(slots[len(arcs)], event)

    def _fire_wide(self, slots: Sequence[int], event: int) -> bool:
        """Fire by columns, and what follows; False, and nothing changed, if one of them refuses."""
        runs = bulk.columns.fire(self._view(), slots, event)  # type: ignore[union-attr]
        if runs is None:
            return False
        if len(runs) == 1:
            self._follow(slots, runs[0][0])
        else:
            self._follow_runs(slots, runs)
        return True

    def _follow_runs(self, slots: Sequence[int], runs: Sequence[tuple[int, int]]) -> None:
        """So many of these, one run after the other, have gone the same arc."""
        start = 0
        for arc, count in runs:
            self._follow(slots[start : start + count], arc)
            start += count

    def _follow(self, slots: Sequence[int], arc: int) -> None:
        """All of these have gone the same arc."""
        assert self.many is not None, f"{self.name} has no forms for many records"
        row, before, after = self.many.arcs[arc]
        self.fired[row] += len(slots)
        if self.sink is not None:
            self.sink(self.name, slots, self.table.ROWS[row], before, after)
        if self.watches and before != after:
            self.moved(slots, before, after)
        for step in self.level[row] or ():
            step(slots)
        if self.settles:
            self.done(slots)

    def _view(self) -> View:
        """NumPy's look at the columns. That of a table which grows must not outlive the call."""
        return bulk.columns.View(self.table) if self.view is None else self.view  # type: ignore[union-attr]

    # -- what a machine may add ----------------------------------------------------------------------------------------

    def moved(self, slots: Sequence[int], before: int, after: int) -> None:
        """Called when a row has taken these to another state and before its effects run."""

    def done(self, slots: Sequence[int]) -> None:
        """Called when the effects of a row have run; all of these are in one state."""


class BlockPort(Port):
    """Keeps the free list, the evictable order, the counts and the times of what is held in step."""

    __slots__ = ("views",)

    def __init__(self, name: str, books: Books) -> None:
        super().__init__(name, books)
        number = self.table.STATES.index
        self.views = BlockViews(
            number("free"), number("active"), number("cached"), (number("draining"), number("quarantined"))
        )
        bulk.look_for_numpy()
        if self.many is not None and bulk.columns is not None:
            self.view = self._view()

    def moved(self, slots: Sequence[int], before: int, after: int) -> None:
        self.books.blocks_moved(slots, before, after, self.views)

    def ask(self, slot: int, event: int) -> bool:
        """As any port's, in fewer steps: a block's uid is its slot, and `done` does nothing for it."""
        before = self.state[slot]
        row = self.fire(slot, event)
        if row == REFUSED:
            return False
        self.fired[row] += 1
        after = self.state[slot]
        if self.sink is not None:
            self.sink("block", (slot,), self.table.ROWS[row], before, after)
        if before != after:
            self.books.block_moved(slot, before, after, self.views)
        for step in self.plan[row]:
            step(slot)
        return True


class ForeignPort(Port):
    """Keeps the counts of the engine's own blocks in step, and since when each is held for us."""

    __slots__ = ("held", "owned")

    def __init__(self, name: str, books: Books) -> None:
        super().__init__(name, books)
        self.held, self.owned = map(self.table.STATES.index, ("held", "owned"))
        bulk.look_for_numpy()
        if self.many is not None and bulk.columns is not None:
            self.view = self._view()

    def at_once(self, blocks: array[int], event: int, *, owned: bool) -> bool:
        """Fire on all, if nothing of ours is with any, each is there once, and owned, if asked; else change nothing."""
        quiet = self.books.engine.filling.keys().isdisjoint(blocks) and bulk.distinct(blocks)
        for name in ("readers", "writers"):
            quiet = quiet and bulk.all_are(self.books.column(self.name, name), blocks, 0)
        if quiet and (not owned or bulk.all_are(self.state, blocks, self.owned)):
            (self.each if self.many is None else self._together)(blocks, event)
            return True
        return False

    def moved(self, slots: Sequence[int], before: int, after: int) -> None:
        books, counts = self.books, self.books.pools[DEVICE].counts
        counts[before] -= len(slots)
        counts[after] += len(slots)
        if after == self.held:
            books.held_since.update(dict.fromkeys(slots, books.now))
        elif before == self.held:
            for block in slots:
                del books.held_since[block]


class PartPort(Port):
    """A settled part leaves the record when its owner is over."""

    __slots__ = ()

    def done(self, slots: Sequence[int]) -> None:
        for slot in slots:
            if self.books.parts[slot].owner is None:
                self.books.doom_part(slot)


class KeyPort(Port):
    """A key that is neither ready nor cooling names no block; an absent one leaves the record."""

    __slots__ = ("naming",)

    def __init__(self, name: str, books: Books) -> None:
        super().__init__(name, books)
        self.naming = {self.table.STATES.index(state) for state in ("ready", "cooling")}

    def done(self, slots: Sequence[int]) -> None:
        state = self.state[slots[0]]
        if state not in self.naming:
            self.books.keys.unlink(slots)
            if state == self.table.INITIAL:
                self.books.doomed_keys.extend(slots)
