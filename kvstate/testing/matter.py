"""What there is in the world of a scenario: bytes, copies that are on their way, and compute steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kvstate.machines.messages import Failure, Report, Work
from kvstate.testing.names import COMMON


class Bytes(NamedTuple):
    """The contents of a block: the bytes of a key, as somebody computed them."""

    space: str
    """The namespace of the key."""
    key: str
    by: str
    """The life of the request whose step computed them; empty for bytes that are no key's."""

    def __str__(self) -> str:
        return f"{self.key}{'' if self.space == COMMON else f' of {self.space}'} by {self.by}"


NOTHING = Bytes("", "nothing", "")
"""What a block holds that nobody has written."""
JUNK = Bytes("", "junk", "")
"""What it holds after an accident."""


def shown(content: Bytes) -> str:
    """Bytes that belong to no key have nobody who computed them."""
    return str(content) if content.by else content.key


@dataclass(eq=False)
class Flight:
    """One copy, from the moment it was sent until it is proved over."""

    work: Work
    """What was sent down for it."""
    tenants: dict[int, int]
    """Block: its tenant at that moment."""
    landed: bool = False
    over: bool = False
    bad: tuple[Failure, ...] = ()
    """What an honest worker has to say of it."""
    swept: bool = False
    """Was it a persist of what was begun before all was swept? Then it has made nothing visible."""
    said: Report | None = None
    """The last report that was made of it."""


@dataclass(eq=False)
class Step:
    """A compute step: what it will write, and where."""

    serial: int
    writes: tuple[tuple[int, int, Bytes], ...]
    """Block, its tenant when the step was dispatched, bytes."""
    landed: bool = False
