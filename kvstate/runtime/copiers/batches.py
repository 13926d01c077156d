"""What a part is for a device: a batch of copies by address, merged where source and destination go on side by side."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from kvstate.machines.messages import Work
from kvstate.runtime.copiers.driver import Numbers
from kvstate.runtime.memory import Memory, Pool, Span, cut_whole


class Batch(NamedTuple):
    """Copies in no order; no byte is written twice."""

    dsts: Numbers
    """Addresses."""
    srcs: Numbers
    """Addresses."""
    sizes: Numbers
    """Bytes."""

    def parts(self, most: int) -> Iterator[Batch]:
        """The same in batches of at most so many copies."""
        for start in range(0, len(self.sizes), most):
            yield Batch(*(column[start : start + most] for column in self))


def batch_of(memory: Memory, work: Work) -> Batch:
    """All copies of a part, merged.

    Raises `NoSuchBlockError` for a block outside of the pools, and `ValueError` for one that is written twice, or for
    two pools whose blocks are divided in different ways.
    """
    if len(set(work.dst)) != len(work.dst):
        raise ValueError(f"part {work.token.serial} writes a block twice; copies of a batch are made in no order")
    found: list[Batch] = []
    for reads, writes, lines in _segments(memory, work.src, work.dst):
        form = writes.form if reads.is_whole else reads.form
        src = np.array(work.src[lines], np.int64) - reads.base
        dst = np.array(work.dst[lines], np.int64) - writes.base
        found += _copies(reads.cut(form), src, writes.cut(form), dst)
    return _merged(found)


def check_batch(memory: Memory, work: Work, staging: torch.Tensor) -> Batch:
    """What brings the destination's blocks of a part into `staging`, [lines, block_bytes], line by line, merged."""
    found: list[Batch] = []
    for pool, _, lines in _segments(memory, work.dst, work.dst):
        rows = np.arange(lines.start, lines.stop, dtype=np.int64)
        slots = np.array(work.dst[lines], np.int64) - pool.base
        found += _copies(pool.spans, slots, cut_whole(staging, pool.form), rows)
    return _merged(found)


def _segments(memory: Memory, src: Sequence[int], dst: Sequence[int]) -> Iterator[tuple[Pool, Pool, slice]]:
    """Lines that have one pool on either side."""
    pools = [(memory.pool_of(one), memory.pool_of(other)) for one, other in zip(src, dst, strict=True)]
    start = 0
    for line in range(1, len(pools) + 1):
        if line == len(pools) or pools[line] != pools[start]:
            yield (*pools[start], slice(start, line))
            start = line


def _copies(reads: Iterable[Span], src: Numbers, writes: Iterable[Span], dst: Numbers) -> Iterator[Batch]:
    """For each span, its pieces: one piece of all lines after the other, so that neighbours stand side by side."""
    for read, write in zip(reads, writes, strict=True):
        srcs, dsts = _addresses(read.tensor, src), _addresses(write.tensor, dst)
        yield Batch(dsts, srcs, np.full(len(srcs), read.tensor.shape[-1], np.int64))


def _addresses(tensor: torch.Tensor, slots: Numbers) -> Numbers:
    """Of the pieces of these slots of a span, by piece and then by slot."""
    offsets = np.zeros(1, np.int64)
    for count, stride in zip(tensor.shape[1:-1], tensor.stride()[1:-1], strict=True):
        offsets = (offsets[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
    addresses: Numbers = (offsets[:, None] + (tensor.data_ptr() + slots * tensor.stride(0))).reshape(-1)
    return addresses


def _merged(found: Iterable[Batch]) -> Batch:
    """All of them as one batch, in which what goes on where the copy before it ends is one copy."""
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    if not columns:
        empty = np.zeros(0, np.int64)
        return Batch(empty, empty, empty)
    dsts, srcs, sizes = columns
    fresh = (dsts[1:] != dsts[:-1] + sizes[:-1]) | (srcs[1:] != srcs[:-1] + sizes[:-1])
    starts = np.flatnonzero(np.concatenate([[True], fresh]))
    return Batch(dsts[starts], srcs[starts], np.add.reduceat(sizes, starts))


class Ranges:
    """The memory of all pools by address, for copies that are made through tensors."""

    def __init__(self, memory: Memory) -> None:
        tensors = [span.tensor for pool in memory.pools if pool.count for span in pool.spans]
        found = {flat.data_ptr(): flat for flat in map(_flat, tensors)}
        self._starts = sorted(found)
        self._flats = [found[start] for start in self._starts]

    def at(self, address: int, size: int, staging: torch.Tensor | None = None) -> torch.Tensor:
        """The bytes there, [size]: in a pool, or in the staging memory of a part."""
        if staging is not None and 0 <= address - staging.data_ptr() < staging.numel():
            flat = staging.view(-1)
        else:
            flat = self._flats[bisect_right(self._starts, address) - 1]
        start = address - flat.data_ptr()
        return flat[start : start + size]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of the storage of a tensor, [bytes]."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))
