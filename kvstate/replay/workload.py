"""Makes request traces: people who talk to a few assistants, in the format that `kvstate.replay.trace` reads.

What real traces have and a cache lives on is here: prompts that begin with one of a few system prompts (some far more
popular than others), conversations whose every turn repeats all that was said before and adds to it, and, at the end of
nearly every prompt, a block that is not full. That tail gets an id of its own and never comes again, because in the
next turn the same place holds more tokens.

The same seed gives the same trace in every process, on every machine and with every version of Python: only
`random.Random.random()` is used, whose sequence Python promises to keep, and no set or hash is iterated.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from kvstate.replay.trace import Request

BLOCK_TOKENS = 512
"""Tokens of a block, as in the published traces."""
ASSISTANTS = 24
"""System prompts. Few and shared: they are the blocks that are always hit."""
ZIPF = 1.1
"""The k-th assistant is asked 1/k^ZIPF times as often as the first."""
LIVE = 48
"""Conversations that go on at the same time; the reuse of a conversation's blocks is about so many requests apart."""
MEAN_GAP_MS = 250.0
"""From one request to the next, milliseconds."""
MEAN_TURN_TOKENS = 1600.0
"""What a user adds in one turn: a question, and at times a document."""
MEAN_ANSWER_TOKENS = 300.0
"""As in the published traces."""
GO_ON = 0.6
"""The chance that a conversation has another turn."""
MAX_PROMPT_BLOCKS = 160
"""A conversation ends when it no longer fits."""


@dataclass
class _Conversation:
    blocks: list[int]
    """Ids of its full blocks: those of the system prompt first."""
    tokens: int


@dataclass
class _Maker:
    random: Random
    next_id: int = 0
    live: list[_Conversation] = field(default_factory=list)

    def below(self, limit: int) -> int:
        return int(self.random.random() * limit)

    def around(self, mean: float) -> int:
        """A positive number of tokens, most of them small and a few very large."""
        return 1 + int(-math.log(1.0 - self.random.random()) * mean)

    def new_ids(self, count: int) -> list[int]:
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        return ids


def generate(requests: int, seed: int) -> Iterator[Request]:
    """So many requests, always the same for the same seed. Times are whole milliseconds and never go back."""
    maker = _Maker(Random(seed))
    # The lengths of system prompts are drawn first, so that asking for more requests only adds to the end.
    prompts = [maker.new_ids(2 + maker.below(14)) for _ in range(ASSISTANTS)]
    popularity = list(accumulate(1.0 / (rank + 1) ** ZIPF for rank in range(ASSISTANTS)))
    now = 0.0
    for line in range(1, requests + 1):
        index = _pick(maker, prompts, popularity)
        talk = maker.live[index]
        talk.tokens += maker.around(MEAN_TURN_TOKENS)
        full, tail = divmod(talk.tokens, BLOCK_TOKENS)
        talk.blocks += maker.new_ids(full - len(talk.blocks))
        answer = maker.around(MEAN_ANSWER_TOKENS)
        ids = (*talk.blocks, *(maker.new_ids(1) if tail else ()))
        yield Request(line, float(int(now)), talk.tokens, answer, ids)
        # The answer is part of what the next turn repeats.
        talk.tokens += answer
        if maker.random.random() >= GO_ON or len(talk.blocks) > MAX_PROMPT_BLOCKS:
            # The last one takes its place, so that no other conversation moves.
            maker.live[index] = maker.live[-1]
            maker.live.pop()
        now -= math.log(1.0 - maker.random.random()) * MEAN_GAP_MS


def _pick(maker: _Maker, prompts: list[list[int]], popularity: list[float]) -> int:
    """Which conversation speaks next; a new one as long as there is room."""
    if len(maker.live) < LIVE:
        system = prompts[bisect(popularity, maker.random.random() * popularity[-1])]
        maker.live.append(_Conversation(list(system), len(system) * BLOCK_TOKENS))
        return len(maker.live) - 1
    return maker.below(len(maker.live))
