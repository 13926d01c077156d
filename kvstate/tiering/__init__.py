"""Device, host, disk and what lies below, by one interface: what is stored where and when. Decisions only, no bytes.

The ledger says what may be done, and this says what ought to be. It knows no clock, thread or tensor, and sees nothing
but the ledger, so it runs on a bare one as well as below a `KVRuntime`.
"""

from kvstate.tiering.config import TierConfig, Write, check_tiers
from kvstate.tiering.counts import Counts, Drop
from kvstate.tiering.tiering import Requests, Tiering

__all__ = ["Counts", "Drop", "Requests", "TierConfig", "Tiering", "Write", "check_tiers"]
