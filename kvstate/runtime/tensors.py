"""Pools over tensors that a serving engine has allocated: nothing is copied, and nothing is taken on trust.

What an engine has looks like one of these, in any dtype, with the block dimension anywhere:

    [2, blocks, block_size, heads, dim]     a layer, keys and values together (NHD)
    [blocks, 2, heads, block_size, dim]     the same, block first (HND)
    [blocks, block_size, heads, dim]        keys or values of a layer
    [layers, 2, blocks, ...]                all layers in one
    [blocks, layers, 2, ...]                one block-major tensor: a block is one run of bytes

The names of the other dimensions do not matter. Seen from one block, a tensor is some *pieces*, runs of bytes that are
as long as its strides allow; a tensor that was permuted has the same pieces as the one from which it was made. A block
is the pieces of all tensors end to end, in the order in which they were given, and that is how a host slot holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NoReturn

import numpy as np
import torch

from kvstate.runtime.memory import Pool, Span


class LayoutError(ValueError):
    """Tensors of which no pool can be made; the sentence names the tensor and what is wrong with it."""


_Named = list[tuple[str, torch.Tensor]]


class KVPool(Pool):
    """A pool whose blocks lie in tensors of somebody else. Made by `from_tensors`; `close` leaves the memory alone."""

    __slots__ = ()

    def __init__(self, name: str, base: int, spans: tuple[Span, ...]) -> None:
        """Over spans that are known to be sound; `from_tensors` looks."""
        self._adopt(name, base, spans)

    @classmethod
    def from_tensors(
        cls,
        name: str,
        base: int,
        tensors: torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor],
        *,
        block_dim: int = 0,
        blocks: int | None = None,
    ) -> KVPool:
        """Wrap what an engine has: one tensor, or one or more for each layer, as a list or by name.

        name: of the pool, for messages
        base: the number of its first block in the runtime
        block_dim: which dimension counts blocks, the same in all tensors; -1 is the last
        blocks: how many there must be, where the caller knows better than the tensors

        The memory is used as it is (`data_ptr` does not change) and has to stay where it is for the life of the pool.
        Layers that share one cache are listed once. Raises `LayoutError` for tensors that do not fit together or can't
        be copied by pieces.
        """
        named = _named(tensors)
        if not named:
            raise LayoutError(f"pool {name}: no tensor was given; give those that hold the KV cache")
        if base < 0:
            raise LayoutError(f"pool {name}: its first block can't have the number {base}; numbers are 0 or more")
        spans: list[Span] = []
        start = 0
        for what, tensor in named:
            _check(name, what, tensor, named[0])
            views = _view(name, what, tensor, block_dim)
            if blocks is not None and views.shape[0] != blocks:
                _wrong(name, what, tensor, f"has {views.shape[0]} blocks along dimension {block_dim}, not {blocks}")
            if views.shape[0] != (count := spans[0].tensor.shape[0] if spans else views.shape[0]):
                _wrong(name, what, tensor, f"has {views.shape[0]} blocks, and {named[0][0]} has {count}")
            spans.append(Span(views, start))
            start += prod(views.shape[1:])
        _check_apart(name, [what for what, _ in named], spans)
        return cls(name, base, tuple(spans))


def _named(tensors: torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor]) -> _Named:
    """All tensors with what messages call them."""
    if isinstance(tensors, Mapping):
        return [(repr(key), tensor) for key, tensor in tensors.items()]
    if isinstance(tensors, torch.Tensor):
        return [("the tensor", tensors)]
    return [(f"tensor {number}", tensor) for number, tensor in enumerate(tensors)]


def _wrong(pool: str, what: str, tensor: torch.Tensor, why: str) -> NoReturn:
    raise LayoutError(f"pool {pool}: {what} ({tensor.dtype}, {list(tensor.shape)}, on {tensor.device}) {why}")


def _check(pool: str, what: str, tensor: object, first: tuple[str, torch.Tensor]) -> None:
    """What can be said of a tensor before its strides are looked at."""
    if not isinstance(tensor, torch.Tensor):
        raise LayoutError(f"pool {pool}: {what} is no tensor but {type(tensor).__name__}")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        _wrong(pool, what, tensor, "has no plain bytes; give a dense tensor that is not quantized by torch")
    if tensor.requires_grad:
        _wrong(pool, what, tensor, "is part of a graph of gradients; give tensor.detach()")
    if tensor.is_conj() or tensor.is_neg():
        _wrong(pool, what, tensor, "is a lazy view whose bytes are not its values; resolve it first")
    if tensor.device != first[1].device:
        _wrong(pool, what, tensor, f"lies elsewhere than {first[0]}, which is on {first[1].device}")
    if not tensor.numel():
        _wrong(pool, what, tensor, "is empty")


def _view(pool: str, what: str, tensor: torch.Tensor, block_dim: int) -> torch.Tensor:
    """The bytes of a tensor as [blocks, *outer, piece], the same memory."""
    if not -tensor.dim() <= block_dim < tensor.dim():
        _wrong(pool, what, tensor, f"has no dimension {block_dim} that could count blocks")
    size, at = tensor.element_size(), block_dim % tensor.dim()
    block = tensor.shape[at], tensor.stride(at) * size
    rest = [
        (count, stride * size)
        for place, (count, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True))
        if place != at and count > 1
    ]
    rest.sort(key=lambda dim: dim[1], reverse=True)
    piece = size
    while rest and rest[-1][1] == piece:
        piece *= rest.pop()[0]
    if rest and piece == size:
        _wrong(pool, what, tensor, f"has no two elements of a block side by side (strides {list(tensor.stride())})")
    reach = piece
    for count, stride in sorted([*rest, block] if block[0] > 1 else rest, key=lambda dim: dim[1]):
        if stride < reach:
            _wrong(pool, what, tensor, f"overlaps itself (strides {list(tensor.stride())}): it can't be written whole")
        reach = stride * (count - 1) + reach
    outer = [(count, stride) for count, stride in rest if count > 1]
    shape = [block[0], *(count for count, _ in outer), piece]
    strides = [block[1] if block[0] > 1 else max(reach, 1), *(stride for _, stride in outer), 1]
    plain = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return plain.set_(tensor.untyped_storage(), tensor.storage_offset() * size, shape, strides)


def _check_apart(pool: str, names: Sequence[str], spans: Sequence[Span]) -> None:
    """No byte may belong to two pieces, or a load would write it twice, in no order that anybody knows."""
    extents = sorted(
        (int(span.tensor.data_ptr()), int(span.tensor.data_ptr()) + _reach(span.tensor), place)
        for place, span in enumerate(spans)
    )
    for group in _touching(extents):
        if len(group) < 2:
            continue
        starts = [_starts(spans[place].tensor) for place in group]
        owner = np.concatenate([np.full(each.size, place) for place, each in zip(group, starts, strict=True)])
        begin = np.concatenate(starts)
        end = begin + np.concatenate(
            [np.full(each.size, spans[place].tensor.shape[-1]) for place, each in zip(group, starts, strict=True)]
        )
        order = np.argsort(begin, kind="stable")
        clash = np.flatnonzero(end[order][:-1] > begin[order][1:])
        if clash.size:
            one, other = sorted((int(owner[order[clash[0]]]), int(owner[order[clash[0] + 1]])))
            raise LayoutError(
                f"pool {pool}: {names[one]} and {names[other]} share memory; where layers share one cache, list it once"
            )


def _touching(extents: Sequence[tuple[int, int, int]]) -> Iterator[list[int]]:
    """Places whose extents overlap, directly or through others, together; `extents` are in order."""
    group: list[int] = []
    reach = 0
    for begin, end, place in extents:
        if group and begin >= reach:
            yield group
            group = []
        group.append(place)
        reach = max(reach, end)
    yield group


def _reach(view: torch.Tensor) -> int:
    """Bytes from the first of a view to behind its last."""
    return 1 + sum((count - 1) * stride for count, stride in zip(view.shape, view.stride(), strict=True))


def _starts(view: torch.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The addresses at which the pieces of a view begin, one after the other."""
    starts = np.array([view.data_ptr()], np.int64)
    for count, stride in zip(view.shape[:-1], view.stride()[:-1], strict=True):
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
    return starts
