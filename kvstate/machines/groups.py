"""KV groups: which blocks a length needs, and which length some blocks are enough for. Arithmetic, and no more.

Layers that attend to all tokens and layers that attend to the last few keep different blocks of one prompt, in blocks
of different sizes. Block i of a group covers the tokens from `i * t` up to `(i + 1) * t`, where t is the group's
`tokens_per_block`. A *length* T says that the first T tokens need not be computed. Three sentences hold it together:

1. T is a multiple of every group's block size. Between two such boundaries some group's last block would be half valid,
   and the engine would go on writing into a block that others share.
2. A full group needs all its blocks below T. A sliding group needs the blocks that hold any of the last `window` tokens
   before T. Token T itself attends to `window - 1` of these; the oldest one is there for the last token of a full hit,
   T - 1, which the engine computes once more.
3. What lies before the window is not needed: a hole there is legal, nothing there is pinned or loaded, and the engine
   sets its null block there.

So a shorter length does not need fewer blocks of a sliding group but *other* ones, further in front.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import lcm
from typing import NamedTuple

from kvstate.machines.config import GroupConfig
from kvstate.machines.records import Batch, Load
from kvstate.machines.verdicts import GroupVerdict, Span

Blocks = Mapping[int, int]
"""By the number of a line of a hit: its block on the device."""


class Line(NamedTuple):
    """One block of a prompt: the number of its group, and its place among the group's blocks."""

    group: int
    place: int


def space(namespace: str, group: GroupConfig) -> str:
    """The key space of the group in a namespace: the same key is another content in another group.

    No two pairs share one, since a name of a group has no `@`.
    """
    return f"{group.name}@{namespace}"


def boundary(groups: Sequence[GroupConfig]) -> int:
    """Every length is a multiple of so many tokens."""
    return lcm(*(group.tokens_per_block for group in groups))


def first_needed(group: GroupConfig, tokens: int) -> int:
    """The place of the first block of the group that a length of so many tokens needs."""
    return 0 if group.window is None else max(0, tokens - group.window) // group.tokens_per_block


def lines_of(groups: Sequence[GroupConfig], tokens: int) -> list[Line]:
    """What a length needs, in token order: by the token behind the block's last, then by group.

    So what a shorter length needs of these stands in front of what it does not need.
    """
    ends = [
        ((place + 1) * group.tokens_per_block, number, place)
        for number, group in enumerate(groups)
        for place in range(first_needed(group, tokens), tokens // group.tokens_per_block)
    ]
    return [Line(number, place) for _, number, place in sorted(ends)]


def spans_of(groups: Sequence[GroupConfig], tokens: int) -> tuple[Span, ...]:
    """What a length needs by group: the first place, and where in token order each of its blocks stands."""
    return spans_in(groups, tokens, lines_of(groups, tokens))


def spans_in(groups: Sequence[GroupConfig], tokens: int, lines: Sequence[Line]) -> tuple[Span, ...]:
    """The same of a length whose lines are known."""
    at: list[list[int]] = [[] for _ in groups]
    for number, (group, _) in enumerate(lines):
        at[group].append(number)
    return tuple(Span(first_needed(group, tokens), tuple(numbers)) for group, numbers in zip(groups, at, strict=True))


def longest(groups: Sequence[GroupConfig], counts: Sequence[int], usable: Callable[[int, int], bool]) -> int:
    """The greatest length all of whose blocks are usable; group g has `counts[g]` blocks, numbered from 0.

    `usable(group, place)` is asked at most once of each block, so the cost is that of the keys. A full group is walked
    from the front to its first hole. Then each sliding group is walked from the length backwards through its window: a
    hole at place i is needed by every length from there up to the present one, so the length falls to the boundary at
    or below the hole, and the walk goes on from there. What was found usable behind stays so. It ends when no group has
    lowered the length.
    """
    step = boundary(groups)
    tokens = min(count * group.tokens_per_block for count, group in zip(counts, groups, strict=True))
    for number, group in enumerate(groups):
        if group.window is None:
            places = range(tokens // group.tokens_per_block)
            hole = next((place for place in places if not usable(number, place)), len(places))
            tokens = min(tokens, hole * group.tokens_per_block)
    tokens -= tokens % step
    sliding = [number for number, group in enumerate(groups) if group.window is not None]
    low = {number: tokens // groups[number].tokens_per_block for number in sliding}
    before = -1
    while tokens != before:
        before = tokens
        for number in sliding:
            group, size = groups[number], groups[number].tokens_per_block
            low[number] = min(low[number], tokens // size)
            while low[number] > first_needed(group, tokens):
                low[number] -= 1
                if not usable(number, low[number]):
                    tokens = low[number] * size // step * step
                    low[number] = tokens // size
    return tokens


def kept_tokens(groups: Sequence[GroupConfig], tokens: int, missing: Collection[Line]) -> int:
    """The greatest length that is left of one when some of its blocks are missing.

    Only what that length needed is there. So with a window that does not reach back to the first token a shorter
    length lacks the blocks in front of it, and nothing is left; where all windows do, every boundary before the hole is
    a length.
    """
    first = [first_needed(group, tokens) for group in groups]
    counts = [tokens // group.tokens_per_block for group in groups]
    return longest(groups, counts, lambda group, place: place >= first[group] and (group, place) not in missing)


def load_order(groups: Sequence[GroupConfig], lines: Sequence[Line], pools: bytes, size: int, most: int) -> array[int]:
    """In which order to load these lines, which stand in token order; `pools` has the pool of each.

    A batch holds at most `size` lines, all of one pool. Where token order would change the pool so often that there
    were more than `most` batches, the prompt is cut into stretches as short as will do, and inside of one the lines go
    pool by pool. So a hole costs a stretch at most.
    """
    order: Sequence[int] = range(len(lines))
    ends = [(line.place + 1) * groups[line.group].tokens_per_block - 1 for line in lines]
    stretch = boundary(groups)
    while batches_of(bytes(map(pools.__getitem__, order)), size) > most:
        stretch *= 2
        keys = [(end // stretch, pool) for end, pool in zip(ends, pools, strict=True)]
        order = sorted(range(len(lines)), key=keys.__getitem__)
    return array("q", order)


def batches_of(pools: bytes, size: int) -> int:
    """Into how many batches lines of these pools go, in this order."""
    count, start = 0, 0
    while start < len(pools):
        end = len(pools) - len(pools[start:].lstrip(pools[start : start + 1]))
        count += -(-(end - start) // size)
        start = end
    return count


def by_space(spaces: Iterable[str]) -> dict[str, list[int]]:
    """Which lines are of each space, in their order."""
    found: dict[str, list[int]] = {}
    for line, name in enumerate(spaces):
        found.setdefault(name, []).append(line)
    return found


def told(
    groups: Sequence[GroupConfig], load: Load, batches: Sequence[Batch], loaded: int
) -> tuple[int, tuple[GroupVerdict, ...]]:
    """What the verdict of a load says: the length, and what is there of each group.

    So many of its lines, the first ones, were loaded. `batches` are those of which it is told what the lease has kept
    and left.
    """
    lines = lines_of(groups, load.tokens)
    length = kept_tokens(groups, load.tokens, {lines[at] for at in load.positions[loaded:]})
    there = set(load.positions[:loaded])
    kept: dict[int, int] = {}
    left: dict[int, int] = {}
    start = 0
    for batch in batches:
        places = load.positions[start : start + len(batch.keys)]
        kept.update(zip(places, batch.dsts, strict=False))  # a batch has all of its blocks or none, and so below
        left.update(zip(places, batch.left, strict=False))
        start += len(places)
    return length, tuple(_told_of(groups, number, length, lines, there, kept, left) for number in range(len(groups)))


def _told_of(
    groups: Sequence[GroupConfig],
    number: int,
    length: int,
    lines: Sequence[Line],
    there: Collection[int],
    kept: Blocks,
    left: Blocks,
) -> GroupVerdict:
    first, count = first_needed(groups[number], length), length // groups[number].tokens_per_block
    mine = sorted((at, block) for at, block in kept.items() if lines[at].group == number)
    gone = tuple(block for at, block in sorted(left.items()) if lines[at].group == number)
    spare = tuple(block for at, block in mine if at in there and not first <= lines[at].place < count)
    return GroupVerdict(first, count, tuple(block for _, block in mine), gone, spare)
