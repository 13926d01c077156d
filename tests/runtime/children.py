"""What runs in the worker processes of the tests: a module of its own, since a child imports what it is sent."""

from __future__ import annotations

import time

from kvstate.machines.messages import Work
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.processes import Guest
from kvstate.runtime.worker import Worker
from tests.runtime.parts import pools


def guest(rank: int, incarnation: int) -> Guest:
    """A worker whose copies take no time, and a program beside it that says back what it is told."""
    inbox = Inbox()
    said: list[bytes] = []

    def answers() -> list[bytes]:
        told, said[:] = list(said), []
        return told

    worker = Worker(rank, incarnation, {"cpu": ThreadCopier(pools(), inbox)}, inbox)
    return Guest(worker, said.append, answers)


def slow(rank: int, incarnation: int) -> Guest:
    """A worker whose copies do not end while a test lasts."""
    inbox = Inbox()

    def on_land(work: Work, when: float) -> None:
        time.sleep(600.0)

    return Guest(Worker(rank, incarnation, {"cpu": ThreadCopier(pools(), inbox, on_land=on_land)}, inbox))


def broken(rank: int, incarnation: int) -> Guest:
    """A worker that can't begin."""
    raise MemoryError(f"no room for rank {rank}")
