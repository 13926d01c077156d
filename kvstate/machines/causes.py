"""The cause that stands in a verdict where nobody gave one (law L10: every failure says why)."""

from __future__ import annotations

from collections.abc import Sequence

from kvstate.errors import Code, KVError
from kvstate.machines.messages import Failure, Kind, Outcome

STAGES = {Kind.STORE: "store", Kind.PERSIST: "store", Kind.FETCH: "fetch", Kind.VERIFY: "verify", Kind.SEEK: "lookup"}
"""The stage at which a part of each kind fails, where its report does not say."""


def silent(kind: Kind, outcome: str) -> Failure:
    """The failure of a part whose report gave none."""
    code = {Outcome.TIMEOUT: Code.LOAD_TIMEOUT, Outcome.CANCELLED: Code.CANCELLED}.get(Outcome(outcome), Code.UNKNOWN)
    if outcome == Outcome.DONE:  # and yet it is a failure: it was tainted
        return Failure(-1, int(Code.BLOCK_TAKEN), STAGES[kind], message="done, and its block was given away meanwhile")
    return Failure(-1, int(code), STAGES[kind], message=f"the worker reported {outcome} and gave no reason")


def unanswered(code: Code, stage: str) -> KVError:
    """Why a job or load ended where no part of it is to blame: its time was up, or it was called off."""
    reason = "no answer by the deadline" if code is Code.LOAD_TIMEOUT else "called off before its deadline"
    return KVError.of(Failure(-1, int(code), stage, message=reason))


def in_order(end: KVError, errors: Sequence[KVError]) -> list[KVError]:
    """The causes and the end of the wait: behind what failed before it, and before the echo of our own cancel."""
    first = next((place for place, error in enumerate(errors) if error.code is Code.CANCELLED), len(errors))
    return [*errors[:first], end, *errors[first:]]
