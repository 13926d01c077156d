"""The world with KV groups: requests of several groups, and what is promised of a length held against every token.

The same keys are used in all groups, on purpose: a group is part of the key space, and nothing else tells the bytes of
two groups apart. What a length needs is counted token by token here, and in blocks in `kvstate.machines.groups`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import lcm
from typing import cast

from kvstate.machines.config import GroupConfig, GroupKind
from kvstate.machines.tables.key import State as K
from kvstate.machines.verdicts import Hit, LoadVerdict, Refusal
from tests.stateful.base import Content, Place, Request, Scope, Tier
from tests.stateful.world import World

GROUPS_SCOPES = {
    "hybrid": Scope(
        device=16, tiers=(Tier(20),), batch_blocks=2, longest=4, requests=3,
        groups=(GroupConfig("full", 2), GroupConfig("slide", 1, GroupKind.SLIDING, 3)),
    ),
    "reaching back": Scope(
        device=14, tiers=(Tier(16),), batch_blocks=1, longest=3, requests=3,
        groups=(GroupConfig("slide", 1, GroupKind.SLIDING, 6), GroupConfig("full", 2)),
    ),
    "three groups": Scope(
        device=20, tiers=(Tier(14), Tier(16, copier="disk")), part_blocks=2, batch_blocks=3, longest=2, requests=3,
        groups=(
            GroupConfig("near", 3, GroupKind.SLIDING, 2),
            GroupConfig("latent", 2, GroupKind.MLA),
            GroupConfig("far", 2, GroupKind.SLIDING, 7),
        ),
    ),
}  # fmt: skip
"""Blocks of different sizes; windows that are smaller than a block, no multiple of it, and longer than a prompt."""


@dataclass(eq=False)
class GroupsRequest(Request):
    """Its places are pairs: the group and the place in the group."""

    groups: tuple[GroupConfig, ...] = ()
    tokens: int = 0
    looked: bool = False
    """Has it had an answer before? Then it has other blocks, too."""

    def key(self, place: Place) -> bytes:
        found: bytes = self.keys[place[1]]
        return found

    def content(self, place: Place) -> Content:
        return Content(space_of(self.groups[place[0]], self.space), self.key(place), self.epoch)

    def places(self) -> list[Place]:
        return [(n, at) for n, group in enumerate(self.groups) for at in range(self.tokens // group.tokens_per_block)]


def space_of(group: GroupConfig, namespace: str) -> str:
    """As the ledger calls the keys of the group in that namespace."""
    return f"{group.name}@{namespace}"


def needed(groups: tuple[GroupConfig, ...], tokens: int) -> set[Place]:
    """Where the blocks are without which token number `tokens`, or the one before it once more, can't be computed."""
    return {
        (number, token // group.tokens_per_block)
        for number, group in enumerate(groups)
        for token in range(tokens)
        if group.window is None or token >= tokens - group.window
    }


class GroupsWorld(World):
    """See the module."""

    @property
    def stretch(self) -> int:
        """So many tokens are whole blocks in every group."""
        return lcm(*(group.tokens_per_block for group in self.scope.groups))

    def arrive(self) -> None:
        """Prompts differ in their keys from the first one on, or one is the front of the other."""
        self.begin_again_when_closed()
        start = self.dice.one((0, 0, 0, 100))
        tokens = self.stretch * (1 + self.dice.below(self.scope.longest))
        self.admit(self.dice.one(("a", "a", "a", "b")), [b"%016d" % (start + place) for place in range(tokens)])

    def request(self, lease: int, space: str, keys: list[bytes]) -> Request:
        return GroupsRequest(lease, space, keys, self.epoch, groups=self.scope.groups, tokens=len(keys))

    def look_up(self, request: Request) -> Hit | Refusal:
        sizes = [group.tokens_per_block for group in self.scope.groups]
        lists = [request.keys[: len(request.keys) // size] for size in sizes]
        hit = self.ledger.lookup_groups(request.lease, lists)
        if isinstance(hit, Hit) and not hit.pending:
            self.promise(cast("GroupsRequest", request), hit)
        return hit

    def places_of(self, request: Request, hit: Hit) -> tuple[list[Place], list[Place]]:
        places: dict[int, Place] = {
            line: (number, span.first + at)
            for number, span in enumerate(hit.groups)
            for at, line in enumerate(span.lines)
        }
        sizes = [group.tokens_per_block for group in self.scope.groups]
        every = cast("GroupsRequest", request).places()
        behind = [(group, at) for group, at in every if at >= hit.tokens // sizes[group]]
        return [places[line] for line in range(len(hit.blocks))], behind

    def seal(self, request: Request, places: list[Place]) -> None:
        for group, listed in groupby(places, lambda place: place[0]):
            mine = list(listed)
            refs = [request.table[place] for place in mine]
            sealed = self.ledger.seal(request.lease, refs, [request.key(place) for place in mine], group=group)
            assert isinstance(sealed, tuple), sealed

    # -- laws ----------------------------------------------------------------------------------------------------------

    def promise(self, request: GroupsRequest, hit: Hit) -> None:
        """What a lookup promises is what the load needs: no block less, none more, and the greatest length there is."""
        groups = self.scope.groups
        places, _ = self.places_of(request, hit)
        wanted = needed(groups, hit.tokens)
        assert hit.tokens % self.stretch == 0, f"L9.length: {hit.tokens} tokens end in the middle of a block"
        assert set(places) == wanted, f"L9.length: {hit.tokens} tokens need {sorted(wanted)}, the hit has {places}"
        coming = self.coming()
        for place, ref in zip(places, hit.blocks, strict=True):
            wrong = self.holds(ref.block, request.content(place), coming)
            assert not wrong, f"L9.bytes: {wrong}, and is a hit"
        lease = self.ledger.books.leases[request.lease]
        pinned = {*self.ledger.books.owned(lease), *lease.pins}
        extra = pinned - {ref.block for ref in hit.blocks}
        assert request.looked or not extra, (
            f"L9.pins: the lookup has pinned {extra}, which {hit.tokens} tokens don't need"
        )
        request.looked = True
        for tokens in range(hit.tokens + self.stretch, request.tokens + 1, self.stretch):
            missed = all(self.surely_cached(request, place) for place in needed(groups, tokens))
            assert not missed, f"L9.length: a hit of {hit.tokens} tokens, and {tokens} are there"

    def surely_cached(self, request: GroupsRequest, place: Place) -> bool:
        """Is the key a hit somewhere, and is nobody loading it?"""
        keys, content = self.ledger.books.keys, request.content(place)
        if content.epoch != self.epoch or content.key in self.ledger.books.loading.get(content.space, {}):
            return False
        slots = [keys.find(pool, content.space, content.key) for pool in range(1 + len(self.scope.tiers))]
        return any(slot >= 0 and keys.state[slot] == K.READY for slot in slots)

    def promised(self, request: Request, verdict: LoadVerdict) -> list[Place]:
        """All that the length needs, in every group; and no longer one is there."""
        assert request.hit is not None
        groups = self.scope.groups
        places, _ = self.places_of(request, request.hit)
        loaded = {places[line] for line in request.hit.below}
        blocks = {place: request.table[place].block for place in places}
        wanted = needed(groups, verdict.tokens)
        assert wanted <= set(places), f"L9.length: {verdict.tokens} tokens need {sorted(wanted - set(places))}"
        for tokens in range(verdict.tokens + self.stretch, request.hit.tokens + 1, self.stretch):
            more = needed(groups, tokens)
            enough = more <= set(places) and not any(self.not_its(request.lease, blocks[place]) for place in more)
            assert not enough, f"L9.length: {verdict} is too short, {tokens} tokens are there"
        for number, (group, told) in enumerate(zip(groups, verdict.groups, strict=True)):
            mine = {blocks[place] for place in loaded if place[0] == number}
            said = {*told.kept, *told.left}
            assert said == mine, f"L5.proceed: of {group.name} {said} are told of, {mine} were to be loaded"
            at = {place[1] for place in wanted if place[0] == number}
            assert at == set(range(told.first, told.blocks)), f"L9.length: {group.name} needs {at}: {told}"
            spare = {
                blocks[p] for p in loaded - wanted if p[0] == number and not self.not_its(request.lease, blocks[p])
            }
            assert set(told.spare) == spare, f"L5.proceed: {spare} of {group.name} are spare: {told}"
        if verdict.tokens < request.hit.tokens and self.dice.chance(50):
            self.again.append(request)
        for place in wanted - loaded:  # on the device when it was looked up; a step may still be on its way to write it
            ref = request.table[place]
            wrong = self.holds(ref.block, request.content(place), self.coming())
            wrong = wrong or self.not_its(request.lease, ref.block)
            assert not wrong, f"L5.proceed: {wrong}"
        return sorted(wanted & loaded)

    def begin(self, incarnation: int) -> None:
        self.again: list[Request] = []
        """Requests that will look up once more, since their load left a shorter length than they had hoped for."""
        super().begin(incarnation)

    def hear_load(self, verdict: LoadVerdict) -> None:
        super().hear_load(verdict)
        for request in self.again:
            request.hit, request.table = None, {}
        self.again = []
