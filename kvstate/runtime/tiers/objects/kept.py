"""What a slot of a pool means that stands for an object store, and what is told of a part that went there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvstate.errors import Code
from kvstate.machines.messages import Failure, Kind, Report, Token, Work
from kvstate.runtime.copy import answer
from kvstate.runtime.tiers.objects.staging import Staged
from kvstate.runtime.tiers.objects.versions import Put
from kvstate.runtime.tiers.sealed import Header

Source = Callable[[int, str, bytes, memoryview], bool]
"""Reads a block that lies in no memory (in a file) of that space and key into this buffer; False if it is not there."""


class Kept:
    """What a slot means, from the moment in which it was given to it."""

    __slots__ = ("key", "name", "put", "said", "space", "staged", "token", "visible")

    def __init__(self, space: str, key: bytes, name: str) -> None:
        self.space = space
        """The key space."""
        self.key = key
        """The key there."""
        self.name = name
        """Of the object."""
        self.staged: Staged | None = None
        """Its bytes, as long as they are to be put."""
        self.visible = False
        """Is it in the store, as far as we know?"""
        self.put = Put()
        """What came of putting it there."""
        self.token: Token | None = None
        """Of the part that put it."""
        self.said: Header | None = None
        """What it says of itself, since it was last read."""


def told(work: Work, failures: Sequence[Failure]) -> Report:
    """The report of a part that went so. A SEEK is done if every line has an answer, and "not there" is one."""
    failures = tuple(failures)
    if work.kind == Kind.SEEK:
        lost = tuple(failure for failure in failures if failure.code != Code.BLOCK_NOT_FOUND)
        if not lost:
            return Report(work.token, answer((), proved=True), failures)
        failures = lost
    return Report(work.token, answer(failures, proved=True), failures)


def fits(work: Work) -> bool:
    """Has every line what its kind needs?"""
    lines = len(work.keys)
    shapes = {Kind.SEEK: (0, 0), Kind.PERSIST: (lines, 0)}
    return (len(work.src), len(work.dst)) == shapes.get(Kind(work.kind), (lines, lines))
