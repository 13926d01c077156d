"""The names in a scenario, and the numbers in a ledger, both ways.

A scenario speaks of `r1/2` (the second life of request r1), `b7@3` (block b7 in life 3), `t4`, `j1`, `l1`; the ledger
of lease 9, block 2, serial 4. What the ledger says in sentences is translated, so that a pinned output holds nothing
that depends on how many numbers were given out before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvstate.machines.books import Books
from kvstate.machines.messages import BlockRef, Token

COMMON = "main"
"""The namespace of requests that name none; it is not shown."""


class Mistake(Exception):  # noqa: N818, the fault is in the text of a scenario and not in the program
    """Something in a scenario that can't be played; one sentence, to which the player adds file and line."""


class Life(NamedTuple):
    """One lease: which request, and which of its lives."""

    request: str
    number: int
    """1 for its first."""
    space: str
    """The namespace that it was opened in."""

    def __str__(self) -> str:
        return f"{self.request}/{self.number}"


class Names:
    """See the module. `find_*` turn a word of a scenario into a number.

    Errors: each of them raises `Mistake`, a sentence that says what there is instead, for a word that means nothing.
    """

    def __init__(self, books: Books, blocks: Sequence[str]) -> None:
        self.books = books
        self.blocks = tuple(blocks)
        self.leases: dict[int, Life] = {}
        self.newest: dict[str, int] = {}
        self.jobs: dict[int, str] = {}
        self.loads: dict[int, str] = {}
        self.spaces: dict[int, str] = {}
        """The namespace of the work that was sent under a serial."""

    # -- from numbers --------------------------------------------------------------------------------------------------

    def opened(self, lease: int, request: str, space: str) -> Life:
        """Write down that this lease is the next life of the request."""
        number = sum(life.request == request for life in self.leases.values()) + 1
        self.leases[lease] = Life(request, number, space)
        self.newest[request] = lease
        return self.leases[lease]

    def lease(self, lease: int) -> str:
        """`r1/2`."""
        return str(self.leases.get(lease, f"lease {lease}"))

    def job(self, job: int) -> str:
        """Jobs are j1, j2... in the order in which they are first heard of."""
        return self.jobs.setdefault(job, f"j{len(self.jobs) + 1}")

    def load(self, load: int) -> str:
        """Loads are l1, l2... in the order in which they are first heard of."""
        return self.loads.setdefault(load, f"l{len(self.loads) + 1}")

    def block(self, block: int) -> str:
        """`b7`."""
        return self.blocks[block] if 0 <= block < len(self.blocks) else f"block {block}"

    def ref(self, ref: BlockRef) -> str:
        """`b7@3`."""
        return f"{self.block(ref.block)}@{ref.generation}"

    def refs(self, refs: Sequence[BlockRef]) -> str:
        """`b7@3 b8@0`, empty if there are none."""
        return " ".join(map(self.ref, refs))

    def now(self, blocks: Sequence[int]) -> str:
        """These blocks in their present lives; `-` if there are none."""
        return self.refs([self.books.ref(block) for block in blocks]) or "-"

    def token(self, token: Token) -> str:
        """`t4`, with its incarnation where that is not the ledger's own."""
        own = token.incarnation == self.books.config.incarnation
        return f"t{token.serial}" if own else f"t{token.serial} of incarnation {token.incarnation}"

    def key(self, space: str, key: bytes) -> str:
        """`K1`, with its namespace where that is not the common one. `slide:K1` where there are groups."""
        name = key.decode()
        if self.books.config.groups:  # the key space begins with the group, which stands in the key's name already
            space = space.partition("@")[2] or space
        return name if space in ("", COMMON) else f"{name} of {space}"

    def record(self, machine: str, uid: int) -> str:
        """A record by machine and uid, as long as it is on record."""
        books = self.books
        match machine:
            case "block" | "foreign":
                return f"block {self.block(uid)}"
            case "part":
                return f"part {self.token(books.parts[books.parts.uids.index(uid)].token)}"
            case "key":
                pool, space, key = books.keys.name(books.keys.uids.index(uid))
                return f"key {self.key(space, key)} in {books.pools[pool].config.name}"
            case "offload":
                return f"offload {self.job(books.jobs[books.jobs.uids.index(uid)].id)}"
            case "transfer":
                return f"transfer {self.batch(books.batches.uids.index(uid))}"
            case "load":
                return f"load {self.load(books.loads[books.loads.uids.index(uid)].id)}"
            case _:
                return "ledger"

    def batch(self, slot: int) -> str:
        """The batches of l1 are l1.1, l1.2..., in the order of the prefix."""
        batch = self.books.batches[slot]
        return f"{self.load(self.books.loads[batch.load].id)}.{batch.index + 1}"

    def text(self, sentence: str) -> str:
        """A sentence of the ledger's with names for its numbers."""
        ended = {str(number): name for number, name in (*self.jobs.items(), *self.loads.items())}
        sentence = re.sub(r"^(\d+) is no job", lambda found: f"{ended.get(found[1], found[1])} is no job", sentence)
        sentence = re.sub(r"\blease (\d+)", lambda found: self.lease(int(found[1])), sentence)
        sentence = re.sub(r"\bblock (\d+) gen (\d+)", lambda found: f"{self.block(int(found[1]))}@{found[2]}", sentence)
        sentence = re.sub(r"\bblock (\d+)", lambda found: self.block(int(found[1])), sentence)
        sentence = re.sub(r"\bpart (\d+)", r"part t\1", sentence)
        sentence = re.sub(r"\bjob (\d+)", lambda found: self.jobs.get(int(found[1]), found[0]), sentence)
        return re.sub(r"\bload (\d+)", lambda found: self.loads.get(int(found[1]), found[0]), sentence)

    # -- from words ----------------------------------------------------------------------------------------------------

    def find_lease(self, word: str) -> int:
        """`r1` is the newest life of r1, `r1/1` its first; a life that is over can be named."""
        if word in self.newest:
            return self.newest[word]
        for lease, life in self.leases.items():
            if str(life) == word:
                return lease
        raise Mistake(f"there is no request {word}; open it first (open {word.partition('/')[0]})")

    def find_block(self, word: str) -> int:
        """`b7`, as the ledger numbers it."""
        if word in self.blocks:
            return self.blocks.index(word)
        raise Mistake(f"there is no block {word}; the ledger has {' '.join(self.blocks)}")

    def find_ref(self, word: str) -> BlockRef:
        """`b7` is the block in its present life, `b7@0` in that one."""
        name, _, generation = word.partition("@")
        block = self.find_block(name)
        if "@" not in word:
            return self.books.ref(block)
        if not generation.isdecimal():
            raise Mistake(f"{word} names no life of {name}; write {name}@0")
        return BlockRef(block, int(generation))

    def find_token(self, word: str) -> Token:
        """`t4`; whether it was ever minted is not asked, since an unknown report is played, too."""
        if re.fullmatch(r"t\d+", word):
            return Token(self.books.config.incarnation, int(word[1:]))
        raise Mistake(f"{word} is no token; tokens are t1, t2...")

    def find_ended(self, word: str) -> int:
        """The number of a job or a load, under way or over."""
        for number, name in (*self.jobs.items(), *self.loads.items()):
            if name == word:
                return number
        raise Mistake(f"there is no job and no load {word}; jobs are j1, j2..., loads l1, l2...")

    def find_group(self, word: str) -> int | None:
        """The group that a key belongs to, `slide` for `slide:K1`; None where there are no groups."""
        groups = [group.name for group in self.books.config.groups]
        name, sign, _ = word.partition(":")
        if not groups or (sign and name in groups):
            return groups.index(name) if groups else None
        raise Mistake(f"{word} says no group; write {groups[0]}:{word} (there are {', '.join(groups)})")

    def find_pool(self, word: str) -> int:
        """A pool by its name, as the ledger numbers it."""
        names = [pool.config.name for pool in self.books.pools]
        if word in names:
            return names.index(word)
        raise Mistake(f"there is no pool {word}; the ledger has {' '.join(names)}")
