"""What the handles of a peer's pool stand for: whose blocks, with which sums.

A handle is a block number of the shared pool; there are no bytes behind it here. It is routed first, and then adopted
under a key; only then does it stand for something. Who routes it anew takes nothing from work that has begun.

`FORMAT` says how messages about peers are laid out, and `MAX_LIFE` is the highest number of a life.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kvstate.codec import CodecError
from kvstate.machines.messages import Adopt
from kvstate.runtime.memory import NoSuchBlockError
from kvstate.runtime.seals import SUM_BYTES

FORMAT: Final = 1
"""How a message of this module is laid out."""
MAX_LIFE: Final = 2**63 - 1
"""The highest number of a life."""
_MAGIC: Final = "kvstate-route"


class Meet(NamedTuple):
    """How to reach the same rank of this peer, in that life of it. Another life replaces the one before."""

    peer: str
    """As the scheduler calls it."""
    life: int
    """Which life of its process."""
    description: bytes
    """What `Transport.describe` gave there."""


class Leave(NamedTuple):
    """That life of the peer is gone, or is not to be pulled from any more."""

    peer: str
    """As `Meet.peer`."""
    life: int
    """As `Meet.life`."""


class Route(NamedTuple):
    """What these handles stand for, line by line. It comes BEFORE the `Adopt` of the same blocks."""

    blocks: tuple[int, ...]
    """Handles: block numbers of the shared pool here."""
    peer: str
    """Whose blocks they stand for."""
    life: int
    """In which life; blocks of another are others."""
    remote: tuple[int, ...]
    """The peer's own block numbers, one for each."""
    sums: tuple[bytes, ...] = ()
    """The checksum of each, as `PeerCopier.seal` made it there; or none at all."""


PeerItem = Meet | Leave | Route
"""What a scheduler tells the rank that pulls: `PeerItem`."""
_KINDS: Final[dict[str, type[Meet | Leave | Route]]] = {"meet": Meet, "leave": Leave, "route": Route}


def encode_item(item: PeerItem) -> bytes:
    """As bytes, for a rank in another process. Errors: `CodecError` for what is none."""
    fields: dict[str, Any] = item._asdict()
    if isinstance(item, Meet):
        fields["description"] = base64.b64encode(item.description).decode()
    if isinstance(item, Route):
        fields["sums"] = [one.hex() for one in item.sums]
    data = json.dumps([_MAGIC, FORMAT, type(item).__name__.lower(), fields], separators=(",", ":")).encode()
    decode_item(data)
    return data


def decode_item(data: bytes) -> PeerItem:
    """The other way. Errors: `CodecError`, which is a `ValueError`, for all bytes that are none."""
    try:
        magic, form, kind, fields = json.loads(data)
        if magic != _MAGIC or type(form) is not int or form != FORMAT:
            raise ValueError(f"it has format {form!r}, and this side reads {FORMAT}")
        if kind == "meet":
            fields["description"] = base64.b64decode(fields["description"], validate=True)
        if kind == "route":
            fields["sums"] = tuple(bytes.fromhex(one) for one in fields["sums"])
            fields["blocks"], fields["remote"] = tuple(fields["blocks"]), tuple(fields["remote"])
        item = _KINDS[kind](**fields)
        _check(item)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CodecError(f"these bytes are no message about peers: {type(error).__name__}: {error}"[:300]) from None
    return item


def _check(item: PeerItem) -> None:
    if type(item.peer) is not str or type(item.life) is not int or not 0 <= item.life <= MAX_LIFE:
        raise ValueError("a peer is a text, and a life a number")
    if isinstance(item, Route):
        numbers = (*item.blocks, *item.remote)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("blocks are numbers from 0 up")
        if len(item.blocks) != len(item.remote) or len(item.sums) not in (0, len(item.blocks)):
            raise ValueError("a route has as many handles as blocks, and as many sums or none")
        if any(len(one) != SUM_BYTES for one in item.sums):
            raise ValueError(f"a sum has {SUM_BYTES} bytes")


class Handle(NamedTuple):
    """What one handle stands for."""

    peer: str
    """Whose block it is."""
    life: int
    """In which life."""
    remote: int
    """The peer's block."""
    sum: bytes
    """Its checksum; empty where there is none."""
    space: str = ""
    """The key space that it was adopted in."""
    key: bytes = b""
    """The key that it was adopted under."""


class Routes:
    """All handles of one shared pool. For the thread that gives out effects; values that were taken out stay valid.

    Errors: `NoSuchBlockError` for a block that is none of the pool's; `ValueError` for lists of different lengths.
    """

    def __init__(self, base: int, count: int, pool: str) -> None:
        """Of `count` handles from `base` on; `pool` is for messages."""
        self._base, self._count, self._pool = base, count, pool
        self._routed: dict[int, Handle] = {}
        """Not adopted yet."""
        self._held: dict[int, Handle] = {}

    def route(self, route: Route) -> None:
        """From the next adopt on these handles stand for that."""
        _check(route)
        for line, block in enumerate(route.blocks):
            found = Handle(route.peer, route.life, route.remote[line], route.sums[line] if route.sums else b"")
            self._routed[self._slot(block)] = found

    def adopt(self, effect: Adopt) -> None:
        """These handles hold these keys from here on; what was known of them before is over."""
        for block, space, key in zip(effect.blocks, effect.spaces, effect.keys, strict=True):
            slot = self._slot(block)
            routed = self._routed.pop(slot, None)
            if routed is None:
                self._held.pop(slot, None)
            else:
                self._held[slot] = routed._replace(space=space, key=key)

    def clear(self) -> None:
        """No handle stands for anything."""
        self._routed.clear()
        self._held.clear()

    def at(self, block: int) -> Handle | None:
        """What this handle stands for; None for nothing."""
        return self._held.get(self._slot(block))

    def each(self, blocks: Sequence[int]) -> list[Handle | None]:
        """As `at`, for each of them."""
        base = self._base
        if blocks and (min(blocks) < base or max(blocks) >= base + self._count):
            return [self.at(block) for block in blocks]  # and say which
        held = self._held
        return [held.get(block - base) for block in blocks]

    def __len__(self) -> int:
        return len(self._held)

    def _slot(self, block: int) -> int:
        if not 0 <= block - self._base < self._count:
            raise NoSuchBlockError(f"block {block} is none of {self._pool}'s {self._count} from {self._base} on")
        return block - self._base


def route_of(blocks: Sequence[int], peer: str, life: int, remote: Sequence[int], sums: Sequence[bytes] = ()) -> Route:
    """A `Route` of whatever sequences there are."""
    return Route(tuple(map(int, blocks)), peer, life, tuple(map(int, remote)), tuple(sums))
