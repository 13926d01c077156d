"""Arguments that are not what they say they are: a caller's are refused, a worker's are counted, none poisons."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import BlockRef, Failure, Report, Token
from kvstate.machines.verdicts import Hit
from tests.machines.rig import Rig, key, keys


class Mute:
    """Can't even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


NO_KEYS: list[Any] = ["text", b"", 7, None, bytearray(b"k")]
NO_REFS: list[Any] = [(0, 0), 0, None, [0, 0]]
NO_TIMES: list[Any] = [None, "1.0", float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("wrong", NO_KEYS, ids=repr)
def test_what_is_no_key(rig: Rig, wrong: Any) -> None:
    lease = rig.open()
    refs = rig.allocate(lease, 2)
    said = f"{wrong!r} is no key: a key is bytes, one at least"
    rig.refuses(lambda: rig.ledger.lookup(lease, [key(1), wrong]), said)
    rig.refuses(lambda: rig.ledger.seal(lease, refs, [key(1), wrong]), said)


@pytest.mark.parametrize("wrong", NO_REFS, ids=repr)
def test_what_is_no_reference(rig: Rig, wrong: Any) -> None:
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    [ref] = rig.allocate(lease, 1)
    said = f"{wrong!r} is no reference to a block"
    for ask in (
        lambda refs: rig.ledger.seal(lease, refs, keys(1, 2)),
        lambda refs: rig.ledger.release(lease, refs),
        lambda refs: rig.ledger.offload(lease, refs),
        lambda refs: rig.ledger.load(lease, hit, refs, deadline=1.0),
        lambda refs: rig.ledger.hold(lease, refs, deadline=1.0),
    ):
        rig.refuses(lambda ask=ask: ask([ref, wrong]), said)  # type: ignore[misc]


@pytest.mark.parametrize("wrong", NO_TIMES, ids=repr)
def test_what_is_no_time(rig: Rig, wrong: Any) -> None:
    rig.below(1)
    lease, refs = rig.sealed(2)
    hit = rig.lookup(lease, 1)
    into = rig.allocate(lease, 1)
    said = f"the deadline is {wrong!r}: a time is a finite number of seconds"
    if wrong is not None:  # an offload without a deadline has one all the same
        rig.refuses(lambda: rig.ledger.offload(lease, refs, deadline=wrong), said)
    rig.refuses(lambda: rig.ledger.load(lease, hit, into, deadline=wrong), said)
    rig.refuses(lambda: rig.ledger.hold(lease, into, deadline=wrong), said)
    rig.refuses(lambda: rig.ledger.tick(wrong), f"the time is {wrong!r}: a time is a finite number of seconds")


@pytest.mark.parametrize("wrong", ["3", 1.5, None, True], ids=repr)
def test_what_is_no_count(rig: Rig, wrong: Any) -> None:
    lease = rig.open()
    rig.refuses(lambda: rig.ledger.allocate(lease, wrong), f"{wrong!r} blocks can't be allocated")


@pytest.mark.parametrize("wrong", ["", None, b"a", 1], ids=repr)
def test_what_is_no_namespace(rig: Rig, wrong: Any) -> None:
    rig.refuses(lambda: rig.ledger.open(wrong), "a lease needs a namespace")


NO_REPORTS: list[Any] = [
    None,
    "done",
    ((1, 1), "done", ()),
    Report(None, "done"),  # type: ignore[arg-type]
    Report((1, 1), "done"),  # type: ignore[arg-type]
    Report(Token("1", 1), "done"),  # type: ignore[arg-type]
    Report(Token(1, True), "done"),
    Report(Token(1, 1.0), "done"),  # type: ignore[arg-type]
    Report(Token(1, 1), None),  # type: ignore[arg-type]
    Report(Token(1, 1), ["done"]),  # type: ignore[arg-type]
    Report(Token(1, 1), "Done"),
]


@pytest.mark.parametrize("wrong", NO_REPORTS, ids=repr)
def test_what_is_no_report_is_unknown(rig: Rig, wrong: Any) -> None:
    """L6: reports are total, whatever a worker sends."""
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    before = rig.shape()
    assert rig.ledger.report(wrong) is None
    assert (rig.books.unknown, rig.books.stale, rig.ledger.fatal) == (1, 0, None)
    assert rig.shape() == before


def errors(rig: Rig, failures: Any, outcome: str = "denied") -> list[tuple[Any, ...]]:
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    assert rig.ledger.report(Report(rig.works()[0].token, outcome, failures)) is None
    return [(error.code, error.stage, error.message) for error in rig.verdict().errors]


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        (("out of tape",), "the worker sent what is no failure: 'out of tape'"),
        ("out of tape", "the worker sent what is no failure: 'out of tape'"),
        ([None], "the worker sent what is no failure: None"),
        ((Failure("0", 2301, "store"),), "the worker sent what is no failure: Failure(line='0', code=2301,"),  # type: ignore[arg-type]
        ((Failure(0, "2301", "store"),), "the worker sent what is no failure: Failure(line=0, code='2301',"),  # type: ignore[arg-type]
        ((Mute(),), "the worker sent what is no failure: a Mute"),
    ],
)
def test_what_is_no_failure_is_kept_in_words(rig: Rig, failures: Any, said: str) -> None:
    """The report is the proof that a copy has stopped, and must not be lost over how its reason is put."""
    [(code, _, message)] = errors(rig, failures)
    assert code is Code.UNKNOWN
    assert message.startswith(said)


def test_a_failure_of_odd_words_is_read_as_far_as_it_goes(rig: Rig) -> None:
    odd: Any = Failure(0, int(Code.KV_OOM), 7, None, 28, OSError, Mute(), "yes")  # type: ignore[arg-type]
    assert errors(rig, [odd]) == [(Code.KV_OOM, "7", "a Mute")]


def test_good_and_odd_failures_are_both_kept(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(attempts=1)
    told = errors(rig, [Failure(0, int(Code.KV_OOM), "store", message="full"), 5], "failed")
    assert told == [
        (Code.KV_OOM, "store", "full"),
        (Code.UNKNOWN, "store", "the worker sent what is no failure: 5"),
    ]


def forged(hit: Hit, **changes: Any) -> Hit:
    return dataclasses.replace(hit, **changes)


WORDS: Any = BlockRef(*cast("Any", ("b7", 0)))

MISTAKES: dict[str, Callable[[Any, int, Hit], Any]] = {
    "a lease that is a list": lambda ledger, lease, hit: ledger.finish([lease]),
    "a lease that is a word": lambda ledger, lease, hit: ledger.allocate("1", 1),
    "no keys": lambda ledger, lease, hit: ledger.lookup(lease, None),
    "no blocks": lambda ledger, lease, hit: ledger.release(lease, None),
    "no hit": lambda ledger, lease, hit: ledger.unpin(None),
    "no hit to load": lambda ledger, lease, hit: ledger.load(lease, None, [], deadline=1.0),
    "a place beyond the hit": lambda ledger, lease, hit: ledger.load(lease, forged(hit, below=(7,)), [], deadline=1.0),
    "a hit of words": lambda ledger, lease, hit: ledger.unpin(forged(hit, blocks=("b7",))),
    "a hit of a lease that is none": lambda ledger, lease, hit: ledger.unpin(forged(hit, lease="r1")),
    "a job that is a list": lambda ledger, lease, hit: ledger.cancel([]),
    "a step that is a word": lambda ledger, lease, hit: ledger.step_dispatched("1", [lease]),
    "a step for no list": lambda ledger, lease, hit: ledger.step_dispatched(1, lease),
    "a step for words": lambda ledger, lease, hit: ledger.step_dispatched(1, ["r1"]),
    "a serial that is a word": lambda ledger, lease, hit: ledger.fenced(0, "cpu", "1"),
    "a copier that is a number": lambda ledger, lease, hit: ledger.fenced(0, 1, 1),
    "a pool that is a word": lambda ledger, lease, hit: ledger.offload(lease, [], pool="host"),
    "a reference of words": lambda ledger, lease, hit: ledger.hold(
        lease,
        [WORDS],
        deadline=1.0,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_the_caller_is_a_refusal_and_poisons_nothing(rig: Rig, mistake: str) -> None:
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    rig.refuses(lambda: MISTAKES[mistake](rig.ledger, lease, hit), "")
    assert rig.ledger.fatal is None


def test_a_call_that_does_not_fit_raises_and_poisons_nothing(rig: Rig) -> None:
    lease = rig.open()
    with pytest.raises(TypeError, match="allocate"):
        rig.ledger.allocate(lease)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="allocate"):
        rig.ledger.allocate(lease, 1, colour="red")  # type: ignore[call-arg]
    assert rig.ledger.fatal is None
    assert rig.allocate(lease, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"pinned": None},
        {"pinned": ([],)},
        {"below": None},
        {"keys": None},
        {"keys": ("K",)},
        {"tokens": "many"},
        {"blocks": []},
    ],
    ids=repr,
)
def test_a_hit_that_was_changed_is_no_hit(rig: Rig, changes: dict[str, Any]) -> None:
    rig.below(1)
    lease = rig.open()
    hit = forged(rig.lookup(lease, 1), **changes)
    rig.refuses(lambda: rig.ledger.unpin(hit), "")
    rig.refuses(lambda: rig.ledger.load(lease, hit, [], deadline=1.0), "")


def test_whole_seconds_are_a_time(rig: Rig) -> None:
    rig.ledger.tick(3)
    assert rig.ledger.books.now == 3


def test_a_time_that_no_float_holds_is_no_time(rig: Rig) -> None:
    rig.refuses(lambda: rig.ledger.tick(10**400), "a time is a finite number of seconds")


@pytest.mark.parametrize("what", [{"block": "x"}, {"work": []}, {"lease": {}}], ids=repr)
def test_to_explain_what_is_no_number_says_so(rig: Rig, what: dict[str, Any]) -> None:
    assert rig.ledger.explain(**what) == "what is to be explained is no number."
