"""Blocks as bytes: pools of equal blocks, numbered through all pools of a runtime.

A `Pool` is one tensor, allocated once and touched (the first touch of fresh memory runs at a fifth of the speed of a
copy, and at the worst time if it is left to the first request). A `KVPool` (`kvstate.runtime.tensors`) is what a
serving engine has already: a tensor for each layer, say, so that a block is not one run of bytes but a list of
*pieces*. What a copier needs to know of either stands in its `spans`.

On the CPU there are two NumPy views of a pool that is one tensor, and no object per block: `array` for bytes, `blocks`
in which a whole block is one element, which is what is copied (see `kvstate.runtime.copy` for why).

Beside the bytes a pool keeps a seal for each slot: see `kvstate.runtime.seals`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kvstate.runtime.seals import Seals

Bytes = npt.NDArray[np.uint8]
"""Bytes as NumPy has them, of a shape that is said where they are used."""
PAGE: Final = 4096
"""Bytes; what a pool allocates on the CPU begins at a multiple of it, as a page can only be locked whole."""


class NoSuchBlockError(LookupError):
    """A block number that lies in no pool."""


class Span(NamedTuple):
    """The share of one tensor in every block of a pool."""

    tensor: torch.Tensor
    """Its bytes, [count, ..., piece]: a piece is one run of bytes, the dimensions before it have any strides."""
    start: int
    """At which byte of a block it begins; a block is its pieces end to end."""

    @property
    def block_bytes(self) -> int:
        """Bytes of it in one block."""
        return prod(self.tensor.shape[1:])


Form = tuple[tuple[int, ...], ...]
"""How a block is divided: for each span its `start`, its outer dimensions, and the bytes of a piece."""
Unlock = Callable[[], None]
"""Lets locked pages go; called once."""
PageLock = Callable[[int, int], Unlock]
"""Locks bytes into memory, by address and size, for DMA; returns what unlocks them. See `kvstate.runtime.pages`."""


class Pool:
    """`count` blocks of `block_bytes` bytes, of which the first has the number `base`. A *slot* counts from there.

    Raises `ValueError` for numbers that make no pool.
    """

    __slots__ = (
        "_cut", "_unlock", "base", "block_bytes", "count", "end", "form", "is_whole", "name", "on_cpu",
        "page_locked", "seals", "spans", "views",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        base: int,
        count: int,
        block_bytes: int,
        device: str | torch.device = "cpu",
        *,
        page_lock: PageLock | None = None,
    ) -> None:
        """Allocates and touches the memory, on the `device` that torch knows by that name.

        `page_lock` is called with what was allocated, for a pool that a GPU is to read and write by DMA; `close` undoes
        it. What torch raises where there is no room, and what `page_lock` raises, comes through.
        """
        if base < 0 or count < 0 or block_bytes < 1:
            raise ValueError(
                f"pool {name}: {count} blocks of {block_bytes} bytes from number {base} on make no pool; "
                "numbers and counts are 0 or more, a block has at least a byte"
            )
        tensor = _allocate(count * block_bytes, device).view(count, block_bytes)
        self._adopt(name, base, (Span(tensor, 0),))
        if page_lock is not None and count:
            self._unlock.append(page_lock(tensor.data_ptr(), tensor.numel()))
            self.page_locked = True

    def _adopt(self, name: str, base: int, spans: tuple[Span, ...]) -> None:
        """Be a pool over this memory. Of one tensor that has a block in one run there are views as a whole."""
        first = spans[0].tensor
        self.name = name
        """For messages."""
        self.base = base
        """The number of its first block."""
        self.count = first.shape[0]
        """How many blocks it has."""
        self.end = base + self.count
        """The first block number behind the pool."""
        self.spans = spans
        """Its tensors, in the order in which a block has their bytes."""
        self.block_bytes = sum(span.block_bytes for span in spans)
        """Bytes of a block."""
        self.form: Form = tuple((span.start, *span.tensor.shape[1:]) for span in spans)
        """How a block is divided."""
        self.on_cpu = first.device.type == "cpu"
        """Do its bytes have NumPy views?"""
        self.is_whole = len(spans) == 1 and first.dim() == 2
        """Is a block one run of bytes?"""
        self.page_locked = False
        """Were its pages locked when it was made?"""
        self.seals = Seals(self.count)
        """What is known of each slot beside its bytes."""
        self._unlock: list[Unlock] = []
        self._cut: dict[Form, tuple[Span, ...]] = {self.form: spans}
        self.views: tuple[Bytes, npt.NDArray[np.void]] | None = None
        """`array` and `blocks`, or None where they can't be."""
        if self.on_cpu and self.is_whole:
            array = first.numpy()
            if first.is_contiguous():
                blocks = array.view(np.dtype((np.void, self.block_bytes))).reshape(self.count)
            else:  # a gap behind each block
                blocks = array.view(np.dtype((np.void, self.block_bytes)))[:, 0]
            self.views = array, blocks

    def __repr__(self) -> str:
        kind = "" if self.is_whole else f" in {len(self.spans)} tensors"
        return (
            f"{type(self).__name__}({self.name}: blocks {self.base}..{self.end - 1} of {self.block_bytes} bytes{kind} "
            f"on {self.device})"
        )

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self.spans[0].tensor.device

    @property
    def tensor(self) -> torch.Tensor:
        """The memory, [count, block_bytes], of bytes. Raises `TypeError` for blocks in pieces."""
        if not self.is_whole:
            raise TypeError(f"a block of pool {self.name} lies in {len(self.spans)} tensors; use `spans` or `bytes_of`")
        return self.spans[0].tensor

    @property
    def array(self) -> Bytes:
        """The bytes, [count, block_bytes], the same memory as `tensor`. Raises `TypeError` where there is no view."""
        return self._seen()[0]

    @property
    def blocks(self) -> npt.NDArray[np.void]:
        """The same memory, [count], an element a block. Raises `TypeError` where there is no view."""
        return self._seen()[1]

    def _seen(self) -> tuple[Bytes, npt.NDArray[np.void]]:
        if self.views is None:
            where = self.tensor.device
            raise TypeError(f"pool {self.name} lies on {where}: its bytes have no NumPy view; use `tensor`")
        return self.views

    def cut(self, form: Form) -> tuple[Span, ...]:
        """Its memory, divided as `form` says: its own spans, or, where a block is one run, views of those pieces.

        Raises `ValueError` for blocks in pieces of another form.
        """
        found = self._cut.get(form)
        if found is None:
            if not self.is_whole:
                raise ValueError(f"a block of pool {self.name} is divided in another way; it can't be copied so")
            found = self._cut[form] = cut_whole(self.tensor, form)
        return found

    def bytes_of(self, slot: int) -> Bytes:
        """The bytes of one block, [block_bytes]: a view where there is one, else a copy."""
        if self.views is not None:
            view: Bytes = self.views[0][slot]
            return view
        return torch.cat([span.tensor[slot].reshape(-1) for span in self.spans]).cpu().numpy()

    def put(self, slot: int, data: Bytes) -> None:
        """Write the bytes of one block, [block_bytes], wherever its pieces lie; done when it returns.

        For tests and checks: nothing here looks at who may write. Raises `ValueError` for a different number of bytes.
        """
        if data.size != self.block_bytes:
            raise ValueError(f"a block of pool {self.name} has {self.block_bytes} bytes, and {data.size} were given")
        flat = torch.from_numpy(np.ascontiguousarray(data).reshape(-1))
        for span in self.spans:
            part = flat[span.start : span.start + span.block_bytes]
            span.tensor[slot].copy_(part.view(span.tensor.shape[1:]))

    def close(self) -> None:
        """Unlock its pages, if they were locked; the memory goes with the last view of it. May be called again.

        Only after every copier that may touch the pool is closed: pages that a device writes must stay where they are.
        """
        while self._unlock:
            self._unlock.pop()()


def cut_whole(tensor: torch.Tensor, form: Form) -> tuple[Span, ...]:
    """Blocks that are one run of bytes each, [count, block_bytes], seen as pieces of that form; the same memory."""
    parts = ((start, shape, tensor[:, start : start + prod(shape)]) for start, *shape in form)
    return tuple(Span(part.view(tensor.shape[0], *shape), start) for start, shape, part in parts)


def _allocate(size: int, device: str | torch.device) -> torch.Tensor:
    """So many bytes, [size], touched; on the CPU from the start of a page on.

    There NumPy allocates, since it asks the kernel for huge pages where the array is large, and torch does not.
    """
    if torch.device(device).type != "cpu":
        return torch.empty(size, dtype=torch.uint8, device=device).fill_(0)
    memory = torch.from_numpy(np.empty(size + PAGE, np.uint8)).fill_(0)
    skip = -memory.data_ptr() % PAGE
    return memory[skip : skip + size]


class Memory:
    """All pools of one runtime. Block numbers may have gaps between pools and never overlap.

    Errors: `NoSuchBlockError` for a block number that lies in no pool; making one raises `ValueError` for no pool, for
    pools that overlap, for blocks of two sizes, and for two pools whose blocks are in pieces of different forms.
    """

    __slots__ = ("_bases", "_filled", "block_bytes", "pools")

    def __init__(self, pools: Iterable[Pool]) -> None:
        """The pools in any order."""
        self.pools = tuple(sorted(pools, key=lambda pool: (pool.base, pool.end)))
        """In the order of their numbers."""
        if not self.pools:
            raise ValueError("a memory needs at least one pool")
        for before, pool in zip(self.pools, self.pools[1:], strict=False):
            if before.end > pool.base:
                raise ValueError(f"pools {before.name} and {pool.name} both claim block {pool.base}; move a base")
            if before.block_bytes != pool.block_bytes:
                raise ValueError(
                    f"a block has {before.block_bytes} bytes in pool {before.name} and {pool.block_bytes} in "
                    f"{pool.name}; blocks are copied whole, so all pools need the same size"
                )
        divided = [pool for pool in self.pools if not pool.is_whole]
        for pool in divided[1:]:
            if pool.form != divided[0].form:
                raise ValueError(
                    f"blocks of pool {pool.name} are divided in another way than those of {divided[0].name}; "
                    "of two such pools, one must have its blocks in one run"
                )
        self.block_bytes = self.pools[0].block_bytes
        """Bytes of a block, in all of them."""
        self._filled = tuple(pool for pool in self.pools if pool.count)
        self._bases = tuple(pool.base for pool in self._filled)

    def pool_of(self, block: int) -> Pool:
        """The pool that a block number lies in. Raises `NoSuchBlockError`."""
        at = bisect_right(self._bases, block) - 1
        if at >= 0 and block < self._filled[at].end:
            return self._filled[at]
        there = ", ".join(f"{pool.name} {pool.base}..{pool.end - 1}" for pool in self._filled)
        raise NoSuchBlockError(f"block {block} lies in no pool; there are {there or 'no blocks at all'}")

    def check(self, blocks: Sequence[int]) -> None:
        """Do all of these lie in pools? Raises `NoSuchBlockError` for the first that does not."""
        pool = self.pool_of(blocks[0]) if blocks else None
        if pool is None or (pool.base <= min(blocks) and max(blocks) < pool.end):
            return
        for block in blocks:
            self.pool_of(block)

    def place(self, block: int) -> tuple[Pool, int]:
        """The pool and the slot in it of a block number. Raises `NoSuchBlockError`."""
        pool = self.pool_of(block)
        return pool, block - pool.base

    def bytes_of(self, block: int) -> Bytes:
        """The bytes of one block by its number, [block_bytes]. Raises `NoSuchBlockError`."""
        pool, slot = self.place(block)
        return pool.bytes_of(slot)

    def close(self) -> None:
        """`Pool.close` of all pools."""
        for pool in self.pools:
            pool.close()
