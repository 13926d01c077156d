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

FIRES = {
    "batch": "X63",
    "steps": "B12 B13 K06 P12 P13",
    "retries": "B51 X14 X15 X16 X19 X31 X32 X34 X36 X37 X38 X39 X50",
    "queue": "O02 O03 O71",
    "ranks": (
        "B02 B11 B07 B21 B34 B35 B37 B38 B41 B42 B52 B53 B55 B62 B63 K02 K07 A02 O10 O14 O13 O16 O50 P03 P04 X10 "
        "X13 X17 X21 X30 X35 X43 X41 X60 X61 X62"
    ),
    "foreign": "E19 O46",
    "foreign-load": (
        "B01 B03 B08 B10 B04 B05 B06 B20 B22 B24 B25 B30 B31 B33 B40 B50 B54 B60 B61 E01 E02 E03 E04 E05 E06 E07 "
        "E10 E11 E12 E13 E14 E15 E16 E17 E18 E20 E21 E22 E24 E25 E26 E28 E30 E31 E29 K13 K01 K03 K04 K05 K09 K10 "
        "K11 K12 A01 A03 A10 A12 A14 A21 A22 A31 O01 O11 O18 O30 O21 O51 O55 O60 O61 P01 P02 P05 P06 P08 P09 P16 "
        "P17 P11 P14 P15 S01 X01 X11 X12 X22 X18 X20 X24 X33 X42"
    ),
    "durable": "B26 B27 B36 O15 O40 O41 O32 O33 O20 O42 O43 O52 O53 O54 O56 O57 O58 P18 P07 P10 S02 S03 S04",
    "hints": "B09 B23 K08 K14",
    "backoff": "O17 O12 O31 O44 O45",
    "late-retry": "X51 X72",
    "holes": "A11 A13 A15 A20 X03 X23 X70 X71",
    "silent-rank": "B39 X52",
    "foreign-ranks": "E23 E27 X40",
    "demoted": "B32",
}
"""Of each row a scope in which it fires; those of `NEVER` fire in none."""
NEVER = "A30 O70 O72 S05 S06 X02"
"""Rows that fire in no quick scope; `docs/proofs.md` says why of each."""


@cache
def searched(name: str) -> Explored:
    """The scope, searched once for all tests."""
    return explore(SCOPES[name])
