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


def only_a_closing_lease_aborts(machine: Machine) -> Iterator[str]:
    """L1.aborted: nothing but an abort leads a batch to aborting, and from nowhere else it comes to aborted."""
    for row in machine.rows:
        stopped = row.to == "aborted" and row.sources == ("aborting",)
        if row.to in ("aborting", "aborted") and row.events != ("abort",) and not stopped:
            yield f"{row.id} leads to {row.to} on {' or '.join(row.events)}, and no lease is closing"


def a_fall_gives_all_back(machine: Machine) -> Iterator[str]:
    """L5.given_back: who says that a batch fell has given its blocks back, in one way, and its pins; over is then."""
    for row in machine.rows:
        if "fell" not in row.effects:
            continue
        before = row.effects[: row.effects.index("fell")]
        if before.count("rollback") + before.count("leave") != 1:
            yield f"{row.id} says fell, and its blocks are neither rolled back nor left, or both"
        if "unpin" not in before:
            yield f"{row.id} says fell, and still has its sources pinned"
        if "over" in before:
            yield f"{row.id} says over before it says how it ended"


def the_end_of_a_wait_is_heard(machine: Machine) -> Iterator[str]:
    """L7.heard: a batch answers cut and expire in every state, so no load waits for one that cannot be told."""
    for state in machine.states:
        for event in ("cut", "expire"):
            guards = [row.when.source for row in machine.cell(state.name, event)]
            if "True" not in guards and not any(f"not {guard}" in guards for guard in guards):
                yield f"{state.name} does not always answer {event}"


def a_late_timer_does_nothing(machine: Machine) -> Iterator[str]:
    """L7.late: a back-off that ends where nobody waits for it moves nothing, changes nothing and says nothing."""
    for row in machine.rows:
        for event, waits in WAITS.items():
            inert = row.to is None and not row.sets and not row.effects
            if event in row.events and row.sources != (waits,) and not inert:
                yield f"{row.id} takes {event} for something else than the end of {waits}"


def what_is_broken_stays_broken(machine: Machine) -> Iterator[str]:
    """L8.poison_stays: a broken invariant leads to poisoned from everywhere, and nothing leads out."""
    for row in machine.rows:
        if "broke" in row.events and row.to != "poisoned" and row.sources != ("poisoned",):
            yield f"{row.id} hears that an invariant is broken, and goes on"
        if "poisoned" in row.sources and row.to not in (None, "poisoned"):
            yield f"{row.id} leads from poisoned to {row.to}"


def a_new_life_is_clean(machine: Machine) -> Iterator[str]:
    """L2.clean: what moves the generation of an engine's block says anew whether it is stained."""
    for row in machine.rows:
        known = _sets(row, "stained") is not None or _requires(row, machine, "not stained")
        if _sets(row, "generation") is not None and not known:
            yield f"{row.id} begins a life with the stains of the one before"


WAITS = {"retry_due": "retry_wait", "warm": "cooling"}
"""Events that end a back-off, and the state in which it is waited for."""


def a_start_is_undisturbed(spec: Spec) -> Iterator[str]:
    """L7.started: all that the start of a load sets off starts its batches and launches their parts, and no more.

    So none of them is cut, or told that time is up, before it has begun.
    """
    rows = [("load", row) for row in spec.machine("load").rows if "start" in row.events]
    seen: set[str] = set()
    while rows:
        machine, row = rows.pop()
        if row.id in seen:
            continue
        seen.add(row.id)
        for target, event in _set_off(spec, machine, row):
            if (target, event) not in STARTS:
                yield f"{row.id} is part of the start of a load, and sets off {target}.{event}"
                continue
            rows += [(target, then) for then in spec.machine(target).rows if event in then.events]


STARTS = {("transfer", "start"), ("part", "launch"), *((name, f"{verb}_begin") for name in ("block", "foreign")
                                                       for verb in ("read", "write"))}  # fmt: skip
"""What the start of a load comes to."""
LAUNCHES = "launch_parts"
"""The act that launches parts: it fires `part.launch` itself."""


def _set_off(spec: Spec, machine: str, row: Row) -> Iterator[tuple[str, str]]:
    """The events that the effects of a row are, for other records."""
    for link in spec.couplings:
        if link.machine == machine and link.effect in row.effects:
            yield link.target, link.event
    for act in spec.acts:
        if act.machine == machine and act.effect in row.effects:
            yield ("part", "launch") if act.act == LAUNCHES else (act.machine, act.act)


QUESTIONS: tuple[tuple[Question, str], ...] = (
    (a_life_ends_once, "block"),
    (a_batch_tells_once, "transfer"),
    (a_job_tells_its_end, "offload"),
    (a_retry_is_counted, "offload"),
    (a_retry_is_counted, "transfer"),
    (who_ran_out_of_time_failed, "offload"),
    (only_a_closing_lease_aborts, "transfer"),
    (a_fall_gives_all_back, "transfer"),
    (the_end_of_a_wait_is_heard, "transfer"),
    (a_late_timer_does_nothing, "offload"),
    (a_late_timer_does_nothing, "transfer"),
    (a_late_timer_does_nothing, "key"),
    (what_is_broken_stays_broken, "service"),
    (a_new_life_is_clean, "foreign"),
)
"""Each question, and the machine that it is asked of."""
SPEC_QUESTIONS: tuple[Callable[[Spec], Iterator[str]], ...] = (a_start_is_undisturbed,)
"""Those that are asked of all machines and what couples them."""


def broken(spec: Spec) -> Iterator[tuple[Callable[..., Iterator[str]], str]]:
    """What the rows of a spec break: the question, and the sentence with the row. Nothing of a spec that is right."""
    for question, name in QUESTIONS:
        for sentence in question(spec.machine(name)):
            yield question, sentence
    for of_spec in SPEC_QUESTIONS:
        for sentence in of_spec(spec):
            yield of_spec, sentence


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
