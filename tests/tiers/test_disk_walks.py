"""Stores, persists, undos, sweeps, adoptions, faults and deaths in any order, against what a restart has to find.

The reference is a dictionary: under each key the one object that is visible. It knows objects by a hidden number of its
own, in the order in which they were begun, and never looks at a token or a file. Bytes are of a key *and* of an epoch,
so that an object of before a sweep of everything would be seen.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome, Token
from tests.runtime.parts import fill, holds, key
from tests.tiers.rig import Rig, codes, slot

SLOTS, KEYS = 3, 3


@dataclass(eq=False)
class Thing:
    """An object, wherever it is on its way."""

    number: int
    key: int
    epoch: int
    token: Token | None = None
    """Of the persist that made it visible."""
    spoilt: bool = False
    shown: bool = False
    """Has it ever been visible? It is made so once."""


class Walk:
    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp())
        self.rig = Rig(self.path, slots=SLOTS)
        self.numbers = count(1)
        self.epoch = 0
        self.slots: list[Thing | None] = [None] * SLOTS
        self.disk: dict[int, Thing] = {}
        self.tokens: list[tuple[Token, int, int]] = []
        """Of every persist: the token, the slot and the key."""

    def content(self, number: int) -> bytes:
        return key(1000 * self.epoch + number)

    def leave(self, place: int) -> None:
        """What was in a slot goes, if it is still the slot's."""
        thing, self.slots[place] = self.slots[place], None
        if thing is not None and self.disk.get(thing.key) is thing:
            del self.disk[thing.key]

    def store(self, place: int, name: int, fails: bool) -> None:
        self.leave(place)
        fill(self.rig.memory, [0], [self.content(name)])
        work = self.rig.work(Kind.STORE, [0], [slot(place)], [name])
        with ExitStack() as faults:
            if fails:
                faults.enter_context(patch("os.writev", side_effect=OSError(errno.ENOSPC, "full")))
            report = self.rig.disk.carry(work)
        if fails:
            assert codes(report) == [(0, Code.NO_SPACE, "write")]
        else:
            assert report.outcome == Outcome.DONE, report
            self.slots[place] = Thing(next(self.numbers), name, self.epoch)

    def persist(self, place: int, _: int, fails: bool) -> None:
        thing = self.slots[place]
        if thing is None:
            return
        visible = self.disk.get(thing.key)
        void = thing.epoch != self.epoch or (visible is not None and visible.number > thing.number)
        void = void or (thing.shown and visible is not thing)
        with ExitStack() as faults:
            if fails:
                faults.enter_context(patch("os.rename", side_effect=OSError(errno.EIO, "gone")))
            report = self.rig.persist([place], [thing.key])
        self.tokens.append((report.token, place, thing.key))
        if void:
            assert codes(report) == [(0, Code.CANCELLED, "commit")]
            thing.epoch = -1
        elif fails and visible is not thing:
            assert codes(report) == [(0, Code.UNKNOWN, "commit")]
        else:
            assert report.outcome == Outcome.DONE, report
            thing.token, thing.shown = report.token, True
            self.disk[thing.key] = thing

    def undo(self, which: int, more: int, _: bool) -> None:
        if not self.tokens:
            return
        token, place, name = self.tokens[-1 - (3 * which + more) % len(self.tokens)]
        self.rig.undo(token, [place], [name])
        thing = self.slots[place]
        if thing is not None and thing.token == token and self.disk.get(name) is thing:
            del self.disk[name]

    def fetch(self, place: int, name: int, wanted: bool) -> None:
        """Of what it holds, if that is `wanted`, or of any key."""
        thing = self.slots[place]
        name = thing.key if thing is not None and wanted else name
        there = thing is not None and self.disk.get(thing.key) is thing
        report = self.rig.fetch([place], [name])
        if not there:
            assert codes(report) == [(0, Code.BLOCK_NOT_FOUND, "fetch")]
        elif thing is not None and thing.key != name:
            assert codes(report) == [(0, Code.KEY_MISMATCH, "fetch")]
        elif thing is not None and thing.spoilt:
            assert codes(report) == [(0, Code.CRC_MISMATCH, "fetch")]
            del self.disk[name]
        else:
            assert report.outcome == Outcome.DONE, report
            assert holds(self.rig.memory, [0], [self.content(name)])

    def spoil(self, place: int, _: int, __: bool) -> None:
        thing, path = self.slots[place], self.rig.disk.path_of(slot(place))
        if thing is None or path is None:
            return
        data = bytearray(Path(path).read_bytes())
        data[-1] ^= 0xFF if not thing.spoilt else 0
        Path(path).write_bytes(data)
        thing.spoilt = True

    def sweep(self, which: int, dies: int, _: bool) -> None:
        """With `dies` the process ends before a file is removed; then the next one has to see to it."""
        everything = which == 0
        if everything:
            self.epoch += 1
            self.disk.clear()
        with ExitStack() as faults:
            if dies == 0:
                faults.enter_context(patch.object(Path, "unlink", side_effect=OSError(errno.EIO, "dead")))
            self.rig.sweep(everything=everything)
        if dies == 0:
            self.restart(0, 0, True)

    def restart(self, order: int, _: int, all_of_it: bool) -> None:
        """The process dies, and the next one takes in what fits, or a part of it."""
        before, self.rig = self.rig, self.rig.again(slots=SLOTS)
        before.disk.close(5)
        found = self.rig.disk.found()
        assert set(found.keys) == {key(number) for number in self.disk}
        assert len(found.keys) == len(self.disk)
        assert (found.refused, found.strange) == (0, 0)
        things = sorted(self.disk.values(), key=lambda thing: (thing.number * (order + 1)) % 7)
        things = things if all_of_it else things[1:]
        self.slots, self.disk, self.tokens = [None] * SLOTS, {}, []
        for place, thing in enumerate(things[:SLOTS]):
            self.adopt(place, thing)
        self.rig.sweep()

    def adopt(self, place: int, thing: Thing) -> None:
        self.rig.adopt([place], [thing.key])
        self.slots[place] = self.disk[thing.key] = Thing(
            next(self.numbers), thing.key, self.epoch, None, thing.spoilt, True
        )

    def adopt_again(self, place: int, name: int, _: bool) -> None:
        """In another slot, while the old one may have anything under way."""
        thing = self.disk.get(name)
        if thing is None:
            return
        before = self.slots[place]
        if before is not None and before is not thing and self.disk.get(before.key) is before:
            del self.disk[before.key]
        self.adopt(place, thing)
        self.rig.sweep()

    def put(self, place: int, name: int, _: bool) -> None:
        self.store(place, name, False)
        self.persist(place, name, False)

    def check(self) -> None:
        """The disk has what a restart may find."""
        assert self.rig.on_disk() == self.rig.names(*self.disk)

    def end(self) -> None:
        self.rig.disk.close(5)
        shutil.rmtree(self.path)


STEPS: tuple[str, ...] = ("store",) * 4 + ("persist",) * 5 + ("put",) * 5 + ("undo",) * 3 + ("fetch",) * 3
STEPS += ("spoil", "sweep", "restart", "adopt_again", "adopt_again")
"""Each as often as it stands here: an object has to get somewhere before much can happen to it."""
SMALL = st.integers(0, 2)


@settings(
    max_examples=80, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck)
)
@given(st.lists(st.tuples(st.sampled_from(STEPS), SMALL, SMALL, st.booleans()), min_size=50, max_size=50))
def test_a_restart_finds_what_is_visible_whatever_happened_before(steps: list[tuple[str, int, int, bool]]) -> None:
    walk = Walk()
    try:
        for name, first, second, flag in steps:
            getattr(walk, name)(first, second, flag)
            walk.check()
    finally:
        walk.end()
