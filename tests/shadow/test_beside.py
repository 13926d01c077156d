"""Each kind of violation, from what vLLM would hand over; and what looks like one and is none."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from kvstate.integrations.vllm.shadow.kinds import MEANINGS, Kind
from kvstate.integrations.vllm.shadow.machines import ShadowError
from tests.shadow.doubles import BLOCKS, Scene, job, new
from tests.tidy.files import ROOT


def test_every_kind_names_a_property_of_the_spec() -> None:
    properties = tomllib.loads((ROOT / "spec" / "properties.toml").read_text(encoding="utf-8"))["property"]
    assert set(MEANINGS) == set(Kind)
    assert {meaning.law for meaning in MEANINGS.values()} <= {one["name"] for one in properties}


# -- what is well ------------------------------------------------------------------------------------------------------


def test_a_store_a_load_and_another_store_are_well() -> None:
    scene = Scene()
    scene.stored()
    scene.built(gone=["r1"], loads={1: job("r2", [0, 1], [7, 8])})
    scene.completed(1)
    scene.built(new("r2", [7, 8, 9], 64), stores={2: job("r2", [9], [2])})
    scene.built(more={"r2": [10]}, stores={3: job("r2", [10], [0])})  # slot 0 is evicted for it
    scene.completed(2, 3)
    assert scene.found == []
    assert not scene.reader.beside.copies
    assert scene.reader.beside.host.state(0) == "cached"
    rows = {event[1].ROWS[event[2]] for event in scene.ring.kept if len(event) == 6}
    assert rows >= {"E01", "E10", "E11", "E13", "E14", "E15", "E28", "P01", "P02"}, "of the device, and of the parts"
    assert rows >= {"B01", "B03", "B04", "B05", "B06", "B08", "B10", "B13", "B24", "B30", "B33"}, "of the host pool"


def test_a_block_that_is_given_on_is_well_once_the_workers_wait_for_its_store() -> None:
    scene = Scene()
    scene.built(new("r1", [1, 2]), stores={0: job("r1", [1, 2], [0, 1])})
    scene.built(new("r2", [2, 3]), gone=["r1"], flush=[0])
    scene.completed(0)  # the report of what was waited for comes afterwards, and once
    assert scene.found == []
    scene.completed(0)
    assert scene.kinds == [Kind.SECOND_REPORT]


def test_the_last_store_of_a_request_may_read_what_this_step_gives_away_if_it_is_waited_for() -> None:
    scene = Scene()
    scene.built(new("r1", [1, 2]))
    scene.built(new("r2", [2]), gone=["r1"], stores={0: job("r1", [1, 2], [0, 1])}, flush=[0])
    assert scene.found == []
    scene.built(new("r3", [3]))
    scene.built(new("r4", [3]), gone=["r3"], stores={1: job("r3", [3], [2])})
    assert scene.kinds == [Kind.GIVEN_AWAY]


def test_a_block_that_is_found_in_the_prefix_cache_goes_on_with_its_life() -> None:
    scene = Scene()
    scene.built(new("r1", [1, 2]), stores={0: job("r1", [1, 2], [0, 1])})
    scene.built(new("r2", [1, 2, 3], 64), gone=["r1"])
    scene.built(resumed={"r3": (63, [1, 2, 4])})  # the last token of a full hit is computed anew
    scene.completed(0)
    assert scene.found == []


def test_what_a_load_was_given_is_not_given_again_when_its_request_is_in_a_step() -> None:
    scene = Scene()
    scene.stored()
    scene.built(loads={1: job("r2", [0, 1], [7, 8])})
    scene.completed(1)
    scene.built(new("r2", [7, 8, 9], 32), stores={2: job("r2", [7], [2])})  # what was loaded behind a bad block
    lives = scene.reader.beside.foreign.table.generation
    assert (lives[7], lives[8], lives[9]) == (1, 1, 1)


def test_lists_that_grow_afterwards_are_read_as_they_were() -> None:
    scene = Scene()
    scene.built(new("r1", [1]), stores={0: job("r1", [1], [0])})
    one = new("r2", [2])
    tape: list[Any] = []
    read, scene.reader.read = scene.reader.read, tape.append  # type: ignore[method-assign, assignment]
    scene.built(one)
    one.block_ids[0].append(1)
    read(tape[0])
    assert scene.found == []


def test_blocks_of_groups_that_are_not_watched_and_the_block_that_stands_for_none_are_passed_over() -> None:
    scene = Scene(groups=1)
    scene.built(new("r1", [1, 0], 0, [5, 6]), stores={0: job("r1", [1, 0, 5], [0])})
    scene.built(new("r2", [0], 0, [5]))
    assert scene.found == []
    assert scene.reader.beside.adopted == 1


def test_a_reset_forgets_what_is_there_and_waits_for_what_is_under_way() -> None:
    scene = Scene()
    scene.stored()
    scene.built(new("r2", [3]), stores={1: job("r2", [3], [2])}, loads={2: job("r3", [0], [8])})
    scene.reset()
    scene.built(flush=[1, 2], stores={3: job("r2", [3], [2])})
    scene.completed(1, 2, 3)
    host = scene.reader.beside.host
    assert scene.found == []
    assert [host.state(slot) for slot in range(3)] == ["free", "free", "cached"]


def test_after_a_reset_a_slot_is_not_taken_under_a_copy() -> None:
    scene = Scene()
    scene.built(new("r1", [1]), stores={0: job("r1", [1], [0])})
    scene.reset()
    scene.built(stores={1: job("r1", [1], [0])})
    assert scene.kinds == [Kind.SLOT_REUSED]
    assert scene.found[0].sentence == f"block {BLOCKS} is draining, and job 1, a store of request r1 takes it"


# -- what is not -------------------------------------------------------------------------------------------------------


def test_a_block_is_given_away_under_a_store_and_what_that_left_is_loaded() -> None:
    scene = Scene()
    scene.built(new("r1", [1, 2]), stores={0: job("r1", [1, 2], [0, 1])})
    scene.built(new("r2", [2]), gone=["r1"])
    assert scene.kinds == [Kind.GIVEN_AWAY]
    assert scene.found[0].law == "L3.no_reuse"
    what = "foreign 2 is given to request r2 under job 0, a store of request r1, which has no end yet"
    assert scene.found[0].sentence == what
    scene.completed(0)
    scene.built(loads={1: job("r3", [1], [9])})
    assert scene.kinds == [Kind.GIVEN_AWAY, Kind.NOT_COMMITTED]


def test_of_two_jobs_with_one_block_the_one_that_is_over_is_not_to_blame() -> None:
    scene = Scene()
    scene.built(new("r1", [1]), stores={0: job("r1", [1], [0])})
    scene.built(new("r2", [1]), gone=["r1"], flush=[0], stores={1: job("r2", [1], [1])})
    scene.built(new("r3", [1]), gone=["r2"])
    assert [one.sentence.split(",")[0] for one in scene.found] == ["foreign 1 is given to request r3 under job 1"]


def test_a_block_is_given_away_under_a_load_and_stored_then() -> None:
    scene = Scene()
    scene.stored()
    scene.built(loads={1: job("r2", [0], [7])})
    scene.built(new("r3", [7]), gone=["r2"], stores={2: job("r3", [7], [3])})
    assert scene.kinds == [Kind.GIVEN_AWAY, Kind.UNFIT_SOURCE]
    scene.completed(1, 2)
    scene.built(stores={3: job("r3", [7], [4])})
    assert scene.found[-1].sentence.startswith("foreign 7 is stained by a copy of an earlier life")


def test_a_block_that_is_being_loaded_is_stored() -> None:
    scene = Scene()
    scene.stored()
    scene.built(loads={1: job("r2", [0], [7])}, stores={})
    scene.built(stores={2: job("r2", [7], [5])})
    assert scene.kinds == [Kind.UNFIT_SOURCE]
    assert scene.found[0].sentence == "foreign 7 is loading, and job 2, a store of request r2 stores it"


def test_a_load_reads_what_is_not_committed_yet_and_what_was_never_stored() -> None:
    scene = Scene()
    scene.built(new("r1", [1]), stores={0: job("r1", [1], [0])})
    scene.built(loads={1: job("r2", [0], [7])})
    scene.built(loads={2: job("r3", [40], [8])})
    assert scene.kinds == [Kind.NOT_COMMITTED] * 2
    assert [one.sentence.split(",")[0] for one in scene.found] == [
        f"block {BLOCKS} is loading",
        f"block {BLOCKS + 40} is free",
    ]


def test_a_slot_is_taken_under_a_load() -> None:
    scene = Scene()
    scene.stored()
    scene.built(loads={1: job("r2", [0], [7])})
    scene.built(new("r3", [9]), stores={2: job("r3", [9], [0])})
    assert scene.kinds == [Kind.SLOT_REUSED]
    scene.completed(1, 2)
    assert scene.reader.beside.host.state(0) == "cached"


def test_a_job_lists_a_block_twice() -> None:
    scene = Scene()
    scene.built(new("r1", [1, 2]), stores={0: job("r1", [1, 1], [0, 1])})
    assert [one.sentence for one in scene.found] == [
        "part 0 is job 0, a store of request r1, and lists device block 1 twice"
    ]
    scene.completed(0)
    scene.built(loads={1: job("r2", [0, 0], [7, 8])})
    assert scene.found[-1].sentence.endswith("lists host slot 0 twice")
    scene.built(loads={2: job("r3", [0, 1], [9, 9])})
    assert scene.kinds == [Kind.LISTED_TWICE] * 3


def test_a_second_report_and_one_of_a_job_that_nobody_began() -> None:
    scene = Scene()
    scene.stored()
    scene.completed(0)
    scene.completed(12)
    assert scene.kinds == [Kind.SECOND_REPORT, Kind.UNKNOWN_REPORT]


def test_a_job_is_over_when_every_rank_has_said_so() -> None:
    scene = Scene(ranks=2)
    scene.built(new("r1", [1]), stores={0: job("r1", [1], [0])})
    scene.completed(0)
    scene.built(loads={1: job("r2", [0], [7])})
    assert scene.kinds == [Kind.NOT_COMMITTED]
    scene.completed(0)
    scene.built(loads={2: job("r3", [0], [8])})
    scene.completed(2, ranks=3)
    assert scene.kinds == [Kind.NOT_COMMITTED, Kind.SECOND_REPORT]


def test_a_store_that_never_ends_and_comes_late() -> None:
    scene = Scene(deadline=20.0)
    scene.built(new("r1", [1]), stores={0: job("r1", [1], [0])}, gone=[])
    scene.steps(19)
    assert scene.found == []
    scene.steps(5)
    scene.steps(5)
    assert scene.kinds == [Kind.ENDLESS]
    assert scene.found[0].sentence == "part 0 is job 0, a store of request r1, and has no end after 20 s"
    scene.built(new("r2", [1]))
    assert scene.kinds[1:] == [Kind.GIVEN_AWAY]
    scene.completed(0)
    assert len(scene.found) == 2


@pytest.mark.parametrize("first", ["abort", "deadline"])
def test_a_load_that_never_ends_leaves_its_blocks_behind_once_its_request_is_gone(first: str) -> None:
    scene = Scene(deadline=20.0)
    scene.stored()
    scene.built(loads={1: job("r2", [0, 1], [7, 8])})
    if first == "abort":
        scene.built(gone=["r2"])
    scene.steps(30)
    if first == "deadline":
        scene.built(gone=["r2"])
    assert scene.kinds == ([Kind.LEFT_BEHIND] if first == "abort" else [Kind.ENDLESS, Kind.LEFT_BEHIND])
    assert scene.found[-1].sentence.startswith("foreign 7 is held by job 1, a load of request r2, which is gone")
    scene.completed(1)
    assert scene.reader.beside.foreign.state(7) == "owned"
    assert scene.reader.beside.host.state(0) == "cached"


def test_an_engine_that_makes_no_steps_is_not_late() -> None:
    scene = Scene(deadline=20.0)
    scene.built(new("r1", [1]), stores={0: job("r1", [1], [0])})
    scene.reader.tick(1e6)
    assert scene.found == []


def test_what_was_waited_for_before_a_reset_may_stay_without_a_report() -> None:
    scene = Scene(deadline=20.0)
    scene.built(new("r1", [1]), stores={0: job("r1", [1], [0])})
    scene.reset()
    scene.built(flush=[0])
    scene.steps(40)
    assert scene.found == []


def test_jobs_without_an_end_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstate.integrations.vllm.shadow.beside.LOST", 3)
    scene = Scene(deadline=20.0)
    scene.built(new("r1", range(1, 10)), stores={n: job("r1", [n + 1], [n]) for n in range(9)})
    scene.steps(30)
    assert len(scene.reader.beside.copies) == 3
    scene.completed(0)
    assert scene.kinds == [Kind.ENDLESS] * 9, "a report of one that was forgotten is no second one"


def test_a_request_is_put_off_for_too_long() -> None:
    scene = Scene(deadline=20.0)
    for _ in range(15):
        scene.put_off("r1")
        scene.built()
    scene.put_off("r1", still=False)
    for _ in range(30):
        scene.put_off("r1")
        scene.put_off("r2")
        scene.built()
        scene.built(gone=["r2"])
    assert scene.kinds == [Kind.PUT_OFF]
    assert scene.found[0].sentence == "request r1 is put off by its lookups for 22.0 s"


def test_an_exception_is_told_with_its_hook() -> None:
    scene = Scene()
    scene.raised("reset_cache", "AssertionError")
    assert [(one.law, one.sentence) for one in scene.found] == [("L6.total", "reset_cache raised AssertionError")]


# -- what was missed ---------------------------------------------------------------------------------------------------


def test_after_a_gap_nothing_is_held_against_what_was_before() -> None:
    scene = Scene()
    scene.built(new("r1", [1]), stores={0: job("r1", [1], [0]), 1: job("r1", [2], [1])})
    scene.reader.forget()
    scene.completed(0, 1)
    scene.built(new("r2", [1]), stores={5: job("r1", [3], [7])}, loads={6: job("r3", [0], [9])})
    scene.completed(5, 6)
    assert scene.found == []
    scene.completed(5)
    assert scene.kinds == [Kind.SECOND_REPORT]


def test_host_slots_that_are_not_watched_are_left_alone() -> None:
    scene = Scene(host=False)
    scene.built(loads={0: job("r1", [3], [7])})
    assert scene.found == []


def test_a_block_that_can_not_be_is_an_error_of_the_observer() -> None:
    with pytest.raises(ShadowError, match="there is no foreign"):
        Scene().built(new("r1", [1 << 30]))
