# Generated from spec/block.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""A fixed-size slot of one pool, through all its lives."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED, Many
from kvstate.machines.tables import block_many as many


class State(IntEnum):
    """Where a record can be; `spec/block.toml` says what each means."""

    FREE = 0
    OPEN = 1
    LOADING = 2
    ACTIVE = 3
    CACHED = 4
    DRAINING = 5
    QUARANTINED = 6


class Event(IntEnum):
    """What can happen to a record; `spec/block.toml` says what each means."""

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


def _refuse(t: BlockTable, i: int) -> int:
    return REFUSED


def _open_claim(t: BlockTable, i: int) -> int:
    if t.readers[i] == 0:
        return 2  # B03
    return REFUSED


def _fire_open_claim(t: BlockTable, i: int) -> int:
    if t.readers[i] == 0:
        t.state[i] = 2  # loading
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


def _fire_open_release(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    writers = t.writers[i]
    if readers + writers == 0:
        t.owners[i] = 0
        t.generation[i] = t.generation[i] + 1
        t.state[i] = 0  # free
        return 13  # B20
    if lost < readers + writers:
        t.owners[i] = 0
        t.state[i] = 5  # draining
        return 14  # B21
    if lost > 0 and lost == readers + writers:
        t.owners[i] = 0
        t.state[i] = 6  # quarantined
        return 15  # B22
    return REFUSED


def _open_read_end(t: BlockTable, i: int) -> int:
    if t.lost[i] < t.readers[i]:
        return 24  # B33
    return REFUSED


def _fire_open_read_end(t: BlockTable, i: int) -> int:
    if t.lost[i] < t.readers[i]:
        t.readers[i] = t.readers[i] - 1
        return 24  # B33
    return REFUSED


def _open_read_late(t: BlockTable, i: int) -> int:
    if t.readers[i] > 0 and t.lost[i] > 0:
        return 34  # B50
    return REFUSED


def _fire_open_read_late(t: BlockTable, i: int) -> int:
    if t.readers[i] > 0 and t.lost[i] > 0:
        t.readers[i] = t.readers[i] - 1
        t.lost[i] = t.lost[i] - 1
        return 34  # B50
    return REFUSED


def _open_lose(t: BlockTable, i: int) -> int:
    if t.lost[i] < t.readers[i] + t.writers[i]:
        return 31  # B40
    return REFUSED


def _fire_open_lose(t: BlockTable, i: int) -> int:
    if t.lost[i] < t.readers[i] + t.writers[i]:
        t.lost[i] = t.lost[i] + 1
        return 31  # B40
    return REFUSED


def _loading_read_begin(t: BlockTable, i: int) -> int:
    if t.writers[i] == 0:
        return 22  # B31
    return REFUSED


def _fire_loading_read_begin(t: BlockTable, i: int) -> int:
    if t.writers[i] == 0:
        t.readers[i] = t.readers[i] + 1
        return 22  # B31
    return REFUSED


def _loading_write_begin(t: BlockTable, i: int) -> int:
    if t.writers[i] < t.ranks and t.readers[i] == 0 and t.lost[i] == 0:
        return 9  # B04
    return REFUSED


def _fire_loading_write_begin(t: BlockTable, i: int) -> int:
    if t.writers[i] < t.ranks and t.readers[i] == 0 and t.lost[i] == 0:
        t.writers[i] = t.writers[i] + 1
        return 9  # B04
    return REFUSED


def _loading_write_end(t: BlockTable, i: int) -> int:
    writers = t.writers[i]
    if writers > 0 and t.lost[i] < writers:
        return 10  # B05
    return REFUSED


def _fire_loading_write_end(t: BlockTable, i: int) -> int:
    writers = t.writers[i]
    if writers > 0 and t.lost[i] < writers:
        t.writers[i] = writers - 1
        return 10  # B05
    return REFUSED


def _loading_write_late(t: BlockTable, i: int) -> int:
    if t.writers[i] > 0 and t.lost[i] > 0:
        return 35  # B51
    return REFUSED


def _fire_loading_write_late(t: BlockTable, i: int) -> int:
    if t.writers[i] > 0 and t.lost[i] > 0:
        t.writers[i] = t.writers[i] - 1
        t.lost[i] = t.lost[i] - 1
        return 35  # B51
    return REFUSED


def _loading_commit(t: BlockTable, i: int) -> int:
    if t.writers[i] == 0 and t.readers[i] == 0:
        return 11  # B06
    return REFUSED


def _fire_loading_commit(t: BlockTable, i: int) -> int:
    if t.writers[i] == 0 and t.readers[i] == 0:
        t.state[i] = 3  # active
        return 11  # B06
    return REFUSED


def _loading_rollback(t: BlockTable, i: int) -> int:
    if t.writers[i] == 0 and t.readers[i] == 0:
        return 12  # B07
    return REFUSED


def _fire_loading_rollback(t: BlockTable, i: int) -> int:
    if t.writers[i] == 0 and t.readers[i] == 0:
        t.state[i] = 1  # open
        return 12  # B07
    return REFUSED


def _active_publish(t: BlockTable, i: int) -> int:
    if not t.published[i]:
        return 3  # B08
    return REFUSED


def _fire_active_publish(t: BlockTable, i: int) -> int:
    if not t.published[i]:
        t.published[i] = True
        return 3  # B08
    return REFUSED


def _active_share(t: BlockTable, i: int) -> int:
    if t.published[i]:
        return 4  # B09
    return REFUSED


def _fire_active_share(t: BlockTable, i: int) -> int:
    if t.published[i]:
        t.owners[i] = t.owners[i] + 1
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


def _fire_active_release(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    owners = t.owners[i]
    published = t.published[i]
    readers = t.readers[i]
    if owners > 1:
        t.owners[i] = owners - 1
        return 16  # B23
    if owners == 1 and published:
        t.owners[i] = 0
        t.state[i] = 4  # cached
        return 17  # B24
    if owners == 1 and not published and readers == 0:
        t.owners[i] = 0
        t.generation[i] = t.generation[i] + 1
        t.state[i] = 0  # free
        return 18  # B25
    if owners == 1 and not published and lost < readers:
        t.owners[i] = 0
        t.state[i] = 5  # draining
        return 19  # B26
    if owners == 1 and not published and lost > 0 and lost == readers:
        t.owners[i] = 0
        t.state[i] = 6  # quarantined
        return 20  # B27
    return REFUSED


def _active_unpublish(t: BlockTable, i: int) -> int:
    if t.published[i]:
        return 40  # B60
    return REFUSED


def _fire_active_unpublish(t: BlockTable, i: int) -> int:
    if t.published[i]:
        t.published[i] = False
        return 40  # B60
    return REFUSED


def _cached_evict(t: BlockTable, i: int) -> int:
    if t.readers[i] == 0:
        return 8  # B13
    return REFUSED


def _fire_cached_evict(t: BlockTable, i: int) -> int:
    if t.readers[i] == 0:
        t.published[i] = False
        t.generation[i] = t.generation[i] + 1
        t.state[i] = 0  # free
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


def _fire_cached_unpublish(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    if readers == 0:
        t.published[i] = False
        t.generation[i] = t.generation[i] + 1
        t.state[i] = 0  # free
        return 41  # B61
    if lost < readers:
        t.published[i] = False
        t.state[i] = 5  # draining
        return 42  # B62
    if lost > 0 and lost == readers:
        t.published[i] = False
        t.state[i] = 6  # quarantined
        return 43  # B63
    return REFUSED


def _draining_read_begin(t: BlockTable, i: int) -> int:
    if t.lost[i] < t.readers[i] and t.writers[i] == 0:
        return 23  # B32
    return REFUSED


def _fire_draining_read_begin(t: BlockTable, i: int) -> int:
    if t.lost[i] < t.readers[i] and t.writers[i] == 0:
        t.readers[i] = t.readers[i] + 1
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


def _fire_draining_read_end(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    if readers == 1 and t.writers[i] == 0:
        t.readers[i] = 0
        t.generation[i] = t.generation[i] + 1
        t.state[i] = 0  # free
        return 25  # B34
    if lost < readers - 1:
        t.readers[i] = readers - 1
        return 26  # B35
    if readers > 1 and lost == readers - 1:
        t.readers[i] = readers - 1
        t.state[i] = 6  # quarantined
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


def _fire_draining_write_end(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    writers = t.writers[i]
    if writers == 1:
        t.writers[i] = 0
        t.generation[i] = t.generation[i] + 1
        t.state[i] = 0  # free
        return 28  # B37
    if lost < writers - 1:
        t.writers[i] = writers - 1
        return 29  # B38
    if writers > 1 and lost == writers - 1:
        t.writers[i] = writers - 1
        t.state[i] = 6  # quarantined
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


def _fire_draining_lose(t: BlockTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    writers = t.writers[i]
    if lost + 1 < readers + writers:
        t.lost[i] = lost + 1
        return 32  # B41
    if lost + 1 == readers + writers:
        t.lost[i] = lost + 1
        t.state[i] = 6  # quarantined
        return 33  # B42
    return REFUSED


def _quarantined_read_late(t: BlockTable, i: int) -> int:
    readers = t.readers[i]
    if readers == 1:
        return 36  # B52
    if readers > 1:
        return 37  # B53
    return REFUSED


def _fire_quarantined_read_late(t: BlockTable, i: int) -> int:
    readers = t.readers[i]
    if readers == 1:
        t.readers[i] = 0
        t.lost[i] = 0
        t.generation[i] = t.generation[i] + 1
        t.state[i] = 0  # free
        return 36  # B52
    if readers > 1:
        t.readers[i] = readers - 1
        t.lost[i] = t.lost[i] - 1
        return 37  # B53
    return REFUSED


def _quarantined_write_late(t: BlockTable, i: int) -> int:
    writers = t.writers[i]
    if writers == 1:
        return 38  # B54
    if writers > 1:
        return 39  # B55
    return REFUSED


def _fire_quarantined_write_late(t: BlockTable, i: int) -> int:
    writers = t.writers[i]
    if writers == 1:
        t.writers[i] = 0
        t.lost[i] = 0
        t.generation[i] = t.generation[i] + 1
        t.state[i] = 0  # free
        return 38  # B54
    if writers > 1:
        t.writers[i] = writers - 1
        t.lost[i] = t.lost[i] - 1
        return 39  # B55
    return REFUSED


def _B01(t: BlockTable, i: int) -> int:
    t.owners[i] = 1
    t.state[i] = 1  # open
    return 0


def _B02(t: BlockTable, i: int) -> int:
    t.state[i] = 3  # active
    return 1


def _B03(t: BlockTable, i: int) -> int:
    t.state[i] = 2  # loading
    return 2


def _B08(t: BlockTable, i: int) -> int:
    t.published[i] = True
    return 3


def _B09(t: BlockTable, i: int) -> int:
    t.owners[i] = t.owners[i] + 1
    return 4


def _B10(t: BlockTable, i: int) -> int:
    t.owners[i] = 1
    t.state[i] = 3  # active
    return 5


def _B11(t: BlockTable, i: int) -> int:
    t.readers[i] = t.readers[i] + 1
    return 6


def _B12(t: BlockTable, i: int) -> int:
    return 7


def _B13(t: BlockTable, i: int) -> int:
    t.published[i] = False
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free
    return 8


def _B04(t: BlockTable, i: int) -> int:
    t.writers[i] = t.writers[i] + 1
    return 9


def _B05(t: BlockTable, i: int) -> int:
    t.writers[i] = t.writers[i] - 1
    return 10


def _B06(t: BlockTable, i: int) -> int:
    t.state[i] = 3  # active
    return 11


def _B07(t: BlockTable, i: int) -> int:
    t.state[i] = 1  # open
    return 12


def _B20(t: BlockTable, i: int) -> int:
    t.owners[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free
    return 13


def _B21(t: BlockTable, i: int) -> int:
    t.owners[i] = 0
    t.state[i] = 5  # draining
    return 14


def _B22(t: BlockTable, i: int) -> int:
    t.owners[i] = 0
    t.state[i] = 6  # quarantined
    return 15


def _B23(t: BlockTable, i: int) -> int:
    t.owners[i] = t.owners[i] - 1
    return 16


def _B24(t: BlockTable, i: int) -> int:
    t.owners[i] = 0
    t.state[i] = 4  # cached
    return 17


def _B25(t: BlockTable, i: int) -> int:
    t.owners[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free
    return 18


def _B26(t: BlockTable, i: int) -> int:
    t.owners[i] = 0
    t.state[i] = 5  # draining
    return 19


def _B27(t: BlockTable, i: int) -> int:
    t.owners[i] = 0
    t.state[i] = 6  # quarantined
    return 20


def _B30(t: BlockTable, i: int) -> int:
    t.readers[i] = t.readers[i] + 1
    return 21


def _B31(t: BlockTable, i: int) -> int:
    t.readers[i] = t.readers[i] + 1
    return 22


def _B32(t: BlockTable, i: int) -> int:
    t.readers[i] = t.readers[i] + 1
    return 23


def _B33(t: BlockTable, i: int) -> int:
    t.readers[i] = t.readers[i] - 1
    return 24


def _B34(t: BlockTable, i: int) -> int:
    t.readers[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free
    return 25


def _B35(t: BlockTable, i: int) -> int:
    t.readers[i] = t.readers[i] - 1
    return 26


def _B36(t: BlockTable, i: int) -> int:
    t.readers[i] = t.readers[i] - 1
    t.state[i] = 6  # quarantined
    return 27


def _B37(t: BlockTable, i: int) -> int:
    t.writers[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free
    return 28


def _B38(t: BlockTable, i: int) -> int:
    t.writers[i] = t.writers[i] - 1
    return 29


def _B39(t: BlockTable, i: int) -> int:
    t.writers[i] = t.writers[i] - 1
    t.state[i] = 6  # quarantined
    return 30


def _B40(t: BlockTable, i: int) -> int:
    t.lost[i] = t.lost[i] + 1
    return 31


def _B41(t: BlockTable, i: int) -> int:
    t.lost[i] = t.lost[i] + 1
    return 32


def _B42(t: BlockTable, i: int) -> int:
    t.lost[i] = t.lost[i] + 1
    t.state[i] = 6  # quarantined
    return 33


def _B50(t: BlockTable, i: int) -> int:
    t.readers[i] = t.readers[i] - 1
    t.lost[i] = t.lost[i] - 1
    return 34


def _B51(t: BlockTable, i: int) -> int:
    t.writers[i] = t.writers[i] - 1
    t.lost[i] = t.lost[i] - 1
    return 35


def _B52(t: BlockTable, i: int) -> int:
    t.readers[i] = 0
    t.lost[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free
    return 36


def _B53(t: BlockTable, i: int) -> int:
    t.readers[i] = t.readers[i] - 1
    t.lost[i] = t.lost[i] - 1
    return 37


def _B54(t: BlockTable, i: int) -> int:
    t.writers[i] = 0
    t.lost[i] = 0
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free
    return 38


def _B55(t: BlockTable, i: int) -> int:
    t.writers[i] = t.writers[i] - 1
    t.lost[i] = t.lost[i] - 1
    return 39


def _B60(t: BlockTable, i: int) -> int:
    t.published[i] = False
    return 40


def _B61(t: BlockTable, i: int) -> int:
    t.published[i] = False
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 0  # free
    return 41


def _B62(t: BlockTable, i: int) -> int:
    t.published[i] = False
    t.state[i] = 5  # draining
    return 42


def _B63(t: BlockTable, i: int) -> int:
    t.published[i] = False
    t.state[i] = 6  # quarantined
    return 43


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

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("B01", ()),
    ("B02", ()),
    ("B03", ()),
    ("B08", ()),
    ("B09", ()),
    ("B10", ()),
    ("B11", ()),
    ("B12", ()),
    ("B13", ("gone",)),
    ("B04", ()),
    ("B05", ()),
    ("B06", ()),
    ("B07", ()),
    ("B20", ()),
    ("B21", ()),
    ("B22", ()),
    ("B23", ()),
    ("B24", ()),
    ("B25", ()),
    ("B26", ()),
    ("B27", ()),
    ("B30", ()),
    ("B31", ()),
    ("B32", ()),
    ("B33", ()),
    ("B34", ()),
    ("B35", ()),
    ("B36", ()),
    ("B37", ()),
    ("B38", ()),
    ("B39", ()),
    ("B40", ()),
    ("B41", ()),
    ("B42", ()),
    ("B50", ()),
    ("B51", ()),
    ("B52", ()),
    ("B53", ()),
    ("B54", ()),
    ("B55", ()),
    ("B60", ()),
    ("B61", ()),
    ("B62", ()),
    ("B63", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[BlockTable, int], int]] = {
    0: _B01,
    1: _B02,
    2: _B03,
    3: _B08,
    4: _B09,
    5: _B10,
    6: _B11,
    7: _B12,
    8: _B13,
    9: _B04,
    10: _B05,
    11: _B06,
    12: _B07,
    13: _B20,
    14: _B21,
    15: _B22,
    16: _B23,
    17: _B24,
    18: _B25,
    19: _B26,
    20: _B27,
    21: _B30,
    22: _B31,
    23: _B32,
    24: _B33,
    25: _B34,
    26: _B35,
    27: _B36,
    28: _B37,
    29: _B38,
    30: _B39,
    31: _B40,
    32: _B41,
    33: _B42,
    34: _B50,
    35: _B51,
    36: _B52,
    37: _B53,
    38: _B54,
    39: _B55,
    40: _B60,
    41: _B61,
    42: _B62,
    43: _B63,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

GUARDED: dict[Callable[[BlockTable, int], int], Callable[[BlockTable, int], int]] = {
    _open_claim: _fire_open_claim,
    _open_release: _fire_open_release,
    _open_read_end: _fire_open_read_end,
    _open_read_late: _fire_open_read_late,
    _open_lose: _fire_open_lose,
    _loading_read_begin: _fire_loading_read_begin,
    _loading_write_begin: _fire_loading_write_begin,
    _loading_write_end: _fire_loading_write_end,
    _loading_write_late: _fire_loading_write_late,
    _loading_commit: _fire_loading_commit,
    _loading_rollback: _fire_loading_rollback,
    _active_publish: _fire_active_publish,
    _active_share: _fire_active_share,
    _active_release: _fire_active_release,
    _active_unpublish: _fire_active_unpublish,
    _cached_evict: _fire_cached_evict,
    _cached_unpublish: _fire_cached_unpublish,
    _draining_read_begin: _fire_draining_read_begin,
    _draining_read_end: _fire_draining_read_end,
    _draining_write_end: _fire_draining_write_end,
    _draining_lose: _fire_draining_lose,
    _quarantined_read_late: _fire_quarantined_read_late,
    _quarantined_write_late: _fire_quarantined_write_late,
}
"""For what chooses a row: what chooses and fires it."""

FIRE: tuple[Callable[[BlockTable, int], int], ...] = tuple(
    GUARDED[cell] if not isinstance(cell, int) else _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


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
    MANY: ClassVar[Many | None] = Many(many.ARCS, many.NUMBERS, many.CASES, many.GUARDS, tuple(CHANGES.values()))
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
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
        return FIRE[self.state[slot] * 20 + event](self, slot)

    def each(self, slots: Iterable[int], event: int) -> list[int]:
        """Fire `event` on one slot after the other up to the first that refuses; returns the arcs."""
        return many.EACH[event](self, slots)
