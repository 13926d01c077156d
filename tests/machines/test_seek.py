"""A shared store is asked for keys: who is told to wait, for how long, and what is believed in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.config import GroupConfig, GroupKind
from kvstate.machines.messages import Adopt, Cancel, Failure, Sweep, Work
from kvstate.machines.ranks import rank_lost
from tests.machines.rig import SPACE, Rig, failure, key, keys
from tests.machines.test_shared import FOUR, PEER, STORE, MakeRig, absent, announce, names, pending, seek, states


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    return make_rig(pools=FOUR)


def test_what_vanishes_while_it_is_sought_is_not_found(make_rig: MakeRig) -> None:
    """The news is younger than an answer that was given before; what is answered after it has to be asked for anew."""
    rig = make_rig(pools=FOUR, part_blocks=1)
    lease = rig.open()
    seek(rig, lease, 1, 2, 3)
    works = rig.works()
    rig.report(works[0])
    assert pending(rig, lease, 1)
    assert pending(rig, lease, 2)
    assert rig.ledger.vanish(STORE, names(1, 2)) == 0, "they were no hits"
    assert not pending(rig, lease, 1)
    assert not pending(rig, lease, 2)
    assert pending(rig, lease, 3)
    assert rig.ledger.vanish(PEER, names(3)) == 0, "which is another pool"
    assert pending(rig, lease, 3)
    rig.report(works[1])
    rig.report(works[2])
    assert states(rig, 1, 2, 3, pool=STORE) == ["absent", "absent", "ready"]


# --- Asked for ------------------------------------------------------------------------------------------------------


def test_a_seek_asks_every_rank_and_finds_what_all_have(make_rig: MakeRig) -> None:
    rig = make_rig(pools=FOUR, ranks=2)
    lease = rig.open()
    asked = seek(rig, lease, 1, 2, 3)
    assert asked
    assert asked.lines == (0, 1, 2)
    works = rig.works()
    assert works == [
        Work(token, "seek", rank, "objects", 1, (), (), tuple(keys(1, 2, 3)), 0, (SPACE,))
        for rank, token in enumerate(asked.tokens)
    ]
    assert pending(rig, lease, 1)
    rig.report(works[1], "done", *absent(2))
    assert pending(rig, lease, 1, 2)
    assert rig.lookup(lease, 3).tokens == 0, "one rank has not got it: nobody waits for the other"
    assert not rig.lookup(lease, 3).pending
    rig.report(works[0])
    [*adopts] = rig.effects()
    assert adopts == [Adopt(rank, "objects", (8, 9), (SPACE, SPACE), (key(1), key(2))) for rank in (0, 1)]
    assert rig.lookup(lease, 1, 2, 3).tokens == 32
    assert states(rig, 1, 2, 3, pool=STORE) == ["ready", "ready", "absent"]
    assert rig.books.parts.live() == []


def test_a_seek_of_many_keys_goes_down_in_parts(make_rig: MakeRig) -> None:
    rig = make_rig(pools=FOUR, part_blocks=2)
    lease = rig.open()
    asked = seek(rig, lease, 1, 2, 3)
    works = rig.works()
    assert [work.keys for work in works] == [(key(1), key(2)), (key(3),)]
    assert len(asked.tokens) == 2
    rig.report(works[1])
    assert pending(rig, lease, 3), "what is found is named when all have answered"
    rig.report(works[0], "done", *absent(0))
    assert states(rig, 1, 2, 3, pool=STORE) == ["absent", "ready", "ready"]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("failed", absent(0)),
        ("denied", ()),
        ("broken", ()),
        ("cancelled", ()),
        ("timeout", ()),
        ("done", absent(-1)),
        ("done", absent(2)),
        ("done", (failure(Code.PEER_LOST),)),
        ("done", (failure(Code.PEER_LOST, 0), failure(Code.BUSY, 1))),
        ("done", absent(0, 1)),
    ],
)
def test_what_did_not_say_yes_has_not_said_yes(rig: Rig, outcome: str, said: tuple[Failure, ...]) -> None:
    lease = rig.open()
    seek(rig, lease, 1, 2)
    [work] = rig.works()
    assert pending(rig, lease, 1)
    rig.report(work, outcome, *said)
    assert not pending(rig, lease, 1)
    assert rig.lookup(lease, 1).tokens == 0
    assert rig.effects() == []
    assert states(rig, 1, 2, pool=STORE) == ["absent", "absent"]


def test_a_part_of_a_seek_that_failed_takes_only_its_own_keys_with_it(make_rig: MakeRig) -> None:
    rig = make_rig(pools=FOUR, part_blocks=1)
    lease = rig.open()
    seek(rig, lease, 1, 2)
    first, second = rig.works()
    rig.report(first)
    rig.report(second, "failed", failure(Code.PEER_LOST))
    assert states(rig, 1, 2, pool=STORE) == ["ready", "absent"]


def test_the_deadline_ends_the_wait_and_a_late_answer_changes_nothing(rig: Rig) -> None:
    lease = rig.open()
    seek(rig, lease, 1, deadline=0.5)
    [work] = rig.works()
    assert pending(rig, lease, 1)
    rig.tick(0.5)
    assert not pending(rig, lease, 1)
    assert rig.ledger.rest()[1:] == ["seek part 1 is lost"]
    rig.report(work)
    assert (rig.effects(), states(rig, 1, pool=STORE)) == ([], ["absent"])
    assert rig.ledger.rest()[1:] == []
    stale = rig.books.stale
    rig.report(work)
    assert rig.books.stale == stale + 1


def test_a_deadline_that_is_over_is_one_that_ends_at_the_next_tick(rig: Rig) -> None:
    rig.tick(9.0)
    lease = rig.open()
    seek(rig, lease, 1, deadline=1.0)
    rig.tick(9.0)
    assert not pending(rig, lease, 1)


def test_the_wait_for_a_seek_is_bounded_like_that_for_a_load(rig: Rig) -> None:
    lease = rig.open()
    seek(rig, lease, 1, 2, deadline=50.0)
    rig.tick(7.0)
    assert pending(rig, lease, 1)
    rig.tick(7.9)
    assert pending(rig, lease, 1)
    rig.tick(8.0)
    assert not pending(rig, lease, 1), "it has waited for a second"
    assert pending(rig, lease, 2), "and of this one nobody was told to wait before"
    rig.finish_all()
    assert rig.lookup(lease, 1, 2).tokens == 32


def test_a_seek_outlives_its_lease(rig: Rig) -> None:
    lease = rig.open()
    seek(rig, lease, 1)
    rig.ledger.abort(lease)
    other = rig.open()
    assert pending(rig, other, 1)
    rig.finish_all()
    assert rig.lookup(other, 1).tokens == 16


def test_only_what_is_missing_is_asked_for(rig: Rig) -> None:
    rig.below(1)
    announce(rig, 2)
    announce(rig, 3, pool=STORE)
    lease = rig.open()
    rig.effects()
    asked = seek(rig, lease, 1, 2, 3, 4, 5, 4)
    assert asked.lines == (3, 4)
    rig.refuses(
        lambda: rig.ledger.seek(lease, keys(1, 2, 3, 4, 5), pool=STORE, deadline=1.0),
        "nothing to seek: each of these keys is a hit, or known there, or being sought",
    )
    assert seek(rig, rig.open("b"), 4).lines == (0,), "another namespace has other keys"


def test_a_key_that_cools_elsewhere_is_sought_and_one_that_cools_there_is_not(rig: Rig) -> None:
    announce(rig, 1)
    announce(rig, 2, pool=STORE)
    rig.effects()
    for number in (1, 2):
        lease = rig.open()
        load, _ = rig.load(lease, rig.lookup(lease, number), deadline=1.0)
        rig.ledger.cancel(load)
        rig.finish_all()
    rig.tick(0.5)
    assert (states(rig, 1), states(rig, 2, pool=STORE)) == (["cooling"], ["cooling"])
    assert seek(rig, rig.open(), 1, 2).lines == (0,)


def test_what_was_stored_meanwhile_is_not_named_twice(rig: Rig) -> None:
    lease = rig.open()
    seek(rig, lease, 1)
    [work] = rig.works()
    other, refs = rig.sealed(1)
    rig.offload(other, refs, pool=STORE)
    rig.finish_all()
    rig.report(work)
    assert rig.effects() == []
    assert states(rig, 1, pool=STORE) == ["ready"]


def test_a_hit_that_came_meanwhile_is_not_waited_for(rig: Rig) -> None:
    lease = rig.open()
    seek(rig, lease, 1)
    announce(rig, 1)
    assert rig.lookup(lease, 1).tokens == 16


def test_one_wait_does_not_end_the_other(rig: Rig) -> None:
    """A key is sought, and brought by a load from elsewhere as well: the clock of who waits goes on."""
    lease = rig.open()
    seek(rig, lease, 1, deadline=50.0)
    [question] = rig.works()
    announce(rig, 1)
    rig.effects()
    loader = rig.open()
    rig.load(loader, rig.lookup(loader, 1), deadline=40.0)
    [fetch] = rig.works()
    other = rig.open()
    assert pending(rig, other, 1)
    rig.tick(0.9)
    rig.report(question, "done", *absent(0))
    assert pending(rig, other, 1)
    rig.tick(1.0)
    assert not rig.lookup(other, 1).pending, "the second that it waits at most is over"
    rig.report(fetch, "failed")


def test_a_wait_goes_on_when_the_load_ends_and_the_seek_does_not(rig: Rig) -> None:
    lease = rig.open()
    seek(rig, lease, 1, deadline=50.0)
    announce(rig, 1)
    loader = rig.open()
    load, _ = rig.load(loader, rig.lookup(loader, 1), deadline=40.0)
    other = rig.open()
    assert pending(rig, other, 1)
    rig.ledger.vanish(PEER, names(1))
    rig.tick(0.5)
    rig.ledger.abort(loader)
    assert pending(rig, other, 1)
    rig.tick(1.0)
    assert not pending(rig, other, 1), "the clock was not set back"
    assert load


@pytest.mark.parametrize(
    ("call_off", "sent"),
    [
        (lambda ledger: ledger.reset(), [Cancel, Sweep]),
        (lambda ledger: ledger.drain(), [Cancel]),
        (lambda ledger: rank_lost(ledger, 0), [Cancel]),
    ],
)
def test_a_seek_that_is_called_off_names_nothing(rig: Rig, call_off: Callable[[Any], object], sent: list[type]) -> None:
    lease = rig.open()
    seek(rig, lease, 1)
    [work] = rig.works()
    assert pending(rig, lease, 1)
    call_off(rig.ledger)
    assert [type(effect) for effect in rig.effects()] == sent
    if lease in rig.books.leases:
        assert not pending(rig, lease, 1)
    rig.report(work)
    assert (rig.effects(), states(rig, 1, pool=STORE)) == ([], ["absent"])
    assert rig.books.parts.live() == []


def test_a_drain_of_what_is_closed_calls_nothing_off(rig: Rig) -> None:
    rig.ledger.drain()
    rig.ledger.shut()
    rig.refuses(rig.ledger.drain, "the ledger is closed already")


def test_a_lease_from_before_a_reset_asks_for_nothing(rig: Rig) -> None:
    lease = rig.open()
    rig.ledger.reset()
    rig.effects()
    rig.refuses(
        lambda: rig.ledger.seek(lease, keys(1), pool=STORE, deadline=1.0), f"lease {lease} is from before the reset"
    )


def test_who_may_ask(rig: Rig) -> None:
    rig.refuses(lambda: rig.ledger.seek(9, keys(1), pool=STORE, deadline=1.0), "lease 9 is not open")
    lease = rig.open()
    rig.refuses(lambda: rig.ledger.seek(lease, keys(1), pool=STORE, deadline=1.0, group=0), "has no groups")
    rig.refuses(lambda: rig.ledger.seek(lease, [], pool=STORE, deadline=1.0), "nothing to seek")
    rig.ledger.drain()
    rig.refuses(lambda: rig.ledger.seek(lease, keys(1), pool=STORE, deadline=1.0), "takes no new work")


def test_what_finds_no_room_is_left_out(rig: Rig) -> None:
    lease = rig.open()
    seek(rig, lease, 1, 2, 3, 4)
    rig.finish_all()
    assert states(rig, 1, 2, 3, 4, pool=STORE) == ["ready", "ready", "ready", "absent"]


def test_a_fence_ends_a_seek_without_an_answer(rig: Rig) -> None:
    lease = rig.open()
    seek(rig, lease, 1)
    assert rig.ledger.fenced(0, "objects", 9) == 1
    assert not pending(rig, lease, 1)
    assert states(rig, 1, pool=STORE) == ["absent"]


def test_a_seek_in_a_group(make_rig: MakeRig) -> None:
    groups = (GroupConfig("full"), GroupConfig("slide", kind=GroupKind.SLIDING, window=16))
    rig = make_rig(pools=FOUR, groups=groups)
    lease = rig.open()

    def look() -> Any:
        return rig.ledger.lookup_groups(lease, [keys(1), keys(1)])

    rig.refuses(lambda: rig.ledger.seek(lease, keys(1), pool=STORE, deadline=1.0), "group None is none")
    for group in (0, 1):
        assert rig.ledger.seek(lease, keys(1), pool=STORE, deadline=50.0, group=group)
    works = rig.works()
    assert [work.spaces for work in works] == [("full@a",), ("slide@a",)]
    assert look().pending
    rig.tick(1.0)
    assert not look().pending, "it has waited long enough"
    rig.report(works[0])
    rig.report(works[1])
    assert look().tokens == 16


# --- What a ledger with open questions is ---------------------------------------------------------------------------


def asking(make_rig: MakeRig, *numbers: int, missing: Sequence[int] = ()) -> Rig:
    rig = make_rig(pools=FOUR, ranks=2)
    seek(rig, rig.open(), *numbers)
    first, _ = rig.works()
    if missing:
        rig.report(first, "done", *absent(*missing))
    return rig


def test_what_is_sought_is_part_of_what_a_ledger_is(make_rig: MakeRig) -> None:
    one, same, other, later = (asking(make_rig, *keys_of) for keys_of in ((1, 2), (1, 2), (1, 3), (1, 2)))
    assert one.ledger.canonical_hash() == same.ledger.canonical_hash() != other.ledger.canonical_hash()
    one.report(one.books.parts.live()[0].token, "done", *absent(0))
    later.report(later.books.parts.live()[0].token, "done", *absent(1))
    assert len({rig.ledger.canonical_hash() for rig in (one, same, later)}) == 3


def test_a_snapshot_remembers_what_was_asked(make_rig: MakeRig) -> None:
    rig = asking(make_rig, 1, 2, missing=(0,))
    snapshot = rig.ledger.snapshot()
    before = rig.ledger.canonical_hash()
    [work] = [part for part in rig.books.parts.live() if rig.ledger.core.ports.part.state_of(part.slot) == "flying"]
    for _ in range(2):
        rig.report(work.token)
        assert states(rig, 1, 2, pool=STORE) == ["absent", "ready"]
        rig.ledger.restore(snapshot)
        assert rig.ledger.canonical_hash() == before


def test_a_seek_can_be_explained(rig: Rig) -> None:
    seek(rig, rig.open(), 1)
    assert rig.ledger.rest() == ["lease 1 is open", "seek part 1 is flying"]
