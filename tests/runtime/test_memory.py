"""Pools and block numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kvstate.runtime.memory import PAGE, Memory, NoSuchBlockError, Pool
from kvstate.runtime.pages import PORTABLE, PageLockError, host_pool
from kvstate.runtime.seals import Mark
from tests.runtime.parts import pools


def test_views_and_tensor_are_one_memory() -> None:
    pool = Pool("device", 0, 4, 64)
    pool.tensor[2, 5] = 7
    assert pool.array[2, 5] == 7
    assert bytes(pool.blocks[2].tobytes()) == bytes(pool.array[2])
    assert pool.bytes_of(2)[5] == 7
    assert not pool.array[[0, 1, 3]].any()


def test_numbers_run_through_all_pools() -> None:
    memory = pools(device=3, host=2)
    assert [(pool.name, slot) for pool, slot in map(memory.place, range(5))] == [
        ("device", 0),
        ("device", 1),
        ("device", 2),
        ("host", 0),
        ("host", 1),
    ]


@pytest.mark.parametrize("block", [-1, 5, 10**12])
def test_a_number_outside_is_a_clear_error(block: int) -> None:
    with pytest.raises(NoSuchBlockError, match=rf"block {block} lies in no pool; there are device 0\.\.2, host 3\.\.4"):
        pools(device=3, host=2).place(block)


def test_a_gap_between_pools_belongs_to_none() -> None:
    memory = Memory([Pool("device", 0, 2, 64), Pool("host", 10, 2, 64)])
    assert memory.place(10)[1] == 0
    with pytest.raises(NoSuchBlockError):
        memory.place(2)


def test_a_tier_may_be_switched_off() -> None:
    memory = Memory([Pool("device", 0, 2, 64), Pool("host", 2, 0, 64), Pool("disk", 2, 2, 64)])
    assert [memory.place(block)[0].name for block in range(4)] == ["device", "device", "disk", "disk"]
    with pytest.raises(NoSuchBlockError, match="no blocks at all"):
        Memory([Pool("device", 0, 0, 64)]).place(0)


def test_pools_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="both claim block 1"):
        Memory([Pool("device", 0, 2, 64), Pool("host", 1, 2, 64)])
    with pytest.raises(ValueError, match="64 bytes in pool device and 128 in host"):
        Memory([Pool("device", 0, 2, 64), Pool("host", 2, 2, 128)])
    with pytest.raises(ValueError, match="at least one pool"):
        Memory([])
    with pytest.raises(ValueError, match="make no pool"):
        Pool("device", 0, 2, 0)


def test_off_the_cpu_there_is_a_tensor_and_no_view() -> None:
    pool = Pool("device", 0, 2, 64, device="meta")
    assert pool.tensor.shape == (2, 64)
    with pytest.raises(TypeError, match="lies on meta"):
        pool.array  # noqa: B018
    with pytest.raises(TypeError, match="use `tensor`"):
        pool.blocks  # noqa: B018


def test_seals_are_opened_before_they_are_closed() -> None:
    seals = Pool("host", 0, 4, 64).seals
    assert list(seals.marks) == [Mark.EMPTY] * 4
    seals.open(range(1, 3))
    assert list(seals.marks) == [Mark.EMPTY, Mark.OPEN, Mark.OPEN, Mark.EMPTY]
    seals.close([2, 1], [b"b", b"a"], [b"y" * 16, b"x" * 16])
    assert (seals.keys[1:3], seals.sum(2), seals.marks[2]) == ([b"a", b"b"], b"y" * 16, Mark.SUMMED)
    seals.close([2], [b"c"], None)
    assert (seals.keys[2], seals.marks[2]) == (b"c", Mark.KEYED)


def test_what_is_allocated_begins_at_a_page_and_is_touched() -> None:
    pool = Pool("host", 0, 3, 100)
    assert pool.tensor.data_ptr() % PAGE == 0
    assert pool.tensor.is_contiguous()
    assert not pool.array.any()


def test_pages_are_locked_once_and_let_go_once() -> None:
    told: list[str] = []

    def lock(address: int, size: int) -> Callable[[], None]:
        told.append(f"lock {size} at a page" if address % PAGE == 0 else "lock")
        return lambda: told.append("unlock")

    pool = Pool("host", 0, 3, 100, page_lock=lock)
    assert pool.page_locked
    pool.close()
    pool.close()
    assert told == ["lock 300 at a page", "unlock"]
    assert not Pool("host", 0, 0, 100, page_lock=lock).page_locked, "nothing of nothing is locked"
    assert len(told) == 2


class _Runtime:
    """`torch.cuda.cudart()`, as far as it is asked."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.calls: list[tuple[str, int, int]] = []

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:  # noqa: N802
        self.calls.append(("register", size, flags))
        return self.code

    def cudaHostUnregister(self, address: int) -> int:  # noqa: N802
        self.calls.append(("unregister", 0, 0))
        return self.code


def test_a_host_pool_is_registered_where_there_is_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = _Runtime()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    pool = host_pool("host", 4, 2, 64)
    assert (pool.page_locked, pool.base, runtime.calls) == (True, 4, [("register", 128, PORTABLE)])
    runtime.code = 713
    with pytest.raises(PageLockError, match="cudaHostUnregister failed with code 713"):
        pool.close()
    runtime.code = 2
    with pytest.raises(PageLockError, match=r"cudaHostRegister of 128 bytes failed with code 2; .*ulimit -l"):
        host_pool("host", 4, 2, 64)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not host_pool("host", 4, 2, 64).page_locked


@pytest.mark.parametrize("blocks", [(), (0,), (2, 0, 1), (3, 4), (0, 4, 2), (4, 0)])
def test_blocks_that_are_there_are_there_in_any_order(blocks: tuple[int, ...]) -> None:
    Memory([Pool("device", 0, 3, 64), Pool("host", 3, 2, 64)]).check(blocks)


@pytest.mark.parametrize("blocks", [(5,), (-1, 0), (0, 3, 4), (0, 3), (10, 9), (3, 9, 2), (12, 10)])
def test_one_block_that_is_not_there_is_named(blocks: tuple[int, ...]) -> None:
    memory = Memory([Pool("device", 0, 3, 64), Pool("host", 10, 2, 64)])
    bad = next(block for block in blocks if block not in (0, 1, 2, 10, 11))
    with pytest.raises(NoSuchBlockError, match=f"block {bad} lies in no pool"):
        memory.check(blocks)
