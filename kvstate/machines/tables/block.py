# Generated from spec/block.toml by `make tables`; do not edit.
# ruff: noqa: N802 - the function of a row is called as the row is
"""A fixed-size slot of one pool, through all its lives."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    FREE = 0
    OPEN = 1
    LOADING = 2
    ACTIVE = 3
    CACHED = 4
    DRAINING = 5
    QUARANTINED = 6


class Event(IntEnum):
    RESERVE = 0  # request
    CLAIM = 1  # request
    HOLD = 2  # request
    STEP_HOLD = 3  # request
    SEAL = 4  # request
    PUBLISH = 5  # request
    SHARE = 6  # request
    STORE = 7  # request
    EVICT = 8  # request
    RELEASE = 9  # signal
    READ_BEGIN = 10  # signal
    READ_END = 11  # signal
    READ_LATE = 12  # signal
    WRITE_BEGIN = 13  # signal
    WRITE_END = 14  # signal
    WRITE_LATE = 15  # signal
    LOSE = 16  # signal
    COMMIT = 17  # signal
    ROLLBACK = 18  # signal
    UNPUBLISH = 19  # signal


def _open_claim(t: BlockTable, i: int) -> int:
    if t.readers[i] == 0:
        return 2  # B03
    return REFUSED


def _open_release(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    writers = t.writers[i]
    if readers + writers == 0:
        return 13  # B20
    if lost < readers + writers:
        return 14  # B21
    if lost > 0 and lost == readers + writers:
        return 15  # B22
    return REFUSED


def _open_read_end(t: BlockTable, i: int) -> int:
    if t.lost[i] < t.readers[i]:
        return 24  # B33
    return REFUSED


def _open_read_late(t: BlockTable, i: int) -> int:
    if t.readers[i] > 0 and t.lost[i] > 0:
        return 34  # B50
    return REFUSED


def _open_lose(t: BlockTable, i: int) -> int:
    if t.lost[i] < t.readers[i] + t.writers[i]:
        return 31  # B40
    return REFUSED


def _loading_read_begin(t: BlockTable, i: int) -> int:
    if t.writers[i] == 0:
        return 22  # B31
    return REFUSED


def _loading_write_begin(t: BlockTable, i: int) -> int:
    if t.writers[i] < t.ranks and t.readers[i] == 0 and t.lost[i] == 0:
        return 9  # B04
    return REFUSED


def _loading_write_end(t: BlockTable, i: int) -> int:
    writers = t.writers[i]
    if writers > 0 and t.lost[i] < writers:
        return 10  # B05
    return REFUSED


def _loading_write_late(t: BlockTable, i: int) -> int:
    if t.writers[i] > 0 and t.lost[i] > 0:
        return 35  # B51
    return REFUSED


def _loading_commit(t: BlockTable, i: int) -> int:
    if t.writers[i] == 0 and t.readers[i] == 0:
        return 11  # B06
    return REFUSED


def _loading_rollback(t: BlockTable, i: int) -> int:
    if t.writers[i] == 0 and t.readers[i] == 0:
        return 12  # B07
    return REFUSED


def _active_publish(t: BlockTable, i: int) -> int:
    if not t.published[i]:
        return 3  # B08
    return REFUSED


def _active_share(t: BlockTable, i: int) -> int:
    if t.published[i]:
        return 4  # B09
    return REFUSED


def _active_release(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    owners = t.owners[i]
    published = t.published[i]
    readers = t.readers[i]
    if owners > 1:
        return 16  # B23
    if owners == 1 and published:
        return 17  # B24
    if owners == 1 and not published and readers == 0:
        return 18  # B25
    if owners == 1 and not published and lost < readers:
        return 19  # B26
    if owners == 1 and not published and lost > 0 and lost == readers:
        return 20  # B27
    return REFUSED


def _active_unpublish(t: BlockTable, i: int) -> int:
    if t.published[i]:
        return 40  # B60
    return REFUSED


def _cached_evict(t: BlockTable, i: int) -> int:
    if t.readers[i] == 0:
        return 8  # B13
    return REFUSED


def _cached_unpublish(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    if readers == 0:
        return 41  # B61
    if lost < readers:
        return 42  # B62
    if lost > 0 and lost == readers:
        return 43  # B63
    return REFUSED


def _draining_read_begin(t: BlockTable, i: int) -> int:
    if t.lost[i] < t.readers[i] and t.writers[i] == 0:
        return 23  # B32
    return REFUSED


def _draining_read_end(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    if readers == 1 and t.writers[i] == 0:
        return 25  # B34
    if lost < readers - 1:
        return 26  # B35
    if readers > 1 and lost == readers - 1:
        return 27  # B36
    return REFUSED


def _draining_write_end(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    writers = t.writers[i]
    if writers == 1:
        return 28  # B37
    if lost < writers - 1:
        return 29  # B38
    if writers > 1 and lost == writers - 1:
        return 30  # B39
    return REFUSED


def _draining_lose(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    writers = t.writers[i]
    if lost + 1 < readers + writers:
        return 32  # B41
    if lost + 1 == readers + writers:
        return 33  # B42
    return REFUSED


def _quarantined_read_late(t: BlockTable, i: int) -> int:
    readers = t.readers[i]
    if readers == 1:
        return 36  # B52
    if readers > 1:
        return 37  # B53
    return REFUSED


def _quarantined_write_late(t: BlockTable, i: int) -> int:
    writers = t.writers[i]
    if writers == 1:
        return 38  # B54
    if writers > 1:
        return 39  # B55
    return REFUSED


def _B01(t: BlockTable, i: int) -> None:
    t.owners[i] = 1
    t.state[i] = 1  # open


def _B02(t: BlockTable, i: int) -> None:
    t.state[i] = 3  # active


def _B03(t: BlockTable, i: int) -> None:
    t.state[i] = 2  # loading


def _B08(t: BlockTable, i: int) -> None:
    t.published[i] = True


def _B09(t: BlockTable, i: int) -> None:
    t.owners[i] = t.owners[i] + 1


def _B10(t: BlockTable, i: int) -> None:
    t.owners[i] = 1
    t.state[i] = 3  # active


def _B11(t: BlockTable, i: int) -> None:
    t.readers[i] = t.readers[i] + 1


def _B13(t: BlockTable, i: int) -> None:
    t.published[i] = False
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free


def _B04(t: BlockTable, i: int) -> None:
    t.writers[i] = t.writers[i] + 1


def _B05(t: BlockTable, i: int) -> None:
    t.writers[i] = t.writers[i] - 1


def _B06(t: BlockTable, i: int) -> None:
    t.state[i] = 3  # active


def _B07(t: BlockTable, i: int) -> None:
    t.state[i] = 1  # open


def _B20(t: BlockTable, i: int) -> None:
    t.owners[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free


def _B21(t: BlockTable, i: int) -> None:
    t.owners[i] = 0
    t.state[i] = 5  # draining


def _B22(t: BlockTable, i: int) -> None:
    t.owners[i] = 0
    t.state[i] = 6  # quarantined


def _B23(t: BlockTable, i: int) -> None:
    t.owners[i] = t.owners[i] - 1


def _B24(t: BlockTable, i: int) -> None:
    t.owners[i] = 0
    t.state[i] = 4  # cached


def _B25(t: BlockTable, i: int) -> None:
    t.owners[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free


def _B26(t: BlockTable, i: int) -> None:
    t.owners[i] = 0
    t.state[i] = 5  # draining


def _B27(t: BlockTable, i: int) -> None:
    t.owners[i] = 0
    t.state[i] = 6  # quarantined


def _B30(t: BlockTable, i: int) -> None:
    t.readers[i] = t.readers[i] + 1


def _B31(t: BlockTable, i: int) -> None:
    t.readers[i] = t.readers[i] + 1


def _B32(t: BlockTable, i: int) -> None:
    t.readers[i] = t.readers[i] + 1


def _B33(t: BlockTable, i: int) -> None:
    t.readers[i] = t.readers[i] - 1


def _B34(t: BlockTable, i: int) -> None:
    t.readers[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free


def _B35(t: BlockTable, i: int) -> None:
    t.readers[i] = t.readers[i] - 1


def _B36(t: BlockTable, i: int) -> None:
    t.readers[i] = t.readers[i] - 1
    t.state[i] = 6  # quarantined


def _B37(t: BlockTable, i: int) -> None:
    t.writers[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free


def _B38(t: BlockTable, i: int) -> None:
    t.writers[i] = t.writers[i] - 1


def _B39(t: BlockTable, i: int) -> None:
    t.writers[i] = t.writers[i] - 1
    t.state[i] = 6  # quarantined


def _B40(t: BlockTable, i: int) -> None:
    t.lost[i] = t.lost[i] + 1


def _B41(t: BlockTable, i: int) -> None:
    t.lost[i] = t.lost[i] + 1


def _B42(t: BlockTable, i: int) -> None:
    t.lost[i] = t.lost[i] + 1
    t.state[i] = 6  # quarantined


def _B50(t: BlockTable, i: int) -> None:
    t.readers[i] = t.readers[i] - 1
    t.lost[i] = t.lost[i] - 1


def _B51(t: BlockTable, i: int) -> None:
    t.writers[i] = t.writers[i] - 1
    t.lost[i] = t.lost[i] - 1


def _B52(t: BlockTable, i: int) -> None:
    t.readers[i] = 0
    t.lost[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free


def _B53(t: BlockTable, i: int) -> None:
    t.readers[i] = t.readers[i] - 1
    t.lost[i] = t.lost[i] - 1


def _B54(t: BlockTable, i: int) -> None:
    t.writers[i] = 0
    t.lost[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free


def _B55(t: BlockTable, i: int) -> None:
    t.writers[i] = t.writers[i] - 1
    t.lost[i] = t.lost[i] - 1


def _B60(t: BlockTable, i: int) -> None:
    t.published[i] = False


def _B61(t: BlockTable, i: int) -> None:
    t.published[i] = False
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free


def _B62(t: BlockTable, i: int) -> None:
    t.published[i] = False
    t.state[i] = 5  # draining


def _B63(t: BlockTable, i: int) -> None:
    t.published[i] = False
    t.state[i] = 6  # quarantined


CELLS: tuple[int | Callable[[BlockTable, int], int], ...] = (
    # free
    0,  # reserve: B01
    REFUSED,  # claim
    REFUSED,  # hold
    REFUSED,  # step_hold
    REFUSED,  # seal
    REFUSED,  # publish
    REFUSED,  # share
    REFUSED,  # store
    REFUSED,  # evict
    REFUSED,  # release
    REFUSED,  # read_begin
    REFUSED,  # read_end
    REFUSED,  # read_late
    REFUSED,  # write_begin
    REFUSED,  # write_end
    REFUSED,  # write_late
    REFUSED,  # lose
    REFUSED,  # commit
    REFUSED,  # rollback
    REFUSED,  # unpublish
    # open
    REFUSED,  # reserve
    _open_claim,  # claim: B03
    7,  # hold: B12
    7,  # step_hold: B12
    1,  # seal: B02
    REFUSED,  # publish
    REFUSED,  # share
    REFUSED,  # store
    REFUSED,  # evict
    _open_release,  # release: B20 B21 B22
    21,  # read_begin: B30
    _open_read_end,  # read_end: B33
    _open_read_late,  # read_late: B50
    REFUSED,  # write_begin
    REFUSED,  # write_end
    REFUSED,  # write_late
    _open_lose,  # lose: B40
    REFUSED,  # commit
    REFUSED,  # rollback
    REFUSED,  # unpublish
    # loading
    REFUSED,  # reserve
    REFUSED,  # claim
    REFUSED,  # hold
    REFUSED,  # step_hold
    REFUSED,  # seal
    REFUSED,  # publish
    REFUSED,  # share
    REFUSED,  # store
    REFUSED,  # evict
    _open_release,  # release: B20 B21 B22
    _loading_read_begin,  # read_begin: B31
    _open_read_end,  # read_end: B33
    _open_read_late,  # read_late: B50
    _loading_write_begin,  # write_begin: B04
    _loading_write_end,  # write_end: B05
    _loading_write_late,  # write_late: B51
    _open_lose,  # lose: B40
    _loading_commit,  # commit: B06
    _loading_rollback,  # rollback: B07
    REFUSED,  # unpublish
    # active
    REFUSED,  # reserve
    REFUSED,  # claim
    7,  # hold: B12
    7,  # step_hold: B12
    REFUSED,  # seal
    _active_publish,  # publish: B08
    _active_share,  # share: B09
    6,  # store: B11
    REFUSED,  # evict
    _active_release,  # release: B23 B24 B25 B26 B27
    21,  # read_begin: B30
    _open_read_end,  # read_end: B33
    _open_read_late,  # read_late: B50
    REFUSED,  # write_begin
    REFUSED,  # write_end
    REFUSED,  # write_late
    _open_lose,  # lose: B40
    REFUSED,  # commit
    REFUSED,  # rollback
    _active_unpublish,  # unpublish: B60
    # cached
    REFUSED,  # reserve
    REFUSED,  # claim
    REFUSED,  # hold
    REFUSED,  # step_hold
    REFUSED,  # seal
    REFUSED,  # publish
    5,  # share: B10
    6,  # store: B11
    _cached_evict,  # evict: B13
    REFUSED,  # release
    21,  # read_begin: B30
    _open_read_end,  # read_end: B33
    _open_read_late,  # read_late: B50
    REFUSED,  # write_begin
    REFUSED,  # write_end
    REFUSED,  # write_late
    _open_lose,  # lose: B40
    REFUSED,  # commit
    REFUSED,  # rollback
    _cached_unpublish,  # unpublish: B61 B62 B63
    # draining
    REFUSED,  # reserve
    REFUSED,  # claim
    REFUSED,  # hold
    REFUSED,  # step_hold
    REFUSED,  # seal
    REFUSED,  # publish
    REFUSED,  # share
    REFUSED,  # store
    REFUSED,  # evict
    REFUSED,  # release
    _draining_read_begin,  # read_begin: B32
    _draining_read_end,  # read_end: B34 B35 B36
    _open_read_late,  # read_late: B50
    REFUSED,  # write_begin
    _draining_write_end,  # write_end: B37 B38 B39
    _loading_write_late,  # write_late: B51
    _draining_lose,  # lose: B41 B42
    REFUSED,  # commit
    REFUSED,  # rollback
    REFUSED,  # unpublish
    # quarantined
    REFUSED,  # reserve
    REFUSED,  # claim
    REFUSED,  # hold
    REFUSED,  # step_hold
    REFUSED,  # seal
    REFUSED,  # publish
    REFUSED,  # share
    REFUSED,  # store
    REFUSED,  # evict
    REFUSED,  # release
    REFUSED,  # read_begin
    REFUSED,  # read_end
    _quarantined_read_late,  # read_late: B52 B53
    REFUSED,  # write_begin
    REFUSED,  # write_end
    _quarantined_write_late,  # write_late: B54 B55
    REFUSED,  # lose
    REFUSED,  # commit
    REFUSED,  # rollback
    REFUSED,  # unpublish
)
"""For each state and event: the row that answers, or what chooses it."""

BY_ROW: tuple[tuple[str, Callable[[BlockTable, int], None] | None, tuple[str, ...]], ...] = (
    ("B01", _B01, ()),
    ("B02", _B02, ()),
    ("B03", _B03, ()),
    ("B08", _B08, ()),
    ("B09", _B09, ()),
    ("B10", _B10, ()),
    ("B11", _B11, ()),
    ("B12", None, ()),
    ("B13", _B13, ("gone",)),
    ("B04", _B04, ()),
    ("B05", _B05, ()),
    ("B06", _B06, ()),
    ("B07", _B07, ()),
    ("B20", _B20, ()),
    ("B21", _B21, ()),
    ("B22", _B22, ()),
    ("B23", _B23, ()),
    ("B24", _B24, ()),
    ("B25", _B25, ()),
    ("B26", _B26, ()),
    ("B27", _B27, ()),
    ("B30", _B30, ()),
    ("B31", _B31, ()),
    ("B32", _B32, ()),
    ("B33", _B33, ()),
    ("B34", _B34, ()),
    ("B35", _B35, ()),
    ("B36", _B36, ()),
    ("B37", _B37, ()),
    ("B38", _B38, ()),
    ("B39", _B39, ()),
    ("B40", _B40, ()),
    ("B41", _B41, ()),
    ("B42", _B42, ()),
    ("B50", _B50, ()),
    ("B51", _B51, ()),
    ("B52", _B52, ()),
    ("B53", _B53, ()),
    ("B54", _B54, ()),
    ("B55", _B55, ()),
    ("B60", _B60, ()),
    ("B61", _B61, ()),
    ("B62", _B62, ()),
    ("B63", _B63, ()),
)
"""For each row: its id, what it changes (None where it changes nothing), and its effects, in order."""

APPLY = tuple(change for _, change, _ in BY_ROW)


class BlockTable(Columns):
    """A fixed-size slot of one pool, through all its lives."""

    __slots__ = ("generation", "lost", "owners", "published", "ranks", "readers", "state", "writers")
    name = "block"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = (
        "request",
        "request",
        "request",
        "request",
        "request",
        "request",
        "request",
        "request",
        "request",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ("owners", "readers", "writers", "lost", "published", "generation")
    GIVEN: ClassVar[tuple[str, ...]] = ()
    PARAMS: ClassVar[tuple[str, ...]] = ("ranks",)
    FIRST: ClassVar[tuple[int, ...]] = (0, 0, 0, 0, 0, 0, 0)
    ROWS = tuple(row_id for row_id, _, _ in BY_ROW)
    EFFECTS = tuple(effects for _, _, effects in BY_ROW)
    HOME = frozenset({0})
    INITIAL = 0

    def __init__(self, *, ranks: int = 1) -> None:
        self.ranks = ranks
        self.state: array[int] = array("B")
        self.owners: array[int] = array("q")
        self.readers: array[int] = array("q")
        self.writers: array[int] = array("q")
        self.lost: array[int] = array("q")
        self.published: array[int] = array("B")
        self.generation: array[int] = array("q")
        self._arrays = (self.state, self.owners, self.readers, self.writers, self.lost, self.published, self.generation)

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 20 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        row = CELLS[self.state[slot] * 20 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        if row >= 0:
            change = APPLY[row]
            if change is not None:
                change(self, slot)
        return row
