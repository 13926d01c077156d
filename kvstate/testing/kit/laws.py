"""What the kit can find, by name. The first part of a name is the law of `docs/design.md` that is broken."""

from __future__ import annotations

from typing import NamedTuple

LAWS = {
    "L1.verdict_once": "Somebody was told twice how a work ended, or of one that never began, or was never told.",
    "L3.no_reuse": "A block was given out, or written, while a copy or a step for somebody else still touches it.",
    "L3.one_owner": "One block stands in the tables of two requests, or twice in one.",
    "L5.failed": "What a failed copy left behind can be read.",
    "L5.condemned": "Bytes were reported bad or missing, and a new request loads them again.",
    "L6.total": "A report, a fence or the clock raised an exception.",
    "L7.wait": "A request waits for ever: everything was answered, and it was not told.",
    "L8.balance": "The engine says that more blocks can be had than there are, or fewer than none.",
    "L8.leak": "Everything has ended and was answered, and blocks are still held.",
    "L9.bytes": "A request relies on bytes that are not those of its key.",
    "L9.index": "A key is a hit below the device, and its slot does not hold its bytes.",
    "L9.stored": "A store files bytes under a key that is not theirs.",
    "L11.rest": "The engine does not come to rest: copies without end, or its own shutdown says what is left.",
    "raises": "A call of the scheduler's raised an exception.",
    "check": "The engine's own check complains.",
}
"""Every law that the kit looks at, in a sentence."""


class Violation(NamedTuple):
    """A law that was broken, and how: the `law` by its name in `LAWS`, and a `sentence` with the values."""

    law: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.law}: {self.sentence}"


class Found(Exception):  # noqa: N818, it is what the kit looks for
    """A law was broken; ends the play."""

    def __init__(self, law: str, sentence: str) -> None:
        super().__init__(f"{law}: {sentence}")
        self.violation = Violation(law, sentence)


class AdapterError(Exception):
    """The adapter does not keep to the protocol, so nothing can be said of the engine; one sentence."""
