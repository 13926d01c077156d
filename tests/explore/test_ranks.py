"""A rank is lost in every state of a scope: what goes with it, and what is found when some of that is forgotten."""

from __future__ import annotations

import pytest

from kvstate.explore import moves
from kvstate.explore.scopes import SCOPES
from kvstate.explore.search import explore
from kvstate.machines.ledger import Ledger
from kvstate.machines.ranks import RankLost
from kvstate.testing.scenario import parse, play
from tests.long import long_but

FOUND = {"abort": "L5.proceed", "reset": "L9.bytes", "fence": "L2.stale_counted"}
"""By what is not done when a rank is lost: the law that is seen broken."""


@pytest.mark.parametrize("forgotten", long_but([one for one in FOUND if one != "abort"], FOUND))
def test_what_is_forgotten_with_a_rank_is_missed(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(ledger: Ledger, rank: int) -> RankLost:
        for lease in tuple(ledger.books.leases) if forgotten != "abort" else ():
            ledger.abort(lease)
        if forgotten != "reset":
            ledger.reset()
        if forgotten != "fence":
            ledger.fenced(rank, "cpu", ledger.books.serial)
        return RankLost((), 0, 0)

    monkeypatch.setattr(moves, "rank_lost", careless)
    found = explore(SCOPES["ranks"], max_states=2000)
    assert found.broken is not None
    assert found.broken.law == FOUND[forgotten]


STORY = """# A rank is lost

quietly
ledger device=b0 host=h0 ranks=2
open r1
allocate r1 1
compute r1 b0=K1
seal r1 b0=K1
offload r1 b0
land t1
lose 1
lose 2
show b0 leases
open r2
lookup r2 K1
deliver t1
show b0
----
"""


def test_the_same_in_a_scenario() -> None:
    said = play(parse(STORY, "a rank is lost")).text
    assert "leases aborted: 1, keys dropped: 1, proved over: 1" in said
    assert "refused: there is no rank 2; the ledger counts 2, from 0 up" in said
    assert "r2/1 misses" in said
    assert said.count("b0@1 is free") == 1, "it drained until the other rank had reported"
