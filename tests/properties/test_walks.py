"""Every question of the walks (`tests/stateful/laws.py`) is seen to fail, on a world or on a spec that was broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvstate.machines.ledger import ACTS, COUPLINGS
from kvstate.machines.messages import Failure, Report
from kvstate.machines.records import Batch, Job
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.load import State as L
from kvstate.machines.tables.part import State as P
from kvstate.machines.tables.transfer import State as X
from kvstate.machines.verdicts import Ending, JobVerdict, LoadVerdict
from tests.long import long_but
from tests.scenarios.spec_mutants import changed
from tests.stateful.base import SCOPES, Poison
from tests.stateful.laws import STOPPING, WAITING
from tests.stateful.world import World

# -- each of them can fail ---------------------------------------------------------------------------------------------

Plant = Callable[[World], bool]
"""Breaks what a question asks for; False, and nothing changed, if there is nothing here to break."""


def a_written_block_is_open(world: World) -> bool:
    for flight in world.flights:
        if flight.work.kind in ("store", "fetch"):
            world.ledger.books.block_state[flight.work.dst[0]] = B.OPEN
            return True
    return False


def a_record_is_lost(world: World) -> bool:
    for flight in world.flights:
        del world.ledger.books.tokens[flight.work.token.serial]
        return True
    return False


def a_copy_is_taken_for_over(world: World) -> bool:
    books = world.ledger.books
    for flight in world.flights:
        books.parts_state[books.tokens[flight.work.token.serial]] = P.LANDED
        return True
    return False


def nobody_was_asked(world: World) -> bool:
    states = world.ledger.books.parts_state
    for machine, owner, state in world.owners():
        if state in STOPPING[machine] and any(states[slot] == P.FLYING for slot in owner.parts):
            world.asked_to_stop.clear()
            return True
    return False


def the_hole_moves_to_the_front(world: World) -> bool:
    told = world.ledger.books.column("transfer", "told")
    for load in world.loads_by_state(L.WAITING):
        if len(load.batches) > 1 and not any(told[batch] for batch in load.batches):
            told[load.batches[0]] = True
            return True
    return False


def the_timers_of_keys_are_gone(world: World) -> bool:
    books, key = world.ledger.books, world.ledger.core.ports.key
    for slot, _ in books.keys.names():
        if key.state_of(slot) == "cooling":
            books.timers.clear()
            return True
    return False


def waiting(world: World) -> Iterator[Job | Batch]:
    return (owner for machine, owner, state in world.owners() if state == WAITING[machine] and owner.parts)


def the_timers_of_retries_are_gone(world: World) -> bool:
    for _ in waiting(world):
        world.ledger.books.timers.clear()
        return True
    return False


def an_attempt_waits_after_bad_bytes(world: World) -> bool:
    for owner in waiting(world):
        world.ledger.books.parts_state[owner.parts[0]] = P.BROKEN
        return True
    return False


def a_pin_stays(world: World) -> bool:
    books = world.ledger.books
    for load in world.loads_by_state(L.WAITING):
        if any(batch in load.batches for batch in books.leases[load.lease].pins.values()):
            books.column("load", "state")[load.slot] = L.SETTLING
            return True
    return False


def a_turn_is_missed(world: World) -> bool:
    for load in world.loads_by_state(L.WAITING):
        states = world.ledger.books.column("transfer", "state")
        states[next(slot for slot in load.batches if states[slot] != X.COMMITTED)] = X.VERIFIED
        return True
    return False


def a_name_is_a_lie(world: World) -> bool:
    keys = world.ledger.books.keys
    for slot, _ in keys.names():
        if keys.blocks[slot] >= 0 and world.ledger.core.ports.key.state_of(slot) == "ready":
            world.bytes[0][keys.blocks[slot]] = Poison(0, 0)
            world.writes.clear()
            return True
    return False


def a_table_is_a_lie(world: World) -> bool:
    for request in world.running():
        for ref in request.table.values():
            if world.ledger.books.block_state[ref.block] == B.ACTIVE:
                world.bytes[0][ref.block] = Poison(0, 0)
                world.writes.clear()
                return True
    return False


def a_block_is_handed_on_under_a_copy(world: World) -> bool:
    for flight in world.flights:
        world.tenant[flight.work.src[0]] += 1
        return True
    return False


def a_pool_counts_wrongly(world: World) -> bool:
    world.ledger.books.pools[0].counts[0] += 1
    return True


def a_slow_key_is_ready(world: World) -> bool:
    keys = world.ledger.books.keys
    for slot, name in keys.names():
        if world.ledger.core.ports.key.state_of(slot) == "ready":
            world.blame.cooled.add((name.key, world.ledger.books.ref(keys.blocks[slot])))
            return True
    return False


def a_key_pays_for_nothing(world: World) -> bool:
    keys = world.ledger.books.keys
    for slot, _ in keys.names():
        if world.ledger.core.ports.key.state_of(slot) == "ready":
            world.blame.row("key", keys.uids[slot], "K05")
            return True
    return False


def an_object_is_left_behind(world: World) -> bool:
    for token in world.objects - {flight.work.token for flight in (*world.flights, *world.waiting)}:
        world.committed.discard(world.persists[token])
        world.persists[token] = 0
        return True
    return False


def time_does_not_come(world: World) -> bool:
    if world.ledger.books.job_ids or world.ledger.books.load_ids:
        world.ledger.books.timers.clear()
        return True
    return False


PLANTS: list[tuple[Plant, str, str]] = [
    (a_written_block_is_open, "writer_place", "L3.writer_place"),
    (a_record_is_lost, "recorded", "L4.recorded"),
    (a_copy_is_taken_for_over, "recorded", "L4.recorded"),
    (a_name_is_a_lie, "true_names", "L9.bytes"),
    (an_object_is_left_behind, "no_object", "L5.no_object"),
    (nobody_was_asked, "asked", "L4.asked"),
    (the_hole_moves_to_the_front, "behind", "L5.behind"),
    (the_timers_of_keys_are_gone, "timer", "L7.timer"),
    (the_timers_of_retries_are_gone, "timer", "L7.timer"),
    (an_attempt_waits_after_bad_bytes, "no_retry", "L7.no_retry"),
    (a_pin_stays, "pins", "L9.pins"),
    (a_turn_is_missed, "turn_taken", "L11.turn"),
    (a_table_is_a_lie, "tables", "L9.bytes"),
    (a_block_is_handed_on_under_a_copy, "reuse", "L3.no_reuse"),
    (a_pool_counts_wrongly, "balance", "L8.balance"),
    (a_slow_key_is_ready, "slow_keys", "L5.slow_keys"),
    (a_key_pays_for_nothing, "innocent", "L5.innocent"),
    (time_does_not_come, "clock", "L7.clock"),
]


@pytest.mark.parametrize(("plant", "question", "law"), PLANTS, ids=lambda value: getattr(value, "__name__", value))
def test_a_question_can_fail(plant: Plant, question: str, law: str) -> None:
    for seed in range(60):
        world = World(seed, SCOPES["durable" if question == "no_object" else "two ranks"])
        world.move("warm")
        for _ in range(40):
            if plant(world):
                with pytest.raises(AssertionError, match=law):
                    getattr(world, question)()
                return
            world.walk(1, "loads")
    pytest.fail("no walk comes to where this could be broken")


MUTANTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("L1.verdict_once", "two ranks", "A02 tells nobody", {"machines": changed("A02", effects=("abort",))}),
    ("L2.stale_counted", "two ranks", "P11 does not count", {"machines": changed("P11", effects=())}),
    ("L3.no_reuse", "two ranks", "P12 takes nothing over", {"machines": changed("P12", effects=())}),
    ("L3.writer_place", "two ranks", "B21 leads to free", {"machines": changed("B21", to="free")}),
    ("L4.asked", "two ranks", "X13 asks nobody to stop", {"machines": changed("X13", effects=())}),
    ("L5.proceed", "two ranks", "P05 says ok", {"machines": changed("P05", effects=("let_go", "ok"))}),
    (
        "L5.bad_keys",
        "two ranks",
        "couplings to condemn deleted",
        {"couplings": [row for row in COUPLINGS if row.event != "condemn"]},
    ),
    ("L5.behind", "tight", "A13 says nothing", {"machines": changed("A13", effects=())}),
    ("L5.no_object", "durable", "act undo_late dropped", {"acts": [act for act in ACTS if act.act != "undo_late"]}),
    (
        "L5.no_object",
        "durable",
        "act undo_persist dropped",
        {"acts": [act for act in ACTS if act.act != "undo_persist"]},
    ),
    ("L7.timer", "two ranks", "act arm_retry dropped", {"acts": [act for act in ACTS if act.act != "arm_retry"]}),
    ("L7.no_retry", "durable", "O17 forgets what forbids a retry", {"machines": changed("O17", unset="again")}),
    ("L7.clock", "two ranks", "act arm_warm dropped", {"acts": [act for act in ACTS if act.act != "arm_warm"]}),
    ("L9.writing", "two ranks", "O20 drops no key", {"machines": changed("O20", effects=("ask_cancel",))}),
    (
        "L9.pins",
        "two ranks",
        "X24 does not unpin",
        {"machines": changed("X24", effects=("leave", "ask_cancel", "cool", "fell"))},
    ),
    (
        "L10.cause",
        "two ranks",
        "act note_failures dropped",
        {"acts": [act for act in ACTS if act.act != "note_failures"]},
    ),
    ("L11.turn", "two ranks", "X12 says nothing", {"machines": changed("X12", effects=())}),
    ("L11.home", "two ranks", "B52 stays where it was", {"machines": changed("B52", to=None)}),
]
"""By which name a walk says so, in which scope, and what is broken in the spec: in words, and as it is."""


@pytest.mark.parametrize(
    "mutant", long_but(MUTANTS[::3], MUTANTS, whole=True), ids=lambda mutant: f"{mutant[0]}-{mutant[2]}"
)
def test_a_broken_spec_is_seen(mutant: tuple[str, str, str, dict[str, Any]]) -> None:
    law, scope, _, broken = mutant
    said: Counter[str] = Counter()
    for seed in range(60):
        world = World(seed, SCOPES[scope], **broken)
        try:
            for _ in range(6):
                world.round(25, "stores" if scope == "durable" else "loads")
                world.clock()
            world.rest()
        except AssertionError as problem:
            said[str(problem).partition(":")[0]] += 1
            if law in said:
                return
    pytest.fail(f"no walk said {law}; they said {said}")


def test_every_question_is_seen_to_fail() -> None:
    assert {question for _, question, _ in PLANTS} == {*World.QUESTIONS, "clock"}


def test_a_cause_that_was_left_out_is_missed() -> None:
    """A verdict loses its errors on the way."""
    heard: list[LoadVerdict] = []

    class Forgetful(World):
        def cause(self, number: int, verdict: LoadVerdict | JobVerdict) -> None:
            if isinstance(verdict, LoadVerdict) and self.said.get(number):
                heard.append(verdict)
            super().cause(number, verdict)

    world = Forgetful(0, SCOPES["two ranks"])
    while not heard:
        world.round()
    told = heard[0]
    assert told.ending is Ending.RECOMPUTE
    with pytest.raises(AssertionError, match=r"L10\.cause"):
        world.cause(told.load, told._replace(errors=()))
    other = tuple(error for error in told.errors if error.token is None)
    with pytest.raises(AssertionError, match=r"L10\.cause"):
        world.cause(told.load, told._replace(errors=other))


def test_what_is_noted_of_a_report_is_what_the_owner_hears() -> None:
    """A report that the owner does not hear, late or twice, is no cause."""
    world = World(3, SCOPES["two ranks"])
    world.round()
    assert world.past
    for token in world.past:
        before = {number: set(tokens) for number, tokens in world.said.items()}
        world.ledger.report(Report(token, "failed", (Failure(-1, 2301, "fetch"),)))
        assert world.said == before
