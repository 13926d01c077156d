"""Worker processes: they start, copy, are stopped, killed and started again, and none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome, Report, Token, Work
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.processes import Build, ProcessLink
from tests.runtime import children
from tests.runtime.parts import key, part
from tests.tidy.files import ROOT

PATIENCE = 60.0
"""Seconds after which what has not happened never will; nothing here takes more than some of them."""
pytestmark = pytest.mark.slow


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def store(serial: int) -> Work:
    return part(Kind.STORE, [0], [32], [key(serial)], serial)


@pytest.fixture
def started() -> Iterator[Callable[[Build], ProcessLink]]:
    """Starts workers of rank 0, and ends them."""
    links: list[ProcessLink] = []

    def start(build: Build) -> ProcessLink:
        links.append(ProcessLink(build, 0, len(links) + 1, Inbox()))
        return links[-1]

    yield start
    for link in links:
        link.stop(0.0)
        assert link.process.exitcode is not None


def heard(link: ProcessLink) -> list[Report]:
    until(lambda: len(link._inbox))
    return link._inbox.drain(100)


def test_a_worker_copies_answers_and_ends_by_itself(started: Callable[[Build], ProcessLink]) -> None:
    link = started(children.guest)
    assert link.ready(PATIENCE)
    link.tell(b"first")
    link.give([store(1)])
    assert heard(link) == [Report(Token(1, 1), Outcome.DONE)]
    assert list(link.answers) == [b"first"], "what the program said before the report is there before it"
    assert list(link.fence()) == [("cpu", 1)]
    assert (link.lost, link.troubles) == ("", [])
    assert link.stop(PATIENCE)
    assert link.process.exitcode == 0
    assert link.lost == "the worker of rank 0 (life 1) ended with status 0"
    assert not link.ready(0.0)


def test_a_worker_that_is_killed_in_the_middle_of_a_copy(started: Callable[[Build], ProcessLink]) -> None:
    link = started(children.slow)
    assert link.ready(PATIENCE)
    link.give([store(1)])
    with pytest.raises(TimeoutError, match=r"rank 0 has not answered a fence within 0\.05 s; nothing is proved"):
        list(link.fence(0.05))
    assert link.lost == ""
    link.kill()
    until(lambda: link.lost)
    assert link.lost == "the worker of rank 0 (life 1) was ended by signal 9"
    assert len(link._inbox) == 0, "what it had is over, and nobody says so but its end"
    link.give([store(2)])
    (report,) = heard(link)
    assert (report.token, report.outcome) == (Token(1, 2), Outcome.FAILED)
    assert [failure.code for failure in report.failures] == [Code.PEER_LOST]
    assert list(link.fence()) == [], "what is gone proves nothing by a fence"
    again = started(children.guest)
    again.give([store(3)])
    assert heard(again) == [Report(Token(1, 3), Outcome.DONE)]
    assert again.incarnation == 2


def test_a_worker_that_does_not_end_is_ended(started: Callable[[Build], ProcessLink]) -> None:
    link = started(children.slow)
    assert link.ready(PATIENCE)
    os.kill(link.process.pid or 0, signal.SIGSTOP)
    link.give([store(1)])  # a worker that stands still holds nobody up
    assert link.lost == ""
    assert not link.stop(0.1)
    assert link.process.exitcode == -signal.SIGKILL
    assert not link.stop(0.1), "and it may be said again"


def test_a_worker_that_cannot_begin_says_why(started: Callable[[Build], ProcessLink]) -> None:
    link = started(children.broken)
    assert not link.ready(PATIENCE)
    until(lambda: link.lost)
    assert link.lost == "the worker of rank 0 (life 1) ended with status 1"
    assert link.troubles == ["the worker of rank 0 could not begin: MemoryError: no room for rank 0"]


ORPHAN = """
import os, sys
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.processes import ProcessLink
from tests.runtime import children

if __name__ == "__main__":
    link = ProcessLink(children.guest, 0, 1, Inbox())
    assert link.ready(60.0)
    print(link.process.pid, flush=True)
    os._exit(3)
"""


def test_a_worker_whose_parent_is_gone_ends(tmp_path: Path) -> None:
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    pid = int(done.stdout)
    until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
