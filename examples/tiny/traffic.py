"""Who asks for what: prompts that share their beginnings, and clients that do not all wait for the end."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Final

from examples.tiny import BLOCK
from kvstate.machines.messages import BlockRef

DOCUMENTS: Final = 12
"""So many texts the prompts begin with."""
DOCUMENT_BLOCKS: Final = (3, 6)
"""How long such a text is, in blocks."""
QUESTION: Final = (4, 40)
"""Tokens behind it, which no two prompts share."""
ANSWER: Final = (8, 40)
"""Tokens that are asked for."""
GAP: Final = (0, 8)
"""Turns from one arrival to the next."""
IMPATIENT: Final = 0.25
"""The share of clients that go away before the end."""
PATIENCE: Final = (1, 20)
"""How many turns after the first admission they do."""


@dataclass(eq=False)
class Request:
    """A request, and what the scheduler remembers of its present life.

    The *lease* is that life. A request that is preempted and admitted again gets another one, so nothing that is still
    on its way for the first can be taken for the second.
    """

    number: int
    prompt: tuple[int, ...]
    wanted: int
    """How many tokens it asks for."""
    arrives: int
    """In which turn it comes."""
    patience: int
    """How many turns after its first admission its client goes away; -1 for never."""
    tokens: list[int] = field(default_factory=list)
    """The prompt and what was said so far. It outlives every lease."""
    keys: list[bytes] = field(default_factory=list)
    """One for each full block of `tokens`."""
    ending: str = ""
    """`finished` or `aborted`; empty while it is served."""
    admitted: int = -1
    """In which turn it was admitted first; -1 before that."""
    was_preempted: bool = False
    """It has had a life before the present one."""

    lease: int = 0
    """Its present life; 0 while it waits for one."""
    load: int = 0
    """The load that it waits for, if there is one."""
    blocks: dict[int, BlockRef] = field(default_factory=dict)
    """The block table: for each place in `tokens`, counted in blocks, the block."""
    spans: deque[range] = field(default_factory=deque)
    """Positions to be computed, in order, none longer than its block. Behind the last of them a token is said."""

    @property
    def said(self) -> list[int]:
        """What it was answered so far."""
        return self.tokens[len(self.prompt) :]

    def is_given_up(self, turn: int) -> bool:
        """Has its client gone away by this turn?"""
        return self.patience >= 0 and 0 <= self.admitted <= turn - self.patience

    def name_blocks(self) -> None:
        """Bring `keys` up to date: of each full block, a hash of all tokens up to its end.

        The key says all that the bytes depend on, but for what the namespace of the lease says.
        """
        while (stop := (len(self.keys) + 1) * BLOCK) <= len(self.tokens):
            before = self.keys[-1] if self.keys else b""
            own = array("q", self.tokens[stop - BLOCK : stop]).tobytes()
            self.keys.append(blake2b(before + own, digest_size=16).digest())

    def end_life(self) -> None:
        """Its lease is closed. What it said stays, and counts as prompt from now on."""
        self.lease = self.load = 0
        self.blocks, self.spans = {}, deque()


def most_blocks() -> int:
    """What the longest request can need on the device."""
    return -(-(DOCUMENT_BLOCKS[1] * BLOCK + QUESTION[1] + ANSWER[1]) // BLOCK)


def make_requests(seed: int, count: int, vocabulary: int) -> list[Request]:
    """So many requests, in the order in which they come."""
    dice = Random(seed)

    def text(length: int) -> tuple[int, ...]:
        return tuple(dice.randrange(vocabulary) for _ in range(length))

    documents = [text(dice.randint(*DOCUMENT_BLOCKS) * BLOCK) for _ in range(DOCUMENTS)]
    requests, turn = [], 0
    for number in range(1, count + 1):
        turn += dice.randint(*GAP)
        prompt = dice.choice(documents) + text(dice.randint(*QUESTION))
        patience = dice.randint(*PATIENCE) if dice.random() < IMPATIENT else -1
        requests.append(Request(number, prompt, dice.randint(*ANSWER), turn, patience, list(prompt)))
    return requests
