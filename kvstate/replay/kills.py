"""When a worker of a replay is killed: seeded instants, spread over the run, in the middle of whatever it does then."""

from __future__ import annotations

from random import Random
from typing import Final

from kvstate.replay.config import ReplayConfig
from kvstate.replay.player import Player

PATIENCE: Final = 600
"""Turns in which the end of a process has to be noticed; it takes one or two."""


class Kills:
    """The kills of one run. One at a time: the next waits until the last one has been noticed and made good."""

    def __init__(self, config: ReplayConfig, requests: int) -> None:
        """Spread over so many requests; with fewer than it kills, several come after one request."""
        dice = Random(config.seed ^ 0xDEAD)
        self._due = sorted(
            (1 + dice.randrange(requests), dice.randrange(config.workers)) for _ in range(config.kill_workers)
        )
        self._killed = 0

    def after(self, number: int, player: Player) -> None:
        """That many requests have been admitted: is one due?"""
        while self._due and self._due[0][0] <= number and player.result.workers_killed == self._killed:
            self._kill(player)

    def rest(self, player: Player) -> None:
        """No request is to come: kill what was to be killed, and see that the last one is noticed."""
        for _ in range(PATIENCE):
            if player.ledger.fatal is not None or player.stalled:
                return
            if player.result.workers_killed == self._killed:
                if not self._due:
                    return
                self._kill(player)
            player.turn(wait=True)

    def _kill(self, player: Player) -> None:
        _, rank = self._due.pop(0)
        self._killed += 1
        player.stack.hardware.kill(rank)
