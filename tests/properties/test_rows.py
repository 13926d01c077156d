"""The laws that can be read off the rows hold, and each question is seen to fail on a row that was changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvstate.spec.expr import parse
from kvstate.spec.laws import (
    QUESTIONS,
    Question,
    a_batch_tells_once,
    a_job_tells_its_end,
    a_life_ends_once,
    a_retry_is_counted,
    broken,
    who_ran_out_of_time_failed,
)
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Machine

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
]
"""A question, the machine and its row, and what is done to it."""


@pytest.mark.parametrize(("question", "name", "row", "change"), CHANGED)
def test_a_changed_row_is_seen(question: Question, name: str, row: str, change: dict[str, Any]) -> None:
    machine = changed(SPEC.machine(name), row, **change)
    complaints = list(question(machine))
    assert complaints
    assert all(complaint.startswith(f"{row} ") for complaint in complaints)
    whole = replace(SPEC, machines=tuple(machine if one.name == name else one for one in SPEC.machines))
    assert (question, complaints[0]) in list(broken(whole))


def test_nothing_is_broken_in_what_ships() -> None:
    assert list(broken(SPEC)) == []
