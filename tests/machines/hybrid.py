"""KV groups for tests: some of them, a search through all lengths, and a ledger that has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from kvstate.machines.config import GroupConfig, GroupKind, PoolConfig
from kvstate.machines.groups import Line, lines_of
from kvstate.machines.messages import BlockRef
from kvstate.machines.verdicts import Hit
from tests.machines.rig import Rig, keys

Usable = Callable[[int, int], bool]


def full(size: int, name: str = "full") -> GroupConfig:
    return GroupConfig(name, size)


def sliding(size: int, window: int, name: str = "slide") -> GroupConfig:
    return GroupConfig(name, size, GroupKind.SLIDING, window)


def needed(groups: Sequence[GroupConfig], tokens: int) -> set[Line]:
    """What a length needs, token by token: all tokens before it, or the last `window` of them."""
    return {
        Line(number, token // group.tokens_per_block)
        for number, group in enumerate(groups)
        for token in range(0 if group.window is None else max(0, tokens - group.window), tokens)
    }


def greatest(groups: Sequence[GroupConfig], most: int, usable: Usable) -> int:
    """Every length from the top."""
    for tokens in range(most, 0, -1):
        if all(tokens % group.tokens_per_block == 0 for group in groups) and all(
            usable(*line) for line in needed(groups, tokens)
        ):
            return tokens
    return 0


@st.composite
def some_groups(draw: st.DrawFn) -> list[GroupConfig]:
    kinds = st.one_of(st.none(), st.integers(1, 9))
    windows = draw(st.lists(kinds, min_size=1, max_size=3))
    sizes = [draw(st.integers(1, 4)) for _ in windows]
    return [
        full(size, f"g{number}") if window is None else sliding(size, window, f"g{number}")
        for number, (size, window) in enumerate(zip(sizes, windows, strict=True))
    ]


HYBRID = (full(2), sliding(1, 3))
POOLS = (PoolConfig("device", 64), PoolConfig("host", 64), PoolConfig("disk", 64))


def prompt(groups: Sequence[GroupConfig], tokens: int) -> list[list[bytes]]:
    """The keys of a prompt; the same bytes in every group, on purpose."""
    return [keys(*range(1, tokens // group.tokens_per_block + 1)) for group in groups]


class Hybrid(Rig):
    """A ledger with groups, and blocks put where a test wants them."""

    def __init__(self, groups: Sequence[GroupConfig] = HYBRID, **options: Any) -> None:
        options.setdefault("pools", POOLS)
        super().__init__(groups=tuple(groups), **options)
        self.groups = tuple(groups)

    def put(self, group: int, places: Sequence[int], pool: int = 0) -> None:
        """These blocks of the group are cached in that pool, and nowhere else."""
        lease = self.open()
        refs = self.allocate(lease, len(places))
        assert all(self.ledger.seal(lease, refs, keys(*(place + 1 for place in places)), group=group))
        if pool:
            self.offload(lease, refs, pool=pool)
            self.finish_all()
        self.ledger.finish(lease)
        self.verdicts()
        if pool:
            self.flush()

    def stored(self, tokens: int, pool: int = 1) -> None:
        """All blocks of a prompt of so many tokens are in that pool."""
        for number, group in enumerate(self.groups):
            self.put(number, range(tokens // group.tokens_per_block), pool)

    def ask(self, lease: int, tokens: int) -> Hit:
        hit = self.ledger.lookup_groups(lease, prompt(self.groups, tokens))
        assert isinstance(hit, Hit), hit
        return hit

    def blocks_of(self, hit: Hit) -> dict[Line, BlockRef]:
        """The blocks of a hit by group and place, as an engine reads it."""
        return {
            Line(number, span.first + at): hit.blocks[line]
            for number, span in enumerate(hit.groups)
            for at, line in enumerate(span.lines)
        }


def loads(rig: Hybrid, lease: int, tokens: int, **options: Any) -> tuple[Hit, int, dict[int, Line]]:
    """Start a load of what lies below; says which line each destination is for."""
    hit = rig.ask(lease, tokens)
    load, into = rig.load(lease, hit, **options)
    lines = lines_of(rig.groups, hit.tokens)
    return hit, load, {ref.block: lines[at] for at, ref in zip(hit.below, into, strict=True)}


def failing(rig: Hybrid, blocks: set[int]) -> None:
    """Every copy is over; those into these blocks have failed."""
    while works := rig.works():
        for work in works:
            rig.report(work, "broken" if blocks & set(work.dst) and work.kind == "fetch" else "done")
