"""How large the quick scopes are. A number that moves says that the state space did, and belongs into the review."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kvstate.explore.scopes import SCOPES
from kvstate.explore.search import Explored, explore


class Pin(NamedTuple):
    """What a search of a scope to its end has to find."""

    states: int
    moves: int
    depth: int


PINS = {
    "batch": Pin(4547, 22551, 21),
    "job": Pin(1476, 8163, 14),
    "store-load": Pin(1967, 9253, 21),
    "shared": Pin(3022, 13712, 19),
    "steps": Pin(1596, 7679, 26),
    "batches": Pin(2893, 11235, 19),
    "retries": Pin(1903, 10883, 19),
    "queue": Pin(1363, 6398, 16),
    "groups": Pin(3486, 12365, 17),
    "ranks": Pin(1697, 9873, 20),
    "foreign": Pin(961, 4817, 15),
    "foreign-load": Pin(2085, 7826, 19),
    "durable": Pin(1484, 12020, 14),
    "tiers": Pin(7425, 28496, 26),
    "recover": Pin(10483, 39319, 26),
    "twice": Pin(769, 4590, 22),
    "hints": Pin(2062, 7909, 16),
    "backoff": Pin(518, 2693, 14),
    "late-retry": Pin(213, 634, 11),
    "holes": Pin(2255, 7873, 12),
    "parts": Pin(1508, 8238, 12),
    "silent-rank": Pin(1149, 6291, 14),
    "foreign-ranks": Pin(275, 1077, 11),
    "demoted": Pin(2053, 8259, 16),
}


@cache
def searched(name: str) -> Explored:
    """The scope, searched once for all tests."""
    return explore(SCOPES[name])
