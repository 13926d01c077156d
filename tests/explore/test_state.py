"""What the search stands on: putting a state aside, telling states apart, and coming home."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvstate.explore.home import at_rest, by_the_clock, comes_home, late_reports
from kvstate.explore.matter import JUNK, LawBroken, LoadOut
from kvstate.explore.moves import Move, System
from kvstate.explore.requests import check_known
from kvstate.explore.scopes import SCOPES, Request
from kvstate.explore.search import _Search
from kvstate.explore.stage import Rules
from kvstate.machines.audit import audit
from kvstate.machines.tables.foreign import State as F
from kvstate.machines.verdicts import Ending, LoadVerdict, Settlement

LOADING: tuple[Move, ...] = (("open", 0), ("go", 0), ("go", 0), ("go", 0))
"""In scope `batch`: the two copies of a load are on their way."""


def system(scope: str, *moves: Move) -> System:
    made = System(SCOPES[scope], Rules())
    for move in moves:
        made.do(move)
    return made


def seen(break_it: Callable[[], object]) -> str:
    with pytest.raises(LawBroken) as broken:
        break_it()
    return str(broken.value)


# ---- Putting aside ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["batch", "shared", "steps", "durable"])
def test_a_state_that_was_put_back_is_the_one_that_was_put_aside(scope: str) -> None:
    """Two ledgers make the same moves; one makes all others first, and is put back each time."""
    one, two = system(scope), system(scope)
    for number in range(60):
        moves = one.moves()
        if not moves:
            break
        saved = one.save()
        for other in moves:
            one.do(other)
            one.restore(saved)
        going_on = [move for move in moves if move[0] != "end"]
        move = going_on[(5 * number + 1) % len(going_on)]
        one.do(move)
        two.do(move)
        assert one.ledger.canonical_hash() == two.ledger.canonical_hash()
        assert one.digest() == two.digest()
        assert not audit(one.ledger)
    assert number > 5


# ---- Telling apart ---------------------------------------------------------------------------------------------------


def onward(made: System, saved: bytes) -> list[Any]:
    """Every move from a state, and what comes of it."""
    made.restore(saved)
    found = []
    for move in made.moves():
        made.restore(saved)
        made.do(move)
        found.append((move, made.digest()))
    return found


@pytest.mark.parametrize("scope", ["shared", "job", "steps", "queue"])
def test_states_of_one_form_have_the_same_moves_to_the_same_forms(scope: str) -> None:
    """The symmetry, looked at: where two ledgers differ and the forms do not, what comes next must not differ, too."""
    made = system(scope)
    first = made.save()
    forms, hashes, queue, merged = {made.digest(): first}, {made.ledger.canonical_hash()}, [first], 0
    while queue and len(forms) < 400:
        saved = queue.pop(0)
        made.restore(saved)
        for move in made.moves():
            made.restore(saved)
            made.do(move)
            form, own = made.digest(), made.ledger.canonical_hash()
            kept = made.save()
            if form not in forms:
                forms[form] = kept
                queue.append(kept)
            elif own not in hashes:
                merged += 1
                assert onward(made, kept) == onward(made, forms[form])
            hashes.add(own)
    assert merged > 0, "the symmetry is at work"


# ---- What must be true in a state ------------------------------------------------------------------------------------


def test_a_key_that_names_other_bytes_is_seen() -> None:
    made = system("batch")
    made.look()
    made.world.contents[2] = "K9"
    assert seen(made.look) == "L9.bytes: K1 names block 2, which holds K9"
    made.world.contents[2] = JUNK
    made.look()
    made.world.bad.append((2, made.world.tenants[2]))
    assert seen(made.look) == "L5.bad_keys: K1 still names block 2, whose bytes were reported bad"


def test_a_block_that_is_given_away_or_free_under_a_copy_is_seen() -> None:
    made = system("batch", *LOADING)
    made.look()
    made.world.hand([0])
    assert seen(made.look) == "L3.no_reuse: block 0 was given to another, and t5 is not over"
    made = system("batch", *LOADING)
    flight = made.world.flights[5]
    made.do(("fence",))
    made.do(("end", 0, "abort"))
    made.world.flights[5] = flight
    assert "is free, and t5 is not over" in seen(made.look)


def test_a_destination_that_the_load_has_lost_is_seen() -> None:
    made = system("foreign-load", ("open", 0), ("go", 0), ("go", 0), ("go", 0))
    books, allocator = made.ledger.books, made.world.allocator
    assert books.engine.filling
    assert list(allocator.look(made.world, books)) == []
    block = next(iter(books.engine.filling))
    books.engine.state[block] = F.OWNED
    assert list(allocator.look(made.world, books)) == [
        f"L3.foreign_dst: block {block} is not the load's any more, and the batch goes on"
    ]


def test_a_step_that_is_not_over_counts_as_a_copy() -> None:
    made = system("steps", ("open", 0), ("go", 0), ("go", 0), ("go", 0))
    made.world.hand([0])
    assert seen(made.look) == "L3.no_reuse: block 0 was given to another, and step 1 is not over"


def test_what_a_verdict_promises_must_be_there() -> None:
    made = system("batch", *LOADING)
    (number,) = made.world.loads
    verdict = LoadVerdict(number, 1, Ending.PROCEED, 32, 2, (0, 1), (), ())
    assert seen(lambda: made.world.hear(verdict)) == "L5.proceed: a load promises K1, and block 0 does not hold it"
    assert seen(lambda: made.world.hear(verdict)).startswith("L1.verdict_once"), "it was told already"
    made.world.loads = {7: LoadOut(())}
    assert seen(lambda: made.world.hear(Settlement(7))).startswith("L1.verdict_once"), "a settlement before the verdict"


# ---- Coming home -----------------------------------------------------------------------------------------------------


def test_from_the_middle_of_a_load_all_comes_home() -> None:
    made = system("batch", *LOADING)
    comes_home(made)
    assert not made.ledger.rest()


def test_the_clock_alone_ends_a_load() -> None:
    made = system("batch", *LOADING)
    by_the_clock(made)
    assert not made.world.loads
    assert made.world.flights, "no copy has answered"


def test_a_load_that_no_timer_ends_is_seen() -> None:
    made = system("batch", *LOADING)
    made.ledger.books.timers.clear()
    assert "waits, and no timer is left" in seen(lambda: by_the_clock(made))


def test_a_clock_without_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    made = system("batch", *LOADING)
    monkeypatch.setattr(made, "do", lambda _: None)
    assert seen(lambda: by_the_clock(made)).startswith("L7.clock: the clock fires without end")


def test_what_no_fence_proves_over_keeps_it_from_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    made = system("batch", *LOADING)
    monkeypatch.setattr(made, "fence", lambda: None)
    assert seen(lambda: comes_home(made)).startswith("L11.home: fetch part 5 is lost")


def test_a_block_that_is_not_idle_at_rest_is_seen() -> None:
    made = system("batch")
    made.ledger.books.pools[0].counts[0] -= 1
    assert seen(lambda: at_rest(made)) == "L11.home: at rest device has 1 idle blocks of 2"


def test_a_late_report_that_does_something_is_seen() -> None:
    made = system("batch", *LOADING)
    late_reports(made, made.digest())
    made.world.over.append(5)
    assert seen(lambda: late_reports(made, made.digest())).startswith("L2.stale_counted")


def test_a_circle_of_hardware_and_clock_is_seen() -> None:
    search = _Search(SCOPES["batch"], Rules(), None, home=False)
    search.came = [(-1, ()), (0, ("tick",)), (1, ("tick",))]
    search.onward = [[1], [2], []]
    search._no_endless_way()
    assert search.found.finished
    search.onward = [[1], [2], [1]]
    search._no_endless_way()
    assert getattr(search.found.broken, "law", "") == "L11.no_circle"


def test_a_word_that_is_no_operation_is_refused() -> None:
    sentence = seen(lambda: check_known([Request("r1", ("K1",), ("alocate",))]))
    assert sentence == "r1 is to 'alocate', and there is no such operation"
