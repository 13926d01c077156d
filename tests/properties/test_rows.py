"""Properties that can be read off the rows: each is a sentence of `spec/properties.toml`, asked of every row.

Together with the invariants, which z3 proves (`tests/spec/test_proof_rows.py`), they say of any number of records what
a walk can only say of those that it met. Each question is seen to fail on a row that was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kvstate.spec.expr import parse
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Machine, Row

SPEC = load_spec(check=False)
Question = Callable[[Machine], Iterator[str]]


def ends(machine: Machine) -> set[str]:
    """The states in which a record is over: home, and not where it began."""
    return {state.name for state in machine.states if state.home and state.name != machine.initial}


def comes(row: Row, machine: Machine) -> bool:
    """Does the row lead into an end?"""
    return row.to in ends(machine)


def sets(row: Row, name: str) -> str | None:
    return next((value.source for var, value in row.sets if var == name), None)


def requires(row: Row, machine: Machine, condition: str) -> bool:
    """Is this a part of the guard, or of the invariant of every state that the row leaves?"""
    in_guard = condition in {part.source for part in row.when.conjuncts}
    return in_guard or all(
        condition in {part.source for part in machine.state(source).invariant.conjuncts} for source in row.sources
    )


def a_life_ends_once(machine: Machine) -> Iterator[str]:
    """L2.life: every entry of a block into free moves its generation."""
    for row in machine.rows:
        if row.to == "free" and sets(row, "generation") != "generation + 1":
            yield f"{row.id} leads to free and does not move the generation"


def a_batch_tells_once(machine: Machine) -> Iterator[str]:
    """L1.batch_told: `fell` exactly where `told` is set, from where it was not; `over` exactly where the batch ends."""
    for row in machine.rows:
        tells = row.effects.count("fell")
        if tells != (sets(row, "told") == "True"):
            yield f"{row.id} says fell {tells} times and sets told to {sets(row, 'told')}"
        if tells and not requires(row, machine, "not told"):
            yield f"{row.id} says fell, and may have said it before"
        if row.effects.count("over") != comes(row, machine):
            yield f"{row.id} says over {row.effects.count('over')} times"
        if row.effects.count("tell_committed") != (row.to == "committed"):
            yield f"{row.id} tells of a commit that is none, or of none that is one"


def a_job_tells_its_end(machine: Machine) -> Iterator[str]:
    """L1.end_told: a job that ends says so, by the name of the state, as the last effect; nobody else does."""
    for row in machine.rows:
        told = [effect for effect in row.effects if effect.startswith("tell_")]
        wanted = [f"tell_{row.to}"] if comes(row, machine) else []
        if told != wanted or list(row.effects[-1:]) * bool(told) != told:
            yield f"{row.id} leads to {row.to or 'where it was'} and says {told}"


def a_retry_is_counted(machine: Machine) -> Iterator[str]:
    """L7.attempts: what leaves retry_wait for another attempt counts it."""
    for row in machine.rows:
        again = "retry_wait" in row.sources and row.to is not None and not comes(row, machine)
        if again and sets(row, "attempt") != "attempt + 1":
            yield f"{row.id} makes another attempt and does not count it"
        if row.to == "retry_wait" and not requires(row, machine, "attempt < attempts"):
            yield f"{row.id} waits for an attempt that may be one too many"


def who_ran_out_of_time_failed(machine: Machine) -> Iterator[str]:
    """L10.expired: a deadline is written down or is the end; what was written down ends no job as cancelled."""
    for row in machine.rows:
        if "deadline" in row.events and row.to not in (None, "failed") and sets(row, "expired") != "True":
            yield f"{row.id} forgets that the deadline has passed"
        if row.to == "cancelled" and row.events != ("cancel",) and not requires(row, machine, "not expired"):
            yield f"{row.id} may call a job cancelled that ran out of time"
        if row.to == "cancelling" and row.events == ("cancel",) and sets(row, "expired") is not None:
            yield f"{row.id} calls a cancel a deadline"


QUESTIONS: list[tuple[Question, str]] = [
    (a_life_ends_once, "block"),
    (a_batch_tells_once, "transfer"),
    (a_job_tells_its_end, "offload"),
    (a_retry_is_counted, "offload"),
    (a_retry_is_counted, "transfer"),
    (who_ran_out_of_time_failed, "offload"),
]


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


@pytest.mark.parametrize(
    ("question", "name", "row", "change"),
    [
        (a_life_ends_once, "block", "B37", {"unset": "generation"}),
        (a_batch_tells_once, "transfer", "X24", {"effects": ("leave", "ask_cancel", "cool", "unpin")}),
        (a_batch_tells_once, "transfer", "X40", {"when": "True"}),
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
    ],
)
def test_a_changed_row_is_seen(question: Question, name: str, row: str, change: dict[str, Any]) -> None:
    complaints = list(question(changed(SPEC.machine(name), row, **change)))
    assert complaints
    assert all(complaint.startswith(f"{row} ") for complaint in complaints)
