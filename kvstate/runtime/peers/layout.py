"""How the blocks of a process lie, told to another, and cut so that both sides have the same pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.peers.transport import DescriptionError

FORMAT: Final = 1
"""How a description is laid out."""
MAX_BYTES: Final = 1 << 20
"""Of a description; a larger one is none."""


class Row(NamedTuple):
    """One piece of every block of a pool: that of slot n begins at `address + n * stride`."""

    address: int
    stride: int
    """Bytes from one block's piece to the next one's."""
    start: int
    """At which byte of a block it begins."""
    length: int
    """Bytes."""


class Plan(NamedTuple):
    """A pool as others need to know it."""

    base: int
    """The number of its first block."""
    blocks: int
    """How many blocks it has."""
    device: int
    """-1 for the memory of the CPU, else the number of the GPU."""
    rows: tuple[Row, ...]
    """The pieces of a block, in the order of its bytes."""

    def holds(self, blocks: Sequence[int]) -> bool:
        """Do all of these lie in this pool?"""
        return not blocks or (self.base <= min(blocks) and max(blocks) < self.base + self.blocks)

    def cut(self, form: tuple[tuple[int, int], ...]) -> tuple[Row, ...] | None:
        """Its rows in pieces of this form (start and length of each); None where they are cut in another way."""
        own = tuple((row.start, row.length) for row in self.rows)
        if own == form:
            return self.rows
        if len(self.rows) > 1:
            return None
        whole = self.rows[0]
        return tuple(Row(whole.address + start, whole.stride, start, length) for start, length in form)


class Layout(NamedTuple):
    """All pools of a process, in the order of their numbers, and where to find whoever serves them."""

    transport: str
    """Which transport it is for."""
    block_bytes: int
    """Bytes of a block."""
    plans: tuple[Plan, ...]
    """The pools."""
    more: dict[str, Any]
    """What the transport adds."""

    def plan_of(self, block: int) -> Plan | None:
        """The pool that a block number lies in, or None."""
        for plan in self.plans:  # a few
            if plan.base <= block < plan.base + plan.blocks:
                return plan
        return None

    def missing(self, blocks: Sequence[int]) -> int | None:
        """The first of these that lies in no pool."""
        first = self.plan_of(blocks[0]) if blocks else None
        if first is not None and first.holds(blocks):
            return None
        return next((block for block in blocks if self.plan_of(block) is None), None)

    def encode(self) -> bytes:
        """As bytes, for `Transport.describe`."""
        data = {"format": FORMAT, **self._asdict()}
        return json.dumps(data, separators=(",", ":")).encode()


def layout_of(transport: str, memory: Memory, more: dict[str, Any]) -> Layout:
    """What others need to know of this memory."""
    plans = tuple(_plan(pool) for pool in memory.pools if pool.count)
    return Layout(transport, memory.block_bytes, plans, more)


def decode(description: bytes, ours: Layout) -> Layout:
    """A peer's layout, which fits ours. Errors: `DescriptionError`, which is a `ValueError`."""
    try:
        if len(description) > MAX_BYTES:
            raise ValueError(f"{len(description)} bytes are too many")
        data = json.loads(description)
        form = data.pop("format")
        data["plans"] = tuple(
            Plan(base, count, device, tuple(Row(*row) for row in rows)) for base, count, device, rows in data["plans"]
        )
        theirs = Layout(**data)
        numbers = [
            form,
            theirs.block_bytes,
            *(n for p in theirs.plans for n in (*p[:3], *(m for r in p.rows for m in r))),
        ]
        if form != FORMAT or not all(type(number) is int for number in numbers) or type(theirs.more) is not dict:
            raise ValueError(f"it has format {form}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DescriptionError(f"these bytes describe no memory of format {FORMAT}: {error}"[:300]) from None
    if theirs.transport != ours.transport:
        raise DescriptionError(
            f"the peer serves over {theirs.transport!r}, and this side pulls over {ours.transport!r}"
        )
    if theirs.block_bytes != ours.block_bytes:
        raise DescriptionError(f"a block of the peer has {theirs.block_bytes} bytes, and one here {ours.block_bytes}")
    return theirs


def _plan(pool: Pool) -> Plan:
    device = -1 if pool.on_cpu else (pool.device.index or 0)
    rows: list[Row] = []
    for span in pool.spans:
        tensor = span.tensor
        outer, piece = tensor.shape[1:-1], tensor.shape[-1]
        for number, at in enumerate(product(*map(range, outer))):
            offset = sum(one * stride for one, stride in zip(at, tensor.stride()[1:-1], strict=True))
            start = span.start + number * piece
            rows.append(Row(tensor.data_ptr() + offset, tensor.stride(0), start, piece))
    assert sum(row.length for row in rows) == pool.block_bytes == sum(prod(s.tensor.shape[1:]) for s in pool.spans)
    return Plan(pool.base, pool.count, device, tuple(rows))
