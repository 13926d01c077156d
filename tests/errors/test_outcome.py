"""One outcome for a part that failed in several ways, and never one that claims too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.errors import Code, outcome_of, properties_of
from kvstate.errors.codes import PROPERTIES
from kvstate.machines.messages import Failure, Outcome


def failing(*codes: Code | int, transient: bool = False) -> list[Failure]:
    return [Failure(line, int(code), "fetch", transient=transient) for line, code in enumerate(codes)]


@pytest.mark.parametrize("code", list(Code))
def test_one_failure_alone_has_the_default_outcome(code: Code) -> None:
    assert outcome_of(failing(code)) == PROPERTIES[code].outcome


@pytest.mark.parametrize(
    ("codes", "outcome"),
    [
        ((Code.CRC_MISMATCH, Code.LOAD_TIMEOUT), Outcome.TIMEOUT),
        ((Code.DEVICE_ERROR, Code.PEER_LOST), Outcome.TIMEOUT),
        ((Code.CRC_MISMATCH, Code.DEVICE_ERROR), Outcome.DENIED),
        ((Code.NO_SPACE, Code.CRC_MISMATCH), Outcome.BROKEN),
        ((Code.CANCELLED, Code.CRC_MISMATCH), Outcome.BROKEN),
        ((Code.KV_OOM, Code.BLOCK_NOT_FOUND), Outcome.BROKEN),
        ((Code.CANCELLED, Code.CANCELLED), Outcome.CANCELLED),
        ((Code.CANCELLED, Code.KV_OOM), Outcome.FAILED),
        ((Code.CANCELLED, Code.INTERNAL), Outcome.DENIED),
        ((Code.KV_OOM, Code.NO_SPACE), Outcome.DENIED),
        ((2999, Code.KV_OOM), Outcome.DENIED),
        ((), Outcome.DENIED),
    ],
)
def test_several_failures(codes: tuple[Code, ...], outcome: Outcome) -> None:
    assert outcome_of(failing(*codes)) is outcome
    assert outcome_of(reversed(failing(*codes))) is outcome
    assert outcome_of(failing(*codes), proved=False) is Outcome.TIMEOUT


def test_who_knows_that_all_is_over_may_say_more() -> None:
    assert outcome_of(failing(Code.LOAD_TIMEOUT), proved=True) is Outcome.FAILED
    assert outcome_of(failing(Code.LOAD_TIMEOUT, Code.CRC_MISMATCH), proved=True) is Outcome.BROKEN
    assert outcome_of(failing(Code.PEER_LOST, Code.NO_SPACE), proved=True) is Outcome.DENIED


def test_transient_failures_may_be_tried_again() -> None:
    assert outcome_of(failing(Code.UNKNOWN, Code.BUSY, transient=True)) is Outcome.FAILED
    assert outcome_of(failing(Code.CRC_MISMATCH, transient=True)) is Outcome.BROKEN
    assert outcome_of(failing(Code.DEVICE_ERROR, transient=True)) is Outcome.DENIED


failures = st.lists(
    st.builds(Failure, st.integers(-1, 9), st.sampled_from(Code).map(int), st.just("fetch"), transient=st.booleans())
)


@given(failures, st.sampled_from([None, True, False]))
def test_no_outcome_claims_what_its_failures_do_not_prove(found: list[Failure], proved: bool | None) -> None:
    outcome = outcome_of(found, proved=proved)
    has = [properties_of(failure.code) for failure in found]
    assert outcome is not Outcome.DONE
    if proved is not True and any(one.outcome == Outcome.TIMEOUT for one in has):
        assert outcome is Outcome.TIMEOUT
    if outcome is Outcome.BROKEN:
        assert any(one.condemns for one in has)
        assert not any(one.fatal for one in has)
    if outcome is Outcome.FAILED:
        assert not any(one.condemns or one.fatal for one in has)
