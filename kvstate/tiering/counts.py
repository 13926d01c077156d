"""What is counted of a tier, in blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Drop(StrEnum):
    """Why a block that ought to have been stored was not."""

    BUDGET = "budget"
    """As much as may be was on its way into the tier."""
    FULL = "full"
    """The tier had no block that was free or could be evicted."""
    UNFIT = "unfit"
    """The block has begun another life, no key names it, or it is still written."""
    REFUSED = "refused"
    """The ledger takes no stores for that lease: it is closed, from before a reset, or the ledger drains."""
    CLOSED = "closed"
    """This side was closed."""


@dataclass(slots=True)
class Counts:
    """Of one tier, since the start."""

    in_flight: int = 0
    """On their way into it now; never more than the setting."""
    stored: int = 0
    """Arrived, and to be hit."""
    failed: int = 0
    """Begun and not arrived: the store failed, expired or was called off."""
    known: int = 0
    """Offered, and there already or on the way."""
    promoted: int = 0
    """Begun because they were loaded from further below."""
    written_back: int = 0
    """Begun because the tier above was about to evict them."""
    lost: int = 0
    """Evicted from it while no tier below had them. Counted where there is one below."""
    dropped: Counter[Drop] = field(default_factory=Counter)
    """Not begun, by reason. What is to be written back is no drop: its turn comes again."""
