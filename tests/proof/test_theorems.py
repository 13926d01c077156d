"""Every theorem holds of the data, each of its mutants makes it fail, and the page tells the same."""

from __future__ import annotations

import re
from itertools import product

import pytest

z3 = pytest.importorskip("z3", reason="theorems are proved by z3, which is not installed")

from kvstate.proof import holds, terms  # noqa: E402
from kvstate.proof.theorems import THEOREMS, Theorem  # noqa: E402
from kvstate.spec.expr import Const  # noqa: E402
from kvstate.spec.loader import load_spec  # noqa: E402
from tests.proof.mutants import MUTANTS  # noqa: E402
from tests.tidy.files import ROOT  # noqa: E402

SPEC = load_spec(check=False)
BY_NAME = {theorem.name: theorem for theorem in THEOREMS}
PAGE = ROOT / "docs" / "proofs.md"
VACUOUS = "can't happen under what is assumed"


SMALL = ("lives",)
"""What is proved while one works; the others take the prover some seconds each, with `make proof`."""
EACH = [pytest.param(one, id=one.name) if one.name in SMALL else pytest.param(one, marks=pytest.mark.proof, id=one.name)
        for one in THEOREMS]  # fmt: skip


@pytest.mark.parametrize("theorem", EACH)
def test_the_theorem_is_proved(theorem: Theorem) -> None:
    assert theorem.run(SPEC) == []


def test_every_theorem_has_its_mutants() -> None:
    assert set(MUTANTS) == set(BY_NAME)
    assert all(MUTANTS.values())


FAULTS = [
    pytest.param(name, fault, marks=pytest.mark.proof if place == 0 else pytest.mark.long)
    for name, faults in MUTANTS.items()
    for place, fault in enumerate(faults)
]
"""Some seconds of a prover each; the first of each theorem is for `make proof`, the others for `make test-long`."""


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_the_mutant_is_killed(name: str, fault: str) -> None:
    mutant = MUTANTS[name][fault](SPEC)
    assert mutant != SPEC
    findings = BY_NAME[name].run(mutant)
    assert findings, f"{fault}: and yet {name} is proved"
    assert not all(VACUOUS in finding for finding in findings), "killed by a way there, not by what can't be assumed"


def test_an_unanswered_question_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(z3.Solver, "check", lambda *_: z3.unknown)
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda _: "timeout")
    for theorem in THEOREMS:
        assert "the prover gave up (timeout); nothing is proved" in theorem.run(SPEC)[0]


@pytest.mark.parametrize("theorem", EACH)
def test_what_is_assumed_has_a_witness_or_nothing_is_proved(theorem: Theorem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no assumption can be met, every claim would follow; each theorem asks for a witness, and misses it."""
    monkeypatch.setattr(z3.Solver, "check", lambda *_: z3.unsat)
    found = theorem.run(SPEC)
    assert found
    assert all(VACUOUS in finding or "never" in finding or "no values" in finding or "publishes nothing" in finding
               for finding in found), found  # fmt: skip


@pytest.mark.proof
def test_a_lemma_that_contradicts_the_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One set of assumptions alone that nothing meets: the invariants of a record are those of no state."""
    monkeypatch.setattr(terms.Symbols, "within", lambda *_: z3.BoolVal(False))
    for name in ("one_end", "counters", "free", "all_stopped", "all_or_nothing"):
        assert any(VACUOUS in finding for finding in BY_NAME[name].run(SPEC)), name


def test_a_step_that_cannot_happen_is_no_proof() -> None:
    number = z3.Int("number")
    step = terms.Step("never", (number < 0,), (("anything", z3.BoolVal(False)),))
    assert terms.unproved(step, [number > 0])[0].startswith("never: can't happen under what is assumed")


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_what_is_assumed_of_counts_is_true_of_sets(parts: int) -> None:
    """In worlds of one to three parts and jobs, with the counts written out as sums, each fact of counting follows.

    And the lemmas and facts have a model there in which the block is being written and one of its writers is lost.
    """
    world = holds.Holds(SPEC)
    before = world.before
    sorts = world.p.sort(), world.j.sort()
    some, jobs = (z3.Consts(" ".join(f"{word}{number}" for number in range(parts)), sort)
                  for word, sort in zip("xy", sorts, strict=True))  # fmt: skip
    closed = [z3.Or(*(one == other for other in others)) for one, others in
              ((world.p, some), (world.q, some), (world.j, jobs), (world.i, jobs))]  # fmt: skip

    def count(relation: holds.Of, states: tuple[str, ...]) -> terms.Term:
        return z3.Sum(*(z3.If(z3.And(relation(x), world.part.is_in(before.state(x), states)), 1, 0) for x in some), 0)

    sums = [
        z3.Distinct(*some),
        z3.Distinct(*jobs),
        *closed,
        before.readers == count(before.reads, holds.TOUCHING),
        before.writers == count(before.writes, holds.TOUCHING),
        before.lost_readers == count(before.reads, holds.GIVEN_UP),
        before.lost_writers == count(before.writes, holds.GIVEN_UP),
        before.holders == z3.Sum(*(z3.If(before.held(y), 1, 0) for y in jobs), 0),
    ]
    solver = terms.Solver(sums)
    assert [fact for fact in world.counting(before) if not solver.follows([], fact)] == []
    lemmas = [term for _, term in world.lemmas(before)]
    written = [before.writers >= parts, before.lost_writers >= 1]
    assert solver.model(*lemmas, *written) is not None


def test_houdini_keeps_what_is_inductive_and_nothing_else() -> None:
    """A counter that goes up by two from nought: even stays, below three does not, and odd is never true."""
    number, then = z3.Ints("number then")

    def claims(value: terms.Term) -> dict[str, terms.Term]:
        return {"even": value % 2 == 0, "below three": value < 3, "odd": value % 2 == 1, "not negative": value >= 0}

    kept = terms.houdini([claims(number)], claims(then), [[then == 0]], [[then == number + 2]])
    assert kept == {"even", "not negative"}


def test_an_event_is_answered_by_the_first_row_in_file_order() -> None:
    """The symbolic step does what the reference does, on every state and event of a block and some numbers."""
    from kvstate.machines.step import step

    symbols = terms.Symbols(SPEC.machine("block"))
    machine = symbols.machine
    for state, event, readers, lost in product(machine.states, machine.events, (0, 1, 2), (0, 1)):
        values = {"owners": 1, "readers": readers, "writers": 0, "lost": lost, "published": True, "generation": 5,
                  "ranks": 2}  # fmt: skip
        env = {name: terms.to_term(Const(value), {}) for name, value in values.items()}
        record = terms.Record(z3.IntVal(symbols.number[state.name]), env)
        answered, after = symbols.fire(record, event.name, z3.BoolVal(True))
        said = step(machine, state.name, values, event.name)
        assert z3.is_true(z3.simplify(answered)) == (said is not None)
        where, then = (state.name, values) if said is None else said[1:]
        assert z3.simplify(after.state).as_long() == symbols.number[where]
        shown = {name: str(z3.simplify(value)) for name, value in after.env.items()}
        assert shown == {name: str(value) for name, value in then.items()}


def test_the_page_has_every_theorem_and_every_mutant() -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("\n## Unbounded\n") :]
    section = section[: section.index("\n## ", 1)] if "\n## " in section[1:] else section
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| `"]
    told = {row[0].strip("`"): (row[1], row[2], set(row[3].split("; "))) for row in rows if len(row) == 4}
    assert told == {theorem.name: (theorem.law, theorem.claim, set(MUTANTS[theorem.name])) for theorem in THEOREMS}
    assert re.search(r"about the \*model\*", section)
