"""The laws that can be read off the rows hold, and each question is seen to fail on a row that was changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kvstate.spec.expr import parse
from kvstate.spec.laws import (
    QUESTIONS,
    SPEC_QUESTIONS,
    Question,
    a_batch_tells_once,
    a_fall_gives_all_back,
    a_job_tells_its_end,
    a_late_timer_does_nothing,
    a_life_ends_once,
    a_new_life_is_clean,
    a_retry_is_counted,
    a_start_is_undisturbed,
    broken,
    only_a_closing_lease_aborts,
    the_end_of_a_wait_is_heard,
    what_is_broken_stays_broken,
    who_ran_out_of_time_failed,
)
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Coupling, Machine, Spec

SPEC = load_spec(check=False)


@pytest.mark.parametrize(("question", "name"), QUESTIONS, ids=lambda value: getattr(value, "__name__", value))
def test_every_row_keeps_it(question: Question, name: str) -> None:
    assert list(question(SPEC.machine(name))) == []


def changed(machine: Machine, row_id: str, **change: Any) -> Machine:
    row = machine.row(row_id)
    if "unset" in change:
        gone = change.pop("unset")
        change["sets"] = tuple(pair for pair in row.sets if pair[0] != gone)
    if "when" in change:
        types = {var.name: var.type for var in machine.vars} | {param.name: "int" for param in machine.params}
        change["when"] = parse(change["when"], types)
    return replace(machine, rows=tuple(replace(row, **change) if one is row else one for one in machine.rows))


CHANGED: list[tuple[Question, str, str, dict[str, Any]]] = [
    (a_life_ends_once, "block", "B37", {"unset": "generation"}),
    (a_batch_tells_once, "transfer", "X24", {"effects": ("leave", "ask_cancel", "cool", "unpin")}),
    (a_batch_tells_once, "transfer", "X40", {"when": "True"}),
    (a_batch_tells_once, "transfer", "X39", {"to": "aborted"}),
    (a_batch_tells_once, "transfer", "X42", {"to": "aborted"}),
    (a_batch_tells_once, "transfer", "X61", {"effects": ("condemn", "cool_lost")}),
    (a_batch_tells_once, "transfer", "X12", {"effects": ("tell_verified", "over")}),
    (a_batch_tells_once, "transfer", "X22", {"effects": ("commit", "name", "unpin", "over")}),
    (a_job_tells_its_end, "offload", "O18", {"effects": ("drop_key", "unhold", "release_dst", "tell_cancelled")}),
    (a_job_tells_its_end, "offload", "O30", {"effects": ("tell_committed", "commit_dst", "commit_key")}),
    (a_job_tells_its_end, "offload", "O11", {"effects": ("unhold", "persist", "tell_committed")}),
    (a_retry_is_counted, "offload", "O41", {"unset": "attempt"}),
    (a_retry_is_counted, "transfer", "X16", {"when": "left == 1"}),
    (who_ran_out_of_time_failed, "offload", "O21", {"unset": "expired"}),
    (who_ran_out_of_time_failed, "offload", "O53", {"when": "left == 1 and not copied"}),
    (only_a_closing_lease_aborts, "transfer", "X40", {"to": "aborting"}),
    (only_a_closing_lease_aborts, "transfer", "X35", {"to": "aborted"}),
    (a_fall_gives_all_back, "transfer", "X02", {"effects": ("unpin", "fell", "over")}),
    (a_fall_gives_all_back, "transfer", "X24", {"effects": ("leave", "rollback", "unpin", "fell")}),
    (a_fall_gives_all_back, "transfer", "X40", {"effects": ("leave", "cool_lost", "fell", "unpin")}),
    (a_fall_gives_all_back, "transfer", "X51", {"effects": ("rollback", "cool", "unpin", "over", "fell")}),
    (the_end_of_a_wait_is_heard, "transfer", "X02", {"events": ("expire",)}),
    (the_end_of_a_wait_is_heard, "transfer", "X70", {"when": "told and again"}),
    (a_late_timer_does_nothing, "offload", "O72", {"to": "failed"}),
    (a_late_timer_does_nothing, "transfer", "X72", {"effects": ("launch",)}),
    (a_late_timer_does_nothing, "key", "K12", {"to": "ready"}),
    (what_is_broken_stays_broken, "service", "S06", {"to": "serving"}),
    (what_is_broken_stays_broken, "service", "S05", {"to": "draining"}),
    (a_new_life_is_clean, "foreign", "E05", {"unset": "stained"}),
]
"""A question, the machine and its row, and what is done to it."""


@pytest.mark.parametrize(("question", "name", "row", "change"), CHANGED)
def test_a_changed_row_is_seen(question: Question, name: str, row: str, change: dict[str, Any]) -> None:
    machine = changed(SPEC.machine(name), row, **change)
    complaints = list(question(machine))
    assert complaints
    places = (row, *SPEC.machine(name).row(row).sources)  # a question about states names the state
    assert all(complaint.startswith(tuple(f"{place} " for place in places)) for complaint in complaints)
    whole = replace(SPEC, machines=tuple(machine if one.name == name else one for one in SPEC.machines))
    assert (question, complaints[0]) in list(broken(whole))


CHANGED_WHOLE: list[tuple[Callable[[Spec], Iterator[str]], str, str, dict[str, Any]]] = [
    (a_start_is_undisturbed, "load", "A01", {"effects": ("start", "expire")}),
    (a_start_is_undisturbed, "transfer", "X01", {"effects": ("launch", "fell")}),
    (a_start_is_undisturbed, "part", "P01", {"effects": ("touch", "unproved")}),
]
"""The same, of questions about all machines and what couples them."""


@pytest.mark.parametrize(("question", "name", "row", "change"), CHANGED_WHOLE)
def test_a_changed_row_is_seen_in_the_whole(
    question: Callable[[Spec], Iterator[str]], name: str, row: str, change: dict[str, Any]
) -> None:
    machine = changed(SPEC.machine(name), row, **change)
    whole = replace(SPEC, machines=tuple(machine if one.name == name else one for one in SPEC.machines))
    complaints = list(question(whole))
    assert complaints
    assert all(complaint.startswith(f"{row} ") for complaint in complaints)
    assert (question, complaints[0]) in list(broken(whole))


def test_what_a_start_sets_off_is_followed_through_the_couplings() -> None:
    """A coupling that lets a touch cut a batch is seen, three steps behind the start."""
    link = Coupling("C99", "part", "touch", "transfer", "cut", "part_batch", False, "as a fault")
    complaints = list(a_start_is_undisturbed(replace(SPEC, couplings=(*SPEC.couplings, link))))
    assert complaints[0] == "P01 is part of the start of a load, and sets off transfer.cut"


def test_every_question_was_seen_to_fail() -> None:
    asked = {question for question, *_ in CHANGED} | {question for question, *_ in CHANGED_WHOLE}
    assert asked == {question for question, _ in QUESTIONS} | {*SPEC_QUESTIONS}


def test_nothing_is_broken_in_what_ships() -> None:
    assert list(broken(SPEC)) == []
