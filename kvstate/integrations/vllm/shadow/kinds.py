"""What can be seen to go wrong, and the property of `spec/properties.toml` that it breaks."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """What was seen. The values stand in metrics, logs and records, and stay."""

    RAISED = "raised"
    SECOND_REPORT = "second_report"
    UNKNOWN_REPORT = "unknown_report"
    GIVEN_AWAY = "given_away"
    SLOT_REUSED = "slot_reused"
    WAIT_UNPROVED = "wait_unproved"
    UNFIT_SOURCE = "unfit_source"
    LISTED_TWICE = "listed_twice"
    NOT_COMMITTED = "not_committed"
    FAILURE_AS_SUCCESS = "failure_as_success"
    ENDLESS = "endless"
    LEFT_BEHIND = "left_behind"
    PUT_OFF = "put_off"


class Meaning(NamedTuple):
    """Of a kind."""

    law: str
    """The property that is broken, by its name in `spec/properties.toml`."""
    sentence: str
    """What was seen, for people."""


MEANINGS: Final[dict[Kind, Meaning]] = {
    Kind.RAISED: Meaning("L6.total", "An exception left a hook of the stock connector."),
    Kind.SECOND_REPORT: Meaning("L2.stale_counted", "A job that was over was reported as completed again."),
    Kind.UNKNOWN_REPORT: Meaning("L2.unknown", "A job was reported as completed that nobody has begun."),
    Kind.GIVEN_AWAY: Meaning("L3.no_reuse", "A device block was given to another request under a copy."),
    Kind.SLOT_REUSED: Meaning("L3.no_reuse", "A host slot was given to another job under a copy."),
    Kind.WAIT_UNPROVED: Meaning("L3.hold", "A wait for a copy has returned, and the copy was not over."),
    Kind.UNFIT_SOURCE: Meaning("L9.bytes", "A block was stored that a copy still fills, or may have spoiled."),
    Kind.LISTED_TWICE: Meaning("L9.bytes", "A job lists one block twice: two keys for the bytes of one block."),
    Kind.NOT_COMMITTED: Meaning("L9.bytes", "A load reads a host slot whose bytes are not known to be whole."),
    Kind.FAILURE_AS_SUCCESS: Meaning("L2.identity", "A copy has failed, and was told as completed."),
    Kind.ENDLESS: Meaning("L7.clock", "A job has no end within the deadline."),
    Kind.LEFT_BEHIND: Meaning("L11.home", "A job has no end within the deadline, and its request is gone."),
    Kind.PUT_OFF: Meaning("L7.clock", "A request was put off by its lookups for longer than the deadline."),
}
"""What each kind means."""


class Violation(NamedTuple):
    """One that was seen, of this `kind`."""

    kind: Kind
    sentence: str
    """Who and what; it begins with the record that it is about: `part 12 is ...`."""
    seconds: float
    """When, in the observer's time."""

    @property
    def law(self) -> str:
        """The property that is broken."""
        return MEANINGS[self.kind].law
