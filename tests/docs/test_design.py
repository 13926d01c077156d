"""The page about the design says what is so: laws, assumptions, and the rows that one offload and one load fire."""

from __future__ import annotations

import re
import tomllib

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Outcome, Report, Work
from kvstate.machines.verdicts import Ending, Grant, Hit, JobVerdict, LoadVerdict
from tests.tidy.files import ROOT

TEXT = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
PROPERTIES = tomllib.loads((ROOT / "spec" / "properties.toml").read_text(encoding="utf-8"))
KEY = b"K" * 16


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def told(title: str) -> list[tuple[str, list[str]]]:
    """The table of a section: what comes in, and the rows beside it."""
    cells = [line.strip("|").split("|") for line in section(title).splitlines() if line.startswith("|")]
    return [(first.strip(), rows.split()) for first, rows, _ in cells[2:]]


class Watched:
    """A ledger whose rows are written down, input by input."""

    def __init__(self) -> None:
        self.ledger = Ledger(LedgerConfig((PoolConfig("device", 1), PoolConfig("host", 1, verify=True))))
        self.rows: list[str] = []
        self.seen: list[tuple[str, list[str]]] = []
        for port in self.ledger.core.ports.ports.values():
            port.sink = lambda machine, slots, row, before, after: self.rows.extend([row] * len(slots))

    def after(self, name: str) -> None:
        """All that fired since the last time was for this input."""
        self.seen.append((name, self.rows.copy()))
        self.rows.clear()

    def forget(self) -> None:
        self.rows.clear()
        self.seen.clear()

    def open(self) -> int:
        lease = self.ledger.open("tenant")
        assert isinstance(lease, int)
        self.after("open")
        return lease

    def allocate(self, lease: int) -> Grant:
        grant = self.ledger.allocate(lease, 1)
        assert isinstance(grant, Grant)
        self.after("allocate")
        return grant

    def sent(self) -> Work:
        (work,) = self.ledger.take_effects()
        assert isinstance(work, Work)
        return work

    def done(self, work: Work, name: str) -> None:
        self.ledger.report(Report(work.token, Outcome.DONE))
        self.after(f"done, of the {name}")


def offloaded() -> Watched:
    run = Watched()
    lease = run.open()
    grant = run.allocate(lease)
    run.ledger.step_dispatched(1, [lease])
    run.after("step_dispatched")
    run.ledger.seal(lease, grant.blocks, [KEY])
    run.after("seal")
    run.ledger.offload(lease, grant.blocks)
    run.after("offload")
    run.ledger.finish(lease)
    run.after("finish")
    run.ledger.step_retired(1)
    run.after("step_retired")
    run.done(run.sent(), "store")
    (verdict,) = run.ledger.take_verdicts()
    assert isinstance(verdict, JobVerdict)
    assert verdict.ending is Ending.COMMITTED
    return run


def evicted() -> tuple[Watched, int, Hit]:
    """The key is in the lower tier alone, and another lease has hit it there."""
    run = offloaded()
    other = run.open()
    run.allocate(other)
    run.ledger.finish(other)
    lease = run.open()
    run.forget()
    hit = run.ledger.lookup(lease, [KEY])
    assert isinstance(hit, Hit)
    run.after("lookup")
    return run, lease, hit


def test_the_path_of_an_offload() -> None:
    assert told("One offload, row by row") == offloaded().seen


def test_the_path_of_a_load() -> None:
    run, lease, hit = evicted()
    grant = run.allocate(lease)
    run.ledger.load(lease, hit, grant.blocks, deadline=5.0)
    run.after("load")
    run.done(run.sent(), "fetch")
    run.done(run.sent(), "check")
    verdict, _ = run.ledger.take_verdicts()
    assert isinstance(verdict, LoadVerdict)
    assert verdict.ending is Ending.PROCEED
    run.ledger.finish(lease)
    run.after("finish")
    assert told("One load, row by row") == run.seen


def test_the_path_of_a_load_whose_lease_closes() -> None:
    run, lease, hit = evicted()
    grant = run.allocate(lease)
    run.ledger.load(lease, hit, grant.blocks, deadline=5.0)
    work = run.sent()
    run.forget()
    run.ledger.abort(lease)
    run.after("abort")
    run.done(work, "fetch")
    (_, aborted), (_, over) = run.seen
    paragraph = section("One load, row by row").partition("Had the lease been closed")[2]
    assert re.findall(r"\b[A-Z]\d\d\b", paragraph) == [*aborted, "B37"]
    assert "B37" in over


def test_laws_and_assumptions_are_those_of_the_spec() -> None:
    laws = re.findall(r"(?m)^\| (L\d+) \| (.+?) \|", section("The laws"))
    assert laws == [(law["name"], law["title"]) for law in PROPERTIES["law"]]
    assumed = re.findall(r"`([a-z]+\.[a-z]+)`", section("What is assumed"))
    assert assumed == [assumption["name"] for assumption in PROPERTIES["assumption"]]
