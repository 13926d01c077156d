"""Laws that can be read off the rows: each is a sentence of `spec/properties.toml`, asked of every row of a machine.

Together with the invariants, which z3 proves (`kvstate.proof.rows`), they say of any number of records what a walk can
only say of those that it met. A question yields a sentence for each row that breaks it, and nothing where none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvstate.spec.model import Machine, Row, Spec

Question = Callable[[Machine], Iterator[str]]
"""What is asked of a machine's rows."""


def a_life_ends_once(machine: Machine) -> Iterator[str]:
    """L2.life: every entry of a block into free moves its generation."""
    for row in machine.rows:
        if row.to == "free" and _sets(row, "generation") != "generation + 1":
            yield f"{row.id} leads to free and does not move the generation"


def a_batch_tells_once(machine: Machine) -> Iterator[str]:
    """L1.batch_told: `fell` exactly where `told` is set, from where it was not; `over` exactly where the batch ends."""
    for row in machine.rows:
        tells = row.effects.count("fell")
        if tells != (_sets(row, "told") == "True"):
            yield f"{row.id} says fell {tells} times and sets told to {_sets(row, 'told')}"
        if tells and not _requires(row, machine, "not told"):
            yield f"{row.id} says fell, and may have said it before"
        if (tells or _requires(row, machine, "told")) and _comes(row, machine) and row.to != "fell_back":
            yield f"{row.id} ends as {row.to}, and has said that the batch fell"
        if row.effects.count("over") != _comes(row, machine):
            yield f"{row.id} says over {row.effects.count('over')} times"
        if row.effects.count("tell_committed") != (row.to == "committed"):
            yield f"{row.id} tells of a commit that is none, or of none that is one"


def a_job_tells_its_end(machine: Machine) -> Iterator[str]:
    """L1.end_told: a job that ends says so, by the name of the state, as the last effect; nobody else does."""
    for row in machine.rows:
        told = [effect for effect in row.effects if effect.startswith("tell_")]
        wanted = [f"tell_{row.to}"] if _comes(row, machine) else []
        if told != wanted or list(row.effects[-1:]) * bool(told) != told:
            yield f"{row.id} leads to {row.to or 'where it was'} and says {told}"


def a_retry_is_counted(machine: Machine) -> Iterator[str]:
    """L7.attempts: what leaves retry_wait for another attempt counts it."""
    for row in machine.rows:
        again = "retry_wait" in row.sources and row.to is not None and not _comes(row, machine)
        if again and _sets(row, "attempt") != "attempt + 1":
            yield f"{row.id} makes another attempt and does not count it"
        if row.to == "retry_wait" and not _requires(row, machine, "attempt < attempts"):
            yield f"{row.id} waits for an attempt that may be one too many"


def who_ran_out_of_time_failed(machine: Machine) -> Iterator[str]:
    """L10.expired: a deadline is written down or is the end; what was written down ends no job as cancelled."""
    for row in machine.rows:
        if "deadline" in row.events and row.to not in (None, "failed") and _sets(row, "expired") != "True":
            yield f"{row.id} forgets that the deadline has passed"
        if row.to == "cancelled" and row.events != ("cancel",) and not _requires(row, machine, "not expired"):
            yield f"{row.id} may call a job cancelled that ran out of time"
        if row.to == "cancelling" and row.events == ("cancel",) and _sets(row, "expired") is not None:
            yield f"{row.id} calls a cancel a deadline"


QUESTIONS: tuple[tuple[Question, str], ...] = (
    (a_life_ends_once, "block"),
    (a_batch_tells_once, "transfer"),
    (a_job_tells_its_end, "offload"),
    (a_retry_is_counted, "offload"),
    (a_retry_is_counted, "transfer"),
    (who_ran_out_of_time_failed, "offload"),
)
"""Each question, and the machine that it is asked of."""


def broken(spec: Spec) -> Iterator[tuple[Question, str]]:
    """What the rows of a spec break: the question, and the sentence with the row. Nothing of a spec that is right."""
    for question, name in QUESTIONS:
        for sentence in question(spec.machine(name)):
            yield question, sentence


def _ends(machine: Machine) -> set[str]:
    """The states in which a record is over: home, and not where it began."""
    return {state.name for state in machine.states if state.home and state.name != machine.initial}


def _comes(row: Row, machine: Machine) -> bool:
    """Does the row lead into an end?"""
    return row.to in _ends(machine)


def _sets(row: Row, name: str) -> str | None:
    return next((value.source for var, value in row.sets if var == name), None)


def _requires(row: Row, machine: Machine, condition: str) -> bool:
    """Is this a part of the guard, or of the invariant of every state that the row leaves?"""
    in_guard = condition in {part.source for part in row.when.conjuncts}
    return in_guard or all(
        condition in {part.source for part in machine.state(source).invariant.conjuncts} for source in row.sources
    )
