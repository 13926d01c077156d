"""The closing check: the quick walks fire every row and every coupling finds something, but for those that can't."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvstate.spec.loader import load_spec
from tests.stateful.base import SCOPES
from tests.stateful.foreign_world import FOREIGN_SCOPES, ForeignWorld
from tests.stateful.seen import ELSEWHERE, NEVER_FINDS, UNREACHABLE, Seen
from tests.stateful.shared_world import SHARED_SCOPES, SharedWorld
from tests.stateful.world import MIXES, SMALL, World

KNOWN = (
    ("one rank", "stores", 24), ("two ranks", "even", 20), ("durable", "stores", 25), ("tiers", "aborts", 31),
    ("tight", "even", 26), ("roomy", "stores", 23), ("two ranks", "stores", 20), ("durable", "stores", 23),
    ("two ranks", "even", 31), ("durable", "stores", 27), ("tight", "stores", 24), ("tiers", "aborts", 16),
    ("two ranks", "even", 33), ("roomy", "aborts", 25), ("tiers", "aborts", 33), ("tiers", "stores", 33),
    ("tiers", "stores", 28), ("tiers", "even", 19), ("tiers", "reuse", 17),
)  # fmt: skip
"""Walks that reach the rarest rows; if the world or the ledger has changed, others are looked for behind them."""
FOREIGN = (
    ("an engine on two ranks", "loads", 2), ("an engine in a hurry", "loads", 5),
    ("an engine on two ranks", "loads", 32),
    *((scope, mix, seed) for seed in range(2) for scope in FOREIGN_SCOPES for mix in MIXES),
)  # fmt: skip
"""Walks with an engine that allocates by itself; they fire what concerns its blocks."""
SHARED = tuple((scope, "even", 0) for scope in SHARED_SCOPES)
"""Walks with a pool that others write to; they fire what concerns its keys."""
RARE_FOREIGN = (("an engine on two ranks", "faults", 2), ("an engine on two ranks", "reuse", 3))
"""Of these, as long as `kvstate.mutation` walks, the ones that come to E23 and E27: two ranks that still write a block
which the engine has given away, and two that had been given up and report late.
"""
MOST = 2500
"""How many walks are made before a row that was not seen counts as one that never fires."""


def in_turn() -> Iterator[tuple[str, str, int]]:
    """The walks that are known, then any."""
    yield from KNOWN
    for number in range(MOST):
        yield SMALL[number % len(SMALL)], list(MIXES)[number // len(SMALL) % len(MIXES)], 1000 + number


def broken_down(seen: Seen) -> None:
    """The end of a ledger that the device has left in the middle of a copy."""
    world = World(0)
    while not world.flights:
        world.round()
    world.break_down()
    seen.add(world)


@pytest.mark.long
def test_every_row_fires_and_every_coupling_finds_a_record() -> None:
    seen = Seen()
    broken_down(seen)
    with seen.listening():
        for scope, mix, seed in FOREIGN:
            engine = ForeignWorld(seed, FOREIGN_SCOPES[scope])
            for _ in range(4):
                engine.round(25, mix)
            engine.rest()
            seen.add(engine)
        for scope, mix, seed in SHARED:
            others = SharedWorld(seed, SHARED_SCOPES[scope])
            for _ in range(2):
                others.round(25, mix)
            others.rest()
            seen.add(others)
        for scope, mix, seed in in_turn():
            world = World(seed, SCOPES[scope])
            for _ in range(6):
                world.round(30, mix)
            world.rest()
            seen.add(world)
            if (scope, mix, seed) not in KNOWN and not seen.missing():
                break
    assert seen.missing() == [], f"in {MOST} walks these never came: {seen.missing()}"
    assert seen.surprises() == [], f"these can't be reached, it was said: {seen.surprises()}"


def test_what_is_out_of_reach_exists_and_has_a_reason() -> None:
    spec = load_spec(check=False)
    rows = {row.id for machine in spec.machines for row in machine.rows}
    assert UNREACHABLE.keys() | ELSEWHERE.keys() <= rows
    assert not UNREACHABLE.keys() & ELSEWHERE.keys()
    reasons = [*UNREACHABLE.values(), *ELSEWHERE.values(), *NEVER_FINDS.values()]
    assert all(len(reason.split()) > 10 for reason in reasons)


def test_the_closing_check_can_fail() -> None:
    seen = Seen()
    with seen.listening():
        world = World(0)
        world.round()
    seen.add(world)
    assert {"X40", "C12", "S05"} <= set(seen.missing())
    assert "B32" not in seen.missing()
    seen.rows["X02"] += 1
    assert seen.surprises() == ["X02"]
    seen.rows["B01"] = 0
    assert "B01" in seen.missing()
