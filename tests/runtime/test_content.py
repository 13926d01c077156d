"""The content oracle sees whatever is not as it must be."""

from __future__ import annotations

import time

import numpy as np
import pytest

from kvstate.replay.content import check_many, describe, expect, explain, poison, poison_many, stamp, write_many
from tests.runtime.parts import key


def rows(count: int, block_bytes: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.zeros((count, block_bytes), np.uint8)


def test_every_eight_bytes_differ() -> None:
    keys = [key(number) for number in range(50)]
    words = expect(keys, 512).view("<u8").ravel()
    poisoned = np.concatenate(
        [poison(block, generation, 512).view("<u8") for block in range(5) for generation in (0, 1)]
    )
    everything = np.concatenate([words, poisoned])
    assert len(np.unique(everything)) == len(everything) == 50 * 64 + 10 * 64


def test_content_depends_on_the_key_and_the_place_alone() -> None:
    assert np.array_equal(stamp(key(1), 64), stamp(key(1), 64))
    assert np.array_equal(stamp(key(1), 128)[:64], stamp(key(1), 64))
    assert not np.array_equal(stamp(key(1), 64), stamp(key(2), 64))


@pytest.mark.parametrize("block_bytes", [8, 64, 4096, 200_000])
def test_what_was_written_is_found_and_what_was_changed_is_seen(block_bytes: int) -> None:
    array = rows(12, block_bytes)
    slots, keys = [3, 1, 7, 8, 0], [key(number) for number in range(5)]
    write_many(array, slots, keys)
    assert check_many(array, slots, keys) == []
    assert not array[[2, 4, 5, 6, 9, 10, 11]].any()
    assert check_many(array, slots, keys[::-1]) == [0, 1, 3, 4]
    array[7, block_bytes - 1] ^= 64
    array[0, 0] ^= 1
    assert check_many(array, slots, keys) == [2, 4]
    poison_many(array, [8, 1], [108, 101], [5, 6])
    assert check_many(array, slots, keys) == [1, 2, 3, 4]
    assert np.array_equal(array[8], poison(108, 5, block_bytes))


def test_a_shifted_piece_is_seen() -> None:
    array = rows(1, 128)
    array[0] = np.roll(stamp(key(1), 128), 8)
    assert check_many(array, [0], [key(1)]) == [0]


def test_whose_bytes_they_are() -> None:
    content, freed = stamp(key(7), 64), poison(9, 4, 64)
    known = [key(6), key(7)]
    assert describe(content[16:24].tobytes(), known) == f"key {key(7).hex()}, byte 16"
    assert describe(content[16:24].tobytes()).startswith("a key with mark ")
    assert describe(freed[56:].tobytes()) == "poison of block 9 generation 4, byte 56"
    assert describe(bytes(8)) == "zero, as fresh memory is"
    with pytest.raises(ValueError, match="7 bytes were given"):
        describe(bytes(7))


def test_a_wrong_block_is_explained() -> None:
    row = stamp(key(1), 64)
    assert explain(row, key(1)) == ""
    row[24:40] = poison(9, 4, 64)[24:40]
    assert explain(row, key(1)) == (
        f"2 of 8 words are wrong, the first at byte 24: it should be of key {key(1).hex()} "
        "and is poison of block 9 generation 4, byte 24"
    )


def test_sizes_that_can_not_be_stamped_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 8"):
        stamp(key(1), 60)
    with pytest.raises(ValueError, match="2 rows and 1 contents"):
        write_many(rows(2, 64), [0, 1], [key(1)])


def test_it_is_fast_enough_to_check_everything() -> None:
    array = rows(8192, 4096)
    slots = np.random.default_rng(1).permutation(8192)
    keys = [key(number) for number in range(8192)]
    write_many(array, slots, keys)
    start = time.perf_counter()
    write_many(array, slots, keys)
    assert check_many(array, slots, keys) == []
    gb_per_s = 2 * array.nbytes / (time.perf_counter() - start) / 1e9
    assert gb_per_s > 0.3, "about 4 on an idle core; slower than this is a mistake, not a busy machine"
