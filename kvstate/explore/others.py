"""What others have, where a pool is shared with them: keys, and the bytes under each. For a search; see `objects`.

A block of the pool is a handle without bytes of its own: who fetches through it reads what others have under the key at
that moment, and who seeks is told whether they have it. What they do is a move like any other, and so is what somebody
says of it, true or not. One key space; all ranks have the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kvstate.explore.matter import JUNK, Flight
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Adopt, Kind, Outcome, Sweep, Undo
from kvstate.testing.names import COMMON
from kvstate.testing.sayings import Asked, Sayings

DOES = ("have", "lose", "spoil", "announce", "vanish")
"""What they do, and what is said of it: they have a key now, delete it, put other bytes there."""


@dataclass(slots=True)
class Others:
    """See the module."""

    blocks: range = range(0)
    """The blocks of the pool."""
    has: dict[str, str] = field(default_factory=dict)
    """By key: whose bytes they have there."""
    sayings: Sayings = field(default_factory=Sayings)
    """What may be believed of it."""

    def moves(self, keys: list[str]) -> Iterator[tuple[str, ...]]:
        """All that they can do to these keys, and all that can be said of them."""
        for key in keys:
            found = self.has.get(key)
            yield from (("others", verb, key) for verb in DOES if _can(verb, found, key))

    def do(self, ledger: Ledger, verb: str, key: str) -> list[str]:
        """One of these; returns the command that does the same."""
        names = [(COMMON, key.encode())]
        match verb:
            case "announce":
                self.sayings.announced(names)
                ledger.announce(self.pool(ledger), names)
                return [f"announce {key}"]
            case "vanish":
                self.sayings.vanished(names)
                ledger.vanish(self.pool(ledger), names)
                return [f"vanish {key}"]
            case "lose":
                del self.has[key]
            case _:
                self.has[key] = key if verb == "have" else JUNK
        return [f"others {verb} {key}"]

    def pool(self, ledger: Ledger) -> int:
        """The number of the pool."""
        return ledger.books.pool_of[self.blocks[0]]

    def land(self, flight: Flight, contents: list[str], blocks: int) -> bool:
        """A copy out of the pool, or a question, reads what is there. False if it is neither; `blocks` a rank has."""
        work = flight.work
        if work.kind == Kind.SEEK:
            flight.missing = tuple(line for line, key in enumerate(work.keys) if key.decode() not in self.has)
            return True
        if work.kind != Kind.FETCH or work.src[0] not in self.blocks:
            return False
        for block, key in zip(work.dst, work.keys, strict=True):
            found = self.has.get(key.decode())
            if found is None:
                flight.found = Outcome.BROKEN
            else:
                contents[work.rank * blocks + block] = found
        return True

    def hear(self, effect: Undo | Adopt | Sweep) -> list[int]:
        """The ledger says what is to become of it: at a reset we go by other names. Returns what is handed out anew."""
        if isinstance(effect, Sweep) and effect.everything:
            self.has = {}
        if isinstance(effect, Adopt) and effect.rank == 0:
            return [block for block in effect.blocks if block in self.blocks]
        return []

    def form(self, serials: dict[int, int], now: float) -> tuple[object, ...]:
        """What of it tells two states apart, with parts by their new numbers."""
        if not self.blocks:
            return ()
        asked = tuple(_form(one, serials, now) for one in self.sayings.open)
        return tuple(sorted(self.has.items())), tuple(sorted(self.sayings.said)), asked


def _can(verb: str, found: str | None, key: str) -> bool:
    """Is there anything to do? Anything can be said at any time."""
    match verb:
        case "have":
            return found != key
        case "lose":
            return found is not None
        case "spoil":
            return found == key
        case _:
            return True


def _form(asked: Asked, serials: dict[int, int], now: float) -> tuple[object, ...]:
    parts = sorted((serials.get(token.serial, -1), *part) for token, part in asked.parts.items())
    yes = tuple((rank, tuple(sorted(names))) for rank, names in sorted(asked.yes.items()))
    return round(asked.deadline - now, 6), tuple(parts), yes, tuple(sorted(asked.struck))
