"""Who asks the object store of a replay for what a request has nowhere else, and for how much of it."""

from __future__ import annotations

from typing import Final

from kvstate.machines.verdicts import Hit, Sought
from kvstate.replay.plays import Play
from kvstate.replay.result import ReplayResult
from kvstate.replay.stack import Stack
from kvstate.replay.store import NAME

AHEAD: Final = 16
"""So many keys are asked for first; twice as many each time all of them were there."""


class Seeking:
    """Asks the store for what a request has nowhere else: some keys of its prompt first, and more while all were there.

    Behind a key that is not there nothing is of use, and each key is a request.
    """

    def __init__(self, stack: Stack, result: ReplayResult) -> None:
        """`result` counts what was asked for."""
        pools = stack.ledger.config.pools
        self._pool = next((number for number, pool in enumerate(pools) if pool.name == NAME), None)
        self._stack = stack
        self._result = result

    def asks(self, play: Play, hit: Hit) -> bool:
        """Is there more to ask for, behind this hit? Then it is asked, the hit is given back, and a lookup is to come
        when there is an answer.
        """
        known = len(hit.blocks)
        if self._pool is None or known == len(play.keys) or known < play.sought or play.tries > 1:
            return False
        ledger, first = self._stack.ledger, play.sought == 0
        play.ahead = AHEAD if first else 2 * play.ahead
        play.sought = min(known + play.ahead, len(play.keys))
        keys = play.keys[known : play.sought]
        deadline = ledger.books.now + self._stack.load_seconds
        sought = ledger.seek(play.lease, keys, pool=self._pool, deadline=deadline)
        self._stack.note("seek", lease=play.lease, pool=self._pool, keys=len(keys))
        if not isinstance(sought, Sought):
            return False
        self._result.sought_keys += len(sought.lines)
        ledger.unpin(hit)
        self._stack.note("unpin", lease=play.lease)
        return True
