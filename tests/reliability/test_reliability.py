"""Every line of docs/reliability.md is what comes of its fault, and no fault costs more than itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.cases import CASES, Case, run
from tests.reliability.deaths import DEATHS, die
from tests.reliability.page import PAGE, death_line, line
from tests.reliability.rig import Rig, content, rig_in

TEXT = PAGE.read_text(encoding="utf-8")


def test_there_are_faults_of_every_tier_and_stage() -> None:
    assert len(CASES) >= 40
    assert len({case.name for case in CASES}) == len(CASES)
    assert {(case.tier, case.does, case.stage) for case in CASES} >= {
        ("host", "store", "write"), ("host", "load", "fetch"), ("host", "load", "verify"),
        ("disk", "store", "write"), ("disk", "store", "commit"), ("disk", "load", "fetch"),
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_comes_of_it(case: Case, tmp_path: Path) -> None:
    found = run(case, tmp_path / "kv")
    assert not found.end.poisoned
    assert found.goes_on, "another store and load went wrong afterwards"
    assert found.bystanders, "something else was hit by it"
    assert found.end.held == {}, "blocks are held by nobody"
    assert found.end.unnamed == 0, "an object is left that no key names"
    broken = {("disk", b"on the disk")} if case.does == "load" and case.tier == "disk" else set()
    assert case.takes_tier or found.end.void <= broken, "a hit has bytes that are not its key's"
    assert "| " + " | ".join(line(case, found)) + " |" in TEXT, "run python -m tests.reliability.page, and look"


@pytest.mark.parametrize("where", DEATHS)
def test_what_comes_of_a_death(where: str, tmp_path: Path) -> None:
    found = die(where, tmp_path / "kv")
    assert not found.wrong
    assert "| " + " | ".join(death_line(where, found)) + " |" in TEXT


def test_the_look_sees_what_is_wrong(tmp_path: Path) -> None:
    """It would be worth nothing if it took the ledger's word."""
    with rig_in(tmp_path / "kv") as rig:
        good = rig.look()
        assert ("host", b"in the host") in good.hits
        assert not good.void
        rig.memory(rig.block("host", b"in the host"))[7] ^= 1
        rig.file(b"on the disk").write_bytes(b"nothing")
        bad = rig.look()
        assert bad.void == {("host", b"in the host"), ("disk", b"on the disk")}
        assert good.hits - bad.hits == bad.void
        stray = rig.file(b"nobody's")
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"x")
        assert rig.look().unnamed == 1


def test_what_is_served_is_looked_at(tmp_path: Path) -> None:
    with rig_in(tmp_path / "kv") as rig:
        assert rig.served(b"on the disk") == content(b"on the disk")
        assert isinstance(rig, Rig)
