"""The requests of a `KVRuntime` about pools that are shared with others; see `kvstate.machines.shared`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kvstate.machines.ledger import Ledger
from kvstate.machines.verdicts import Announced, Refusal, Sought
from kvstate.runtime.settings import RuntimeConfig

T = TypeVar("T")


class Hints:
    """A part of `Requests`: who may call, and who is told, is as there."""

    config: RuntimeConfig
    """As in `Requests`; so is the next one."""
    ledger: Ledger
    """Answers."""

    if TYPE_CHECKING:

        def _told(self, name: str, answer: T, /, **values: Any) -> T: ...

        def _enter(self, what: str) -> None: ...

    def announce(self, pool: int, names: Sequence[tuple[str, bytes]]) -> Announced | Refusal:
        """As `Ledger.announce`: others have these, in a pool that is shared."""
        self._enter("announce")
        return self._told("announce", self.ledger.announce(pool, names), pool=pool, keys=size(names))

    def vanish(self, pool: int, names: Sequence[tuple[str, bytes]]) -> int | Refusal:
        """As `Ledger.vanish`: others have these no more."""
        self._enter("vanish")
        return self._told("vanish", self.ledger.vanish(pool, names), pool=pool, keys=size(names))

    def seek(
        self, lease: int, keys: Sequence[bytes], *, pool: int, deadline: float | None = None, group: int | None = None
    ) -> Sought | Refusal:
        """As `Ledger.seek`: ask a store for what a lookup missed; `load_for` seconds where no deadline is given."""
        self._enter("seek")
        until = self.ledger.books.now + self.config.load_for if deadline is None else deadline
        sought = self.ledger.seek(lease, keys, pool=pool, deadline=until, group=group)
        return self._told("seek", sought, lease=lease, pool=pool, keys=size(keys))


def size(what: object) -> int:
    """How many there are; 0 for what has no length, and will have been refused."""
    try:
        return len(what)  # type: ignore[arg-type]
    except TypeError:
        return 0
