"""What parts do in a store, of each kind: put once, found by others, never served wrong, replaced where it is bad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Kind
from kvstate.runtime.tiers.objects.names import TOMB
from tests.objects.rig import BLOCK, Rig, codes, secret_file, slot
from tests.runtime.parts import fill, holds, key

Rigs = Any


@pytest.fixture
def rigs(url: str) -> Iterator[Rigs]:
    """Makes processes at one store, and ends them."""
    made: list[Rig] = []

    def make(**settings: Any) -> Rig:
        made.append(Rig(url, **settings))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


def test_what_one_process_puts_another_finds_and_gets(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    one.put([0, 1, 2], [1, 2, 3])
    assert other.seek([1, 2, 3, 4]) == [True, True, True, False]
    other.adopt([0, 1, 2], [3, 1, 2])
    report = other.fetch([0, 1, 2], [3, 1, 2])
    assert report.outcome == "done"
    assert holds(other.memory, [0, 1, 2], [key(3), key(1), key(2)])
    assert other.fetch([0, 1, 2], [3, 1, 2], kind=Kind.VERIFY).outcome == "done"
    assert one.serves(1)


def test_nothing_is_visible_before_the_persist(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    assert one.store([0], [1]).outcome == "done"
    assert other.seek([1]) == [False]
    assert codes(one.fetch([0], [1])) == [(0, Code.BLOCK_NOT_FOUND, "fetch")]
    assert one.objects.staging.used > BLOCK
    assert one.persist([0], [1]).outcome == "done"
    assert one.objects.staging.used == 0
    assert other.seek([1]) == [True]


def test_the_second_to_put_a_key_changes_nothing(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    one.put([0], [1])
    there = one.bucket.look(one.name(1), "lookup")
    token = other.put([3], [1])
    assert other.bucket.look(other.name(1), "lookup") == there
    other.undo(token, [3], [1])  # it was not the other's to take back
    assert one.serves(1)


def test_an_undo_takes_back_what_this_part_put(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    token = one.put([0, 1], [1, 2])
    other.adopt([0], [1])
    one.undo(token, [0], [1])
    assert other.seek([1, 2]) == [False, True]
    assert one.raw(1).startswith(TOMB)
    assert codes(other.fetch([0], [1])) == [(0, Code.BLOCK_NOT_FOUND, "fetch")]
    assert codes(one.fetch([0], [1])) == [(0, Code.BLOCK_NOT_FOUND, "fetch")]
    one.put([0], [1])  # a tombstone is in nobody's way
    assert other.serves(1)


def test_an_undo_of_what_others_have_replaced_does_nothing(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    token = one.put([0], [1])
    data = one.raw(1)
    one.plant(1, b"another object, that nobody can read")
    one.undo(token, [0], [1])
    assert one.raw(1) == b"another object, that nobody can read"
    one.plant(1, data)
    assert other.serves(1)


def test_an_undo_before_the_put_gives_the_memory_back(rigs: Rigs) -> None:
    one = rigs()
    stored = one.store([0], [1])
    one.undo(stored.token, [0], [1])
    assert one.objects.staging.used == 0
    assert codes(one.persist([0], [1])) == [(0, Code.SLOT_CONFLICT, "commit")]
    assert one.seek([1]) == [False]


SPOILT: dict[str, tuple[Callable[[bytes], bytes], Code]] = {
    "a byte of the block": (lambda data: flipped(data, -1), Code.CRC_MISMATCH),
    "a byte of the header": (lambda data: flipped(data, 40), Code.CRC_MISMATCH),
    "the first byte": (lambda data: flipped(data, 0), Code.VERSION_MISMATCH),
    "cut off within the bytes": (lambda data: data[:-1], Code.SHORT_READ),
    "cut off within the header": (lambda data: data[:100], Code.SHORT_READ),
    "empty": (lambda data: b"", Code.SHORT_READ),
    "with more behind it": (lambda data: data + b"x", Code.LAYOUT_MISMATCH),
    "far too large": (lambda data: data + bytes(1 << 20), Code.LAYOUT_MISMATCH),
    "no object at all": (lambda data: b"hello" * 4000, Code.VERSION_MISMATCH),
}


def flipped(data: bytes, at: int) -> bytes:
    spoilt = bytearray(data)
    spoilt[at] ^= 1
    return bytes(spoilt)


@pytest.mark.parametrize("what", SPOILT)
def test_a_bad_object_is_not_served_and_the_next_store_replaces_it(rigs: Rigs, what: str) -> None:
    one, other, third = rigs(), rigs(), rigs()
    spoil, code = SPOILT[what]
    one.put([0], [1])
    one.plant(1, spoil(one.raw(1)))
    other.adopt([0], [1])
    fill(other.memory, [0], [b"before"])
    report = other.fetch([0], [1])
    assert (report.outcome, codes(report)) == ("broken", [(0, code, "fetch")])
    assert holds(other.memory, [0], [b"before"])
    assert other.objects.settle(30)
    assert other.raw(1).startswith(TOMB)
    assert third.seek([1]) == [False]
    third.put([0], [1])
    assert other.serves(1)


def test_what_is_cut_off_is_replaced_by_who_puts_it_unread(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    one.put([0], [1])
    one.plant(1, one.raw(1)[:-7])
    assert other.seek([1]) == [False]
    other.put([0], [1])
    assert one.serves(1)


def test_another_fingerprint_is_never_found_and_never_served(rigs: Rigs) -> None:
    one, other = rigs(), rigs(fingerprint="model 2")
    one.put([0], [1])
    assert other.seek([1]) == [False]
    assert not other.serves(1)
    other.plant(1, one.raw(1))  # brought under the other's name by hand
    other.adopt([0], [1])
    assert codes(other.fetch([0], [1])) == [(0, Code.LAYOUT_MISMATCH, "fetch")]
    assert one.serves(1)
    other.put([0], [1])
    assert one.serves(1)
    assert other.serves(1)


@pytest.mark.parametrize("settings", [{"block_bytes": 2 * BLOCK}, {"rank": 1}, {"summed": False}])
def test_what_differs_in_anything_that_counts_is_not_shared(rigs: Rigs, settings: dict[str, Any]) -> None:
    one, other = rigs(), rigs(**settings)
    one.put([0], [1])
    assert other.seek([1]) == [False]
    other.put([0], [1])
    assert one.serves(1)
    assert other.serves(1)


def test_an_object_of_another_key_or_tenant_is_not_served(rigs: Rigs) -> None:
    one = rigs()
    one.put([0, 1], [1, 2])
    one.put([2], [3], space="b")
    assert one.seek([3]) == [False]
    for data in (one.raw(2), bytes(one.bucket.get(one.name(3, "b"), 1 << 20, "fetch").data)):
        one.plant(1, data)
        one.adopt([0], [1])
        assert codes(one.fetch([0], [1])) == [(0, Code.KEY_MISMATCH, "fetch")]
        assert one.objects.settle(30)


def test_who_has_not_the_secret_plants_nothing(rigs: Rigs, tmp_path: Path) -> None:
    secret = secret_file(tmp_path, 1)
    good, same = rigs(secret_file=secret), rigs(secret_file=secret)
    bad, plain = rigs(secret_file=secret_file(tmp_path, 2)), rigs()
    for rig in (good, bad, plain):
        rig.put([0], [1])
    assert len({good.name(1), bad.name(1), plain.name(1)}) == 3
    assert same.serves(1)
    for other in (bad, plain):
        same.plant(1, other.raw(1))
        same.adopt([0], [1])
        assert codes(same.fetch([0], [1])) == [(0, Code.CRC_MISMATCH, "fetch")]
        assert same.objects.settle(30)
        assert same.raw(1).startswith(TOMB)
    good.put([1], [1])
    assert same.serves(1)


def test_after_a_reset_nothing_of_before_is_found(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    one.put([0], [1])
    one.store([1], [2])
    one.reset()
    assert one.objects.staging.used == 0
    assert one.seek([1, 2]) == [False, False]
    assert codes(one.fetch([0], [1])) == [(0, Code.BLOCK_NOT_FOUND, "fetch")]
    assert codes(one.persist([1], [2])) == [(0, Code.SLOT_CONFLICT, "commit")]
    assert other.serves(1)  # which knows of no reset
    one.put([0], [1])
    assert one.serves(1)


def test_a_put_that_a_reset_overtakes_is_taken_back(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    one.store([0], [1])
    create = one.bucket.create

    def overtaken(name: str, data: memoryview, stage: str) -> str:
        tag: str = create(name, data, stage)
        one.reset()
        return tag

    one.bucket.create = overtaken
    assert codes(one.persist([0], [1])) == [(0, Code.CANCELLED, "commit")]
    assert other.seek([1]) == [False]


def test_a_slot_that_is_given_to_another_leaves_the_object(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    one.put([0], [1])
    one.put([0], [2])
    assert other.seek([1, 2]) == [True, True]
    assert codes(one.fetch([0], [1])) == [(0, Code.KEY_MISMATCH, "fetch")]


def test_a_persist_that_is_tried_again_is_done_and_can_be_undone(rigs: Rigs) -> None:
    one = rigs()
    one.put([0], [1])
    token = one.persist([0], [1]).token
    one.undo(token, [0], [1])
    assert one.seek([1]) == [False]


def test_staging_is_bounded_and_full_is_a_code(rigs: Rigs) -> None:
    one = rigs(staging_bytes=2 * BLOCK)
    report = one.store([0, 1, 2], [1, 2, 3])
    assert codes(report) == [(1, Code.NO_SPACE, "write")]
    assert report.outcome == "failed"  # room is made in a moment, so it may be tried again
    one.persist([0], [1])
    assert one.store([1], [2]).outcome == "done"


def test_what_waits_too_long_gives_way(rigs: Rigs) -> None:
    one = rigs(staging_bytes=2 * BLOCK)
    now = [0.0]
    one.objects.staging._clock = lambda: now[0]
    one.store([0], [1])
    now[0] = 61.0
    one.store([1], [2])
    assert codes(one.persist([0], [1])) == [(0, Code.NO_SPACE, "commit")]
    assert one.persist([1], [2]).outcome == "done"
    assert one.seek([1, 2]) == [False, True]


def test_a_byte_that_goes_bad_in_the_block_is_seen_where_memory_is_compared(rigs: Rigs) -> None:
    one = rigs(compare=True)
    one.put([0], [1])
    assert one.fetch([0], [1]).outcome == "done"
    one.memory.pools[0].array[0, 5] ^= 1
    assert codes(one.fetch([0], [1], kind=Kind.VERIFY)) == [(0, Code.CRC_MISMATCH, "verify")]
    assert codes(rigs().fetch([1], [1], kind=Kind.VERIFY)) == [(0, Code.BLOCK_NOT_FOUND, "verify")]


SPACES = ["", "a/b", "../..", "tenant=é ü/+%20?#&", "x" * 300, "\n\0 ", "a\\b:*|<>"]
NAMES = [b"", b"/", b"..", b"\0\xff\n%2F", bytes(range(256))]


def test_any_key_in_any_space_has_a_name(rigs: Rigs) -> None:
    one, other = rigs(), rigs()
    for space, name in [*((space, NAMES[0]) for space in SPACES), *((SPACES[1], name) for name in NAMES[1:])]:
        src = one.work(Kind.STORE, [0], [slot(0)], [1], space=space)._replace(keys=(name,))
        fill(one.memory, [0], [space.encode() + name])
        assert one.objects.carry(src).outcome == "done"
        assert one.objects.carry(src._replace(kind="persist", src=(slot(0),), dst=())).outcome == "done"
        assert other.objects.carry(src._replace(kind="seek", src=(), dst=())).failures == ()
        other.objects.adopt(other_adopt(space, name))
        fetch = src._replace(kind="fetch", src=(slot(0),), dst=(0,))
        assert other.objects.carry(fetch).outcome == "done"
        assert holds(other.memory, [0], [space.encode() + name])


def other_adopt(space: str, name: bytes) -> Any:
    from kvstate.machines.messages import Adopt

    return Adopt(0, "store", (slot(0),), (space,), (name,))


def test_work_that_makes_no_sense_is_a_failure_and_not_an_error(rigs: Rigs) -> None:
    one = rigs()
    good = one.work(Kind.STORE, [0], [slot(0)], [1])
    for bad in (
        good._replace(keys=()), good._replace(dst=(0,)), good._replace(dst=(slot(99),)), good._replace(src=(999,)),
        good._replace(kind="seek"), good._replace(kind="persist"), good._replace(kind="hold"),
    ):  # fmt: skip
        report = one.objects.carry(bad)
        assert report.outcome == "denied"
        assert [Code(failure.code) for failure in report.failures] == [Code.INTERNAL]
