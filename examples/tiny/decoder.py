"""A small real decoder: pre-norm layers, rotary positions, grouped heads, a gated MLP, and a paged KV cache.

Weights are random, so it says nothing of interest. What matters here is that each token depends on the keys and values
of all tokens before it: whoever reads a wrong block soon says something else.

**Arithmetic that does not depend on the batch.** The same token has to come out to the last bit whether its prompt was
computed at once, chunk by chunk, or anew after a preemption, and whoever is served beside it; else a fault could not be
told from rounding. A matrix product may add up in another order where the number of its rows is another one. So there
is only one number: tokens are computed in *tiles* of one block, a token in the row of its place in that block, and rows
that nobody asked for are zeros. Each product then has the same shape, and a token the same row of it, whatever else is
going on. A decode step fills one row of sixteen and pays for all; a kernel of a real engine earns the same property in
a cheaper way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from examples.tiny import BLOCK


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder."""

    vocabulary: int = 512
    width: int = 64
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    """Each serves `heads // kv_heads` heads of queries."""
    head_width: int = 16
    inner: int = 128
    """Width of the MLP."""


class Layer(NamedTuple):
    """The weights of one layer, each [in, out]."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


Cache = list[Tensor]
"""The KV cache of a model: for each layer [2, blocks, BLOCK, kv_heads, head_width], keys and values."""


class Decoder:
    """Weights, and the one thing that is done with them. It has no state: the cache is the caller's."""

    def __init__(self, seed: int, shape: Shape | None = None) -> None:
        """Weights as this seed draws them, float32, on the CPU."""
        self.shape = shape = Shape() if shape is None else shape
        dice = torch.Generator().manual_seed(seed)

        def matrix(rows: int, columns: int, gain: float = 1.0) -> Tensor:
            drawn: Tensor = torch.randn(rows, columns, generator=dice) * (gain / rows**0.5)
            return drawn

        width, queries, keys = shape.width, shape.heads * shape.head_width, shape.kv_heads * shape.head_width
        self.embedding = torch.randn(shape.vocabulary, width, generator=dice)
        self.layers = [
            Layer(
                # Attention that is sharp, and strong beside what a token says of itself: a trained one is, too.
                query=matrix(width, queries, gain=1.5),
                key=matrix(width, keys, gain=1.5),
                value=matrix(width, keys),
                output=matrix(queries, width, gain=3.0),
                gate=matrix(width, shape.inner),
                up=matrix(width, shape.inner),
                down=matrix(shape.inner, width),
            )
            for _ in range(shape.layers)
        ]
        self.unembedding = matrix(width, shape.vocabulary)
        half = shape.head_width // 2
        self._speeds = 10_000.0 ** (-torch.arange(half, dtype=torch.float32) / half)

    def make_cache(self, blocks: int) -> Cache:
        """A KV cache of so many blocks."""
        shape = self.shape
        return [torch.zeros(2, blocks, BLOCK, shape.kv_heads, shape.head_width) for _ in range(shape.layers)]

    def forward(self, cache: Cache, tokens: Sequence[int], start: int, table: Sequence[int]) -> Tensor:
        """Compute the keys and values of `tokens`, and the logits behind the last of them, [vocabulary].

        The tokens stand from position `start` on and do not leave its block. `table` has the blocks of the sequence up
        to that one, in order: attention reads its context through it, and the last of them is written.
        """
        first = start % BLOCK
        rows, place = slice(first, first + len(tokens)), start // BLOCK
        angles = (place * BLOCK + torch.arange(BLOCK))[:, None] * self._speeds
        turn = angles.cos()[:, None], angles.sin()[:, None]
        hidden = torch.zeros(BLOCK, self.shape.width)
        hidden[rows] = self.embedding[torch.tensor(tokens)]
        for layer, paged in zip(self.layers, cache, strict=True):
            normed = _norm(hidden)
            paged[0, table[place], rows] = _rotate(self._heads(normed @ layer.key), turn)[rows]
            paged[1, table[place], rows] = self._heads(normed @ layer.value)[rows]
            # [2, blocks, BLOCK, kv_heads, head_width] of this sequence alone, as [2, kv_heads, context, head_width].
            context = paged[:, table[: place + 1]].flatten(1, 2).transpose(1, 2)
            hidden = hidden + self._attend(normed @ layer.query, context, turn, start + len(tokens)) @ layer.output
            normed = _norm(hidden)
            hidden = hidden + (functional.silu(normed @ layer.gate) * (normed @ layer.up)) @ layer.down
        return (_norm(hidden) @ self.unembedding)[rows.stop - 1]

    def _heads(self, flat: Tensor) -> Tensor:
        """[BLOCK, heads * head_width] as [BLOCK, heads, head_width]."""
        return flat.view(BLOCK, -1, self.shape.head_width)

    def _attend(self, flat: Tensor, context: Tensor, turn: tuple[Tensor, Tensor], stop: int) -> Tensor:
        """What the rows of a tile read from the context, [BLOCK, heads * head_width]; `stop` tokens of it are there."""
        kv_heads, length = context.shape[1:3]
        queries = _rotate(self._heads(flat), turn)
        # The queries that share a head of keys stand below each other: [kv_heads, group * BLOCK, head_width].
        grouped = queries.permute(1, 0, 2).reshape(kv_heads, -1, self.shape.head_width)
        scores = grouped @ context[0].transpose(1, 2) / self.shape.head_width**0.5
        scores = scores.view(kv_heads, -1, BLOCK, length)
        unseen = torch.arange(length) > (length - BLOCK + torch.arange(BLOCK))[:, None]
        weights = scores.masked_fill(unseen, float("-inf")).softmax(-1).view(kv_heads, -1, length)
        # Behind `stop` lies what the block's last owner left. Its weight is 0, and 0 times an infinity is no number.
        values = context[1].contiguous()
        values[:, stop:] = 0.0
        mixed: Tensor = (weights @ values).view(-1, BLOCK, self.shape.head_width)
        return mixed.transpose(0, 1).reshape(BLOCK, -1)


def greedy(decoder: Decoder, prompt: Sequence[int], count: int) -> list[int]:
    """The undisturbed run: one prompt alone, in a cache of its own, and the `count` likeliest tokens one by one."""
    tokens = list(prompt)
    table = list(range(-(-(len(prompt) + count) // BLOCK)))
    cache = decoder.make_cache(len(table))
    done = 0
    while len(tokens) < len(prompt) + count:
        stop = min(len(tokens), (done // BLOCK + 1) * BLOCK)
        logits = decoder.forward(cache, tokens[done:stop], done, table)
        done = stop
        if done == len(tokens):
            tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :]


def _norm(rows: Tensor) -> Tensor:
    """Root mean square normalisation of each row."""
    normed: Tensor = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-5)
    return normed


def _rotate(heads: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions: the two halves of each head, [BLOCK, heads, head_width], turned by the angles of their rows."""
    cos, sin = turn
    left, right = heads.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
