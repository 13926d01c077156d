"""Pools over tensors of an engine: every layout by its bytes, and every mistake by its sentence."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from kvstate.machines.messages import Kind
from kvstate.runtime.copy import Integrity, perform
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.pieces import RELEASE_BYTES
from kvstate.runtime.tensors import KVPool, LayoutError
from tests.runtime.parts import key, part

BLOCKS, SIZE, HEADS, DIM, LAYERS = 6, 4, 2, 8, 3
Tensors = list[torch.Tensor]


def filled(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """A tensor whose every byte is of its own, as far as bytes go."""
    count = int(np.prod(shape)) * dtype.itemsize
    data = np.random.default_rng(sum(shape)).integers(0, 256, count, np.uint8)
    return torch.from_numpy(data).view(dtype).view(shape)


def nhd() -> Tensors:
    return [filled(2, BLOCKS, SIZE, HEADS, DIM) for _ in range(LAYERS)]


def hnd() -> Tensors:
    """Heads before tokens in memory, tokens before heads to whoever asks for a shape."""
    return [filled(2, BLOCKS, HEADS, SIZE, DIM).transpose(2, 3) for _ in range(LAYERS)]


LAYOUTS: dict[str, tuple[Callable[[], Tensors], int, int]] = {
    "NHD, K and V together": (nhd, 1, 2 * LAYERS),
    "HND behind a permuted view": (hnd, 1, 2 * LAYERS),
    "blocks first": (lambda: [filled(BLOCKS, 2, SIZE, HEADS, DIM) for _ in range(LAYERS)], 0, LAYERS),
    "K and V apart": (lambda: [filled(BLOCKS, SIZE, HEADS, DIM) for _ in range(2 * LAYERS)], 0, 2 * LAYERS),
    "K and V as views of one tensor": (lambda: [t[:, at] for t in nhd() for t in [t.transpose(0, 1)] for at in (0, 1)],
                                       0, 2 * LAYERS),
    "all layers in one": (lambda: [filled(LAYERS, 2, BLOCKS, SIZE, DIM)], 2, 2 * LAYERS),
    "block-major": (lambda: [filled(BLOCKS, LAYERS, 2, SIZE, DIM)], 0, 1),
    "one latent vector a token": (lambda: [filled(BLOCKS, SIZE, 36) for _ in range(LAYERS)], 0, LAYERS),
    "eight bits": (lambda: [filled(2, BLOCKS, SIZE, DIM, dtype=torch.float8_e4m3fn)], 1, 2),
    "floats": (lambda: [filled(2, BLOCKS, SIZE, DIM, dtype=torch.float32)], -3, 2),
    "blocks in the middle of heads": (lambda: [filled(HEADS, BLOCKS, SIZE, DIM)], 1, HEADS),
    "a gap behind each block": (lambda: [filled(BLOCKS, 2, SIZE, DIM)[:, 0]], 0, 1),
    "a part of a larger tensor": (lambda: [filled(3, BLOCKS, SIZE, DIM)[1]], 0, 1),
    "one block": (lambda: [filled(2, 1, SIZE, DIM)], 1, 1),
}  # fmt: skip
"""Tensors, their block dimension, and how many pieces a block has."""


def elements(tensors: Tensors, dim: int, block: int) -> list[torch.Tensor]:
    """What an engine reads of a block: by indices, knowing nothing of bytes."""
    return [tensor.select(dim, block).clone() for tensor in tensors]


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> tuple[Tensors, int, int]:
    make, dim, pieces = LAYOUTS[request.param]
    return make(), dim, pieces


def test_nothing_is_copied_and_a_block_has_as_few_pieces_as_can_be(layout: tuple[Tensors, int, int]) -> None:
    tensors, dim, pieces = layout
    pool = KVPool.from_tensors("device", 5, tensors, block_dim=dim)
    assert [span.tensor.data_ptr() for span in pool.spans] == [tensor.data_ptr() for tensor in tensors]
    assert pool.count == tensors[0].shape[dim]
    assert pool.block_bytes == sum(t.numel() * t.element_size() for t in tensors) // pool.count
    assert sum(int(np.prod(span.tensor.shape[1:-1])) for span in pool.spans) == pieces
    assert (pool.base, pool.end, pool.on_cpu, pool.is_whole) == (5, 5 + pool.count, True, pieces == 1)
    tensors[0].select(dim, 0).fill_(0)
    assert not pool.bytes_of(0)[: pool.spans[0].block_bytes].any()


def test_a_block_goes_down_and_comes_back_element_by_element(layout: tuple[Tensors, int, int]) -> None:
    """Stored from one block and loaded into another: what the engine reads there is what it wrote here."""
    tensors, dim, _ = layout
    device = KVPool.from_tensors("device", 0, tensors, block_dim=dim)
    count = device.count
    host = Pool("host", count, 2 * count, device.block_bytes)
    memory = Memory([device, host])
    dice = random.Random(1)
    slots = dice.sample(range(count, 3 * count), count)
    keys = [key(number) for number in range(count)]
    before = [elements(tensors, dim, block) for block in range(count)]
    assert perform(memory, part(Kind.STORE, range(count), slots, keys), integrity=Integrity.HOST) == ()
    into = dice.sample(range(count), count)
    for tensor in tensors:
        tensor.fill_(0)
    assert perform(memory, part(Kind.FETCH, slots, into, keys), integrity=Integrity.HOST) == ()
    assert perform(memory, part(Kind.VERIFY, slots, into, keys), integrity=Integrity.HOST) == ()
    for block, wanted in zip(into, before, strict=True):
        found = elements(tensors, dim, block)
        assert all(a.view(torch.uint8).equal(b.view(torch.uint8)) for a, b in zip(found, wanted, strict=True))
    device.put(into[0], device.bytes_of(into[0]) ^ np.uint8(1))
    failures = perform(memory, part(Kind.VERIFY, slots, into, keys), integrity=Integrity.HOST)
    assert [failure.line for failure in failures] == [0]


def test_neighbours_outside_of_the_tensors_are_left_alone() -> None:
    whole = torch.full((BLOCKS, 3, 64), 7, dtype=torch.uint8)
    device = KVPool.from_tensors("device", 0, whole[:, 1])
    memory = Memory([device, Pool("host", BLOCKS, BLOCKS, 64)])
    keys = [key(number) for number in range(BLOCKS)]
    memory.pools[1].seals.close(range(BLOCKS), keys, None)
    perform(memory, part(Kind.FETCH, range(BLOCKS, 2 * BLOCKS), range(BLOCKS), keys), integrity=Integrity.OFF)
    assert not whole[:, 1].any()
    assert whole[:, ::2].eq(7).all()
    assert device.blocks.shape == (BLOCKS,)
    assert device.array.base is not None


def test_long_pieces_move_the_same_bytes_as_short_ones() -> None:
    tensors = [torch.randint(0, 255, (2, 4, RELEASE_BYTES // 2), dtype=torch.uint8) for _ in range(2)]
    device = KVPool.from_tensors("device", 0, tensors, block_dim=1)
    memory = Memory([device, Pool("host", 4, 4, device.block_bytes)])
    for src, dst in (([0, 1, 2, 3], [4, 5, 6, 7]), ([0, 2, 1, 3], [7, 5, 6, 4])):
        assert perform(memory, part(Kind.STORE, src, dst, [b"k"] * 4), integrity=Integrity.OFF) == ()
        assert all((memory.bytes_of(a) == memory.bytes_of(b)).all() for a, b in zip(src, dst, strict=True))


def test_names_are_for_messages_and_order_is_that_of_the_mapping() -> None:
    tensors = {"layers.0": filled(2, BLOCKS, SIZE, DIM), "layers.1": filled(2, BLOCKS, SIZE, DIM)}
    pool = KVPool.from_tensors("device", 0, tensors, block_dim=1, blocks=BLOCKS)
    assert [span.start for span in pool.spans] == [0, 128]
    assert repr(pool) == "KVPool(device: blocks 0..5 of 256 bytes in 2 tensors on cpu)"
    with pytest.raises(LayoutError, match=r"pool device: 'layers.0' \(.*\) has 6 blocks along dimension 1, not 7"):
        KVPool.from_tensors("device", 0, tensors, block_dim=1, blocks=7)


def test_what_only_a_pool_in_one_run_has_is_refused_for_pieces() -> None:
    pool = KVPool.from_tensors("device", 0, nhd(), block_dim=1)
    for name in ("tensor", "array", "blocks"):
        with pytest.raises(TypeError, match="lies in 3 tensors; use `spans` or `bytes_of`"):
            getattr(pool, name)
    with pytest.raises(ValueError, match="divided in another way"):
        pool.cut(((0, 3),))
    with pytest.raises(ValueError, match="has 768 bytes, and 3 were given"):
        pool.put(0, np.zeros(3, np.uint8))
    other = KVPool.from_tensors("other", 6, [filled(BLOCKS, 384)], block_dim=0)
    assert Memory([pool, other]).block_bytes == 768, "of two pools one may be in pieces"
    apart = KVPool.from_tensors("other", 6, [filled(BLOCKS, 2, 192).transpose(0, 1) for _ in range(1)], block_dim=1)
    assert apart.is_whole
    three = KVPool.from_tensors("three", 6, [filled(3, BLOCKS, 128)], block_dim=1)
    with pytest.raises(ValueError, match="blocks of pool three are divided in another way than those of device"):
        Memory([pool, three])


def shared() -> Tensors:
    """Two layers with one cache, listed twice."""
    one, other = filled(2, BLOCKS, 8), filled(2, BLOCKS, 8)
    return [one, other, one]


def crossing() -> Tensors:
    whole = filled(2 * BLOCKS, 8)
    return [whole[:BLOCKS], whole[BLOCKS - 1 : 2 * BLOCKS - 1]]


MISTAKES: dict[str, tuple[Callable[[], object], int, str]] = {
    "none": (list, 0, "no tensor was given; give those that hold the KV cache"),
    "no tensor": (lambda: [np.zeros(3)], 0, "tensor 0 is no tensor but ndarray"),
    "no such dimension": (lambda: [filled(3, 8)], 2, r"has no dimension 2 that could count blocks"),
    "empty": (lambda: [torch.empty(0, 8)], 0, "is empty"),
    "other blocks": (lambda: [filled(3, 8), filled(4, 8)], 0,
                     r"tensor 1 \(torch.bfloat16, \[4, 8\], on cpu\) has 4 blocks, and tensor 0 has 3"),
    "other device": (lambda: [filled(3, 8), torch.empty(3, 8, device="meta")], 0, "lies elsewhere than tensor 0"),
    "sparse": (lambda: [torch.zeros(3, 8).to_sparse()], 0, "has no plain bytes"),
    "gradients": (lambda: [torch.zeros(3, 8, requires_grad=True)], 0, "give tensor.detach()"),
    "lazy": (lambda: [torch.zeros(3, 8, dtype=torch.complex64).conj()], 0, "resolve it first"),
    "strided elements": (lambda: [filled(3, 8, 2)[:, :, 0]], 0, r"no two elements of a block side by side"),
    "block dimension innermost": (lambda: [filled(8, 3)], 1, "no two elements of a block side by side"),
    "expanded": (lambda: [filled(1, 8).expand(3, 8)], 0, r"overlaps itself \(strides \[0, 1\]\)"),
    "sliding": (lambda: [filled(64).as_strided((4, 8), (4, 1))], 0, "overlaps itself"),
    "listed twice": (shared, 1, "tensor 0 and tensor 2 share memory; where layers share one cache, list it once"),
    "crossing": (crossing, 0, "tensor 0 and tensor 1 share memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_sentence(name: str) -> None:
    make, dim, words = MISTAKES[name]
    with pytest.raises(LayoutError, match=words) as told:
        KVPool.from_tensors("device", 0, make(), block_dim=dim)  # type: ignore[arg-type]
    assert str(told.value).startswith("pool device: ")
    assert "\n" not in str(told.value)


def test_a_base_below_zero_is_refused() -> None:
    with pytest.raises(LayoutError, match="can't have the number -1"):
        KVPool.from_tensors("device", -1, filled(3, 8))
