"""Each kind of part, with real bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome
from kvstate.runtime.copy import Integrity, answer, attempt, lines_of, perform
from kvstate.runtime.memory import Memory, NoSuchBlockError, Pool
from kvstate.runtime.pieces import PIECE_BYTES, RELEASE_BYTES, SMALL_BYTES, pieces_of
from kvstate.runtime.seals import Mark
from tests.runtime.parts import BLOCK, DEVICE, fill, holds, key, part, pools, stored

KEYS = [key(number) for number in range(6)]
LARGE = 2 * SMALL_BYTES
SRC = [3, 4, 5, 9, 1, 2]
DST = [40, 41, 42, 50, 60, 33]


def test_a_store_copies_and_seals() -> None:
    memory = pools()
    fill(memory, SRC, KEYS)
    assert perform(memory, part(Kind.STORE, SRC, DST, KEYS), integrity=Integrity.HOST) == ()
    assert holds(memory, DST, KEYS)
    seals = memory.pools[1].seals
    assert [seals.keys[block - DEVICE] for block in DST] == KEYS
    assert {seals.marks[block - DEVICE] for block in DST} == {Mark.SUMMED}
    assert sum(seals.marks) == Mark.SUMMED * len(DST), "no other slot was sealed"
    untouched = [slot for slot in range(32) if slot + DEVICE not in DST]
    assert not memory.pools[1].array[untouched].any()


@pytest.mark.parametrize("integrity", [Integrity.OFF, Integrity.BOUNDARY])
def test_memory_of_the_process_is_summed_only_on_demand(integrity: Integrity) -> None:
    memory = pools()
    stored(memory, DST, KEYS, integrity)
    assert {memory.pools[1].seals.marks[block - DEVICE] for block in DST} == {Mark.KEYED}
    memory.bytes_of(40)[7] ^= 1
    back = part(Kind.VERIFY, DST, SRC, KEYS)
    assert perform(memory, part(Kind.FETCH, DST, SRC, KEYS), integrity=integrity) == ()
    assert perform(memory, back, integrity=integrity) == (), "a flipped byte is served: that is what the setting buys"


def test_a_fetch_brings_the_bytes_back() -> None:
    memory = pools()
    stored(memory, DST, KEYS)
    memory.pools[0].array.fill(255)
    assert perform(memory, part(Kind.FETCH, DST, SRC, KEYS), integrity=Integrity.HOST) == ()
    assert holds(memory, SRC, KEYS)
    assert perform(memory, part(Kind.VERIFY, DST, SRC, KEYS), integrity=Integrity.HOST) == ()


def test_a_persist_of_memory_is_nothing() -> None:
    memory = pools()
    before = memory.pools[1].array.copy()
    assert perform(memory, part(Kind.PERSIST, DST, (), KEYS), integrity=Integrity.HOST) == ()
    assert np.array_equal(before, memory.pools[1].array)


def shape(memory: Memory, src: Sequence[int], dst: Sequence[int]) -> list[tuple[int, int, str, str]]:
    """How a store is cut into pieces: first line, lines, source slots, destination slots."""
    pieces = pieces_of(memory, part(Kind.STORE, src, dst, [b""] * len(src)))
    return [(piece.line, piece.length, _slots(piece.src_at), _slots(piece.dst_at)) for piece in pieces]


def _slots(at: slice | list[int]) -> str:
    return f"{at.start}-{at.stop - 1}" if isinstance(at, slice) else ",".join(map(str, at))


def test_a_part_of_adjacent_blocks_is_one_run() -> None:
    for block_bytes in (BLOCK, LARGE):
        assert shape(pools(block_bytes), range(3, 9), range(40, 46)) == [(0, 6, "3-8", "8-13")]
        assert shape(pools(block_bytes), [7], [40]) == [(0, 1, "7-7", "8-8")]


def test_scattered_blocks_are_gathered_if_small_and_merged_if_large() -> None:
    assert shape(pools(), SRC, DST) == [(0, 6, "3,4,5,9,1,2", "8,9,10,18,28,1")]
    assert shape(pools(LARGE), SRC, DST) == [
        (0, 3, "3-5", "8-10"),
        (3, 1, "9-9", "18-18"),
        (4, 1, "1-1", "28-28"),
        (5, 1, "2-2", "1-1"),
    ]
    assert shape(pools(LARGE), range(4), [40, 41, 43, 42])[0] == (0, 2, "0-1", "8-9")


def test_scattered_large_blocks_share_a_piece_up_to_its_size() -> None:
    block = PIECE_BYTES // 4
    memory = pools(block, device=10, host=10)
    src, dst = list(range(9)), [18, 10, 14, 12, 16, 11, 17, 13, 19]
    assert [(line, length) for line, length, _, _ in shape(memory, src, dst)] == [(0, 4), (4, 4), (8, 1)]
    keys = [key(number) for number in src]
    fill(memory, src, keys)
    assert perform(memory, part(Kind.STORE, src, dst, keys), integrity=Integrity.HOST) == ()
    assert holds(memory, dst, keys)
    assert [length for _, length, _, _ in shape(pools(2 * PIECE_BYTES, 3, 3), [0, 2, 1], [3, 4, 5])] == [1, 1, 1]


def test_a_gathered_piece_has_an_end() -> None:
    memory = pools(device=2000, host=2000)
    src, dst = list(range(1200)), list(range(3199, 1999, -1))
    assert [length for _, length, _, _ in shape(memory, src, dst)] == [500, 500, 200]
    keys = [key(number) for number in src]
    fill(memory, src, keys)
    assert perform(memory, part(Kind.STORE, src, dst, keys), integrity=Integrity.HOST) == ()
    assert holds(memory, dst, keys)


@pytest.mark.parametrize("block_bytes", [BLOCK, LARGE])
def test_scattered_parts_bring_every_byte_home(block_bytes: int) -> None:
    memory = pools(block_bytes)
    fill(memory, SRC, KEYS)
    assert perform(memory, part(Kind.STORE, SRC, DST, KEYS), integrity=Integrity.HOST) == ()
    assert holds(memory, DST, KEYS)
    back = [20, 3, 9, 8, 31, 0]
    assert perform(memory, part(Kind.FETCH, DST, back, KEYS), integrity=Integrity.HOST) == ()
    assert holds(memory, back, KEYS)
    assert perform(memory, part(Kind.VERIFY, DST, back, KEYS), integrity=Integrity.HOST) == ()


def test_a_run_ends_at_the_end_of_a_pool() -> None:
    memory = Memory([Pool("device", 0, 8, BLOCK), Pool("near", 8, 2, BLOCK), Pool("far", 10, 4, BLOCK)])
    assert shape(memory, range(4), range(8, 12)) == [(0, 2, "0-1", "0-1"), (2, 2, "2-3", "0-1")]
    assert shape(memory, [0, 2, 4], [9, 10, 8]) == [(0, 1, "0-0", "1-1"), (1, 1, "2-2", "0-0"), (2, 1, "4-4", "0-0")]
    fill(memory, range(4), KEYS[:4])
    assert perform(memory, part(Kind.STORE, range(4), range(8, 12), KEYS[:4]), integrity=Integrity.HOST) == ()
    assert holds(memory, [8, 9], KEYS[:2])
    assert holds(memory, [10, 11], KEYS[2:4])


def test_long_runs_move_the_same_bytes_as_short_ones() -> None:
    block = RELEASE_BYTES // 4
    memory = pools(block_bytes=block, device=8, host=8)
    keys = [key(number) for number in range(8)]
    fill(memory, range(8), keys)
    assert perform(memory, part(Kind.STORE, range(8), range(8, 16), keys), integrity=Integrity.HOST) == ()
    assert holds(memory, range(8, 16), keys)


def _flip(memory: Memory) -> None:
    memory.bytes_of(SRC[1])[BLOCK - 1] ^= 1


def _flip_host(memory: Memory) -> None:
    memory.bytes_of(DST[1])[0] ^= 128
    perform(memory, part(Kind.FETCH, DST, SRC, KEYS), integrity=Integrity.HOST)


def _other_key(memory: Memory) -> None:
    stored(memory, [DST[1]], [key(99)])


def _never_ended(memory: Memory) -> None:
    memory.pools[1].seals.open([DST[1] - DEVICE])


def _never_stored(memory: Memory) -> None:
    memory.pools[1].seals.marks[DST[1] - DEVICE] = Mark.EMPTY


def _without_sum(memory: Memory) -> None:
    memory.pools[1].seals.close([DST[1] - DEVICE], [KEYS[1]], None)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_flip, Code.CRC_MISMATCH),
        (_flip_host, Code.CRC_MISMATCH),
        (_without_sum, Code.CRC_MISMATCH),
        (_other_key, Code.KEY_MISMATCH),
        (_never_ended, Code.SHORT_READ),
        (_never_stored, Code.BLOCK_NOT_FOUND),
    ],
)
def test_verify_finds_each_kind_of_bad_line(spoil: Callable[[Memory], None], code: Code) -> None:
    memory = pools()
    stored(memory, DST, KEYS)
    perform(memory, part(Kind.FETCH, DST, SRC, KEYS), integrity=Integrity.HOST)
    spoil(memory)
    report = attempt(memory, part(Kind.VERIFY, DST, SRC, KEYS), integrity=Integrity.HOST)
    assert [(failure.line, failure.code, failure.stage) for failure in report.failures] == [(1, code, "verify")]
    assert report.outcome == Outcome.BROKEN


def test_verify_tells_every_bad_line_at_once() -> None:
    memory = pools()
    stored(memory, DST, KEYS)
    perform(memory, part(Kind.FETCH, DST, SRC, KEYS), integrity=Integrity.HOST)
    memory.bytes_of(SRC[0])[3] ^= 4
    memory.pools[1].seals.keys[DST[4] - DEVICE] = key(5)
    before = memory.pools[0].array.copy()
    failures = perform(memory, part(Kind.VERIFY, DST, SRC, KEYS), integrity=Integrity.HOST)
    assert [(failure.line, failure.code) for failure in failures] == [(0, Code.CRC_MISMATCH), (4, Code.KEY_MISMATCH)]
    assert np.array_equal(before, memory.pools[0].array), "it writes nothing"


@pytest.mark.parametrize("kind", [Kind.STORE, Kind.FETCH, Kind.VERIFY])
def test_a_block_that_does_not_exist_stops_everything_before_the_first_byte(kind: Kind) -> None:
    memory = pools()
    fill(memory, [0, 1], KEYS[:2])
    before = memory.pools[1].array.copy()
    with pytest.raises(NoSuchBlockError):
        perform(memory, part(kind, [0, 1], [40, 64], KEYS[:2]), integrity=Integrity.HOST)
    assert np.array_equal(before, memory.pools[1].array)
    assert not any(memory.pools[1].seals.marks)


def test_work_that_makes_no_sense_is_refused() -> None:
    memory = pools()
    with pytest.raises(ValueError, match="3 sources, 2 destinations and 3 keys"):
        perform(memory, part(Kind.STORE, [0, 1, 2], [40, 41], KEYS[:3]), integrity=Integrity.OFF)
    with pytest.raises(ValueError, match="can't do a part of kind 'step'"):
        perform(memory, part(Kind.STEP, [], [], []), integrity=Integrity.OFF)


def test_a_cancel_stops_between_two_pieces() -> None:
    memory = pools(LARGE)
    fill(memory, SRC, KEYS)
    asked = iter([False, False, True])
    report = attempt(memory, part(Kind.STORE, SRC, DST, KEYS), integrity=Integrity.HOST, cancelled=lambda: next(asked))
    assert report.outcome == Outcome.CANCELLED
    assert [(failure.line, failure.code) for failure in report.failures] == [(4, Code.CANCELLED)]
    assert holds(memory, DST[:4], KEYS[:4])
    assert not memory.bytes_of(DST[4]).any()
    assert memory.pools[1].seals.marks[DST[4] - DEVICE] == Mark.EMPTY


@pytest.mark.parametrize("kind", [Kind.STORE, Kind.FETCH, Kind.VERIFY, Kind.PERSIST])
def test_whatever_is_raised_inside_is_a_failure_of_the_part(kind: Kind) -> None:
    def trip() -> bool:
        raise RuntimeError("the driver lost its mind")

    report = attempt(pools(), part(kind, [0], [40], KEYS[:1]), integrity=Integrity.HOST, cancelled=trip)
    assert report.outcome == Outcome.DENIED
    assert [(failure.code, failure.message) for failure in report.failures] == [
        (Code.INTERNAL, "the driver lost its mind")
    ]


def test_no_failure_is_done() -> None:
    assert answer(()) == Outcome.DONE


def test_work_can_be_done_in_pieces() -> None:
    memory = pools()
    fill(memory, SRC, KEYS)
    work = part(Kind.STORE, SRC, DST, KEYS)
    for start in range(6):
        assert perform(memory, lines_of(work, start, start + 1), integrity=Integrity.HOST) == ()
    assert holds(memory, DST, KEYS)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_between_a_device_and_the_host() -> None:
    memory = Memory([Pool("device", 0, 8, BLOCK, "cuda"), Pool("host", 8, 8, BLOCK)])
    fill(memory, range(8, 14), KEYS)
    memory.pools[0].tensor[:6].copy_(memory.pools[1].tensor[:6])
    memory.pools[1].array.fill(0)
    assert perform(memory, part(Kind.STORE, range(6), range(8, 14), KEYS), integrity=Integrity.HOST) == ()
    assert holds(memory, range(8, 14), KEYS)
    memory.pools[0].tensor.fill_(255)
    assert perform(memory, part(Kind.FETCH, range(8, 14), range(6), KEYS), integrity=Integrity.HOST) == ()
    assert perform(memory, part(Kind.VERIFY, range(8, 14), range(6), KEYS), integrity=Integrity.HOST) == ()
    memory.pools[0].tensor[2, 3] ^= 1
    failures = perform(memory, part(Kind.VERIFY, range(8, 14), range(6), KEYS), integrity=Integrity.HOST)
    assert [(failure.line, failure.code) for failure in failures] == [(2, Code.CRC_MISMATCH)]
