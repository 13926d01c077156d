"""What outlives the process, told in scenarios: recovered, swept, demoted, stored twice, and undone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kvstate.machines.durables import Durables
from kvstate.testing import ScenarioError, parse, play
from kvstate.testing.objects import Objects
from tests.scenarios.test_scenarios import read

FILES = sorted((Path(__file__).parent / "durable").glob("*.txt"))
D1, D2, D3, D4, D5 = FILES


# -- a broken law is seen, whatever the file says ----------------------------------------------------------------------


def nothing_is_swept(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Durables, "_keepers", lambda self: iter(()))


def the_last_to_land_wins(mp: pytest.MonkeyPatch) -> None:
    persist = Objects.persist

    def forgetful(self: Objects, work: Any, line: int) -> str:
        self.names = {name: place._replace(serial=0) for name, place in self.names.items()}
        return persist(self, work, line)

    mp.setattr(Objects, "persist", forgetful)


def undo_by_key(mp: pytest.MonkeyPatch) -> None:
    def undo(self: Objects, undo: Any) -> list[int]:
        gone = [place.block for (_, name), place in self.names.items() if name[1] in undo.keys]
        for block in gone:
            self.vacate(undo.rank, block)
        return gone

    mp.setattr(Objects, "undo", undo)


@pytest.mark.parametrize(
    ("path", "fault", "law"),
    [
        (D2, nothing_is_swept, "L9.swept: K1 of before the reset can be found"),
        (D4, the_last_to_land_wins, "L9.bytes: K1 names d2, and has no object there"),
        (D4, undo_by_key, "L9.bytes: K1 names d2, and has no object there"),
    ],
)
def test_a_law_is_seen_broken(path: Path, fault: Any, law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    problems = play(read(path)).problems
    assert any(law in problem for problem in problems), problems


# -- the commands ------------------------------------------------------------------------------------------------------

BEGIN = "# A slip\n\nledger device=b0,b1 disk=d1,d2 keeps=disk\nopen r1\n{}\n----\n"
SLIPS = {
    "reset all": "all stands where keep should be",
    "objects now": "it has too many words",
    "ledger device=b0 host=h0 disk=d1 keeps=host": "host can't keep objects; only the lowest tier can, which is disk",
    "ledger device=b0 host=h0\nrecover": "no pool keeps objects; `ledger device=b7 disk=d1,d2 keeps=disk` makes one",
}


@pytest.mark.parametrize("line", SLIPS)
def test_a_slip_of_the_pen_is_told(line: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(SLIPS[line])):
        play(parse(BEGIN.format(line), "slip.txt"))


def test_what_was_said_to_be_found_and_is_not_there_is_seen_by_the_load() -> None:
    lines = "recover K1\nobjects\nlookup r1 K1"
    played = play(parse(BEGIN.format(lines), "liar.txt"))
    assert "K1 is taken in, by d1@0" in played.text
    assert "no objects" in played.text
    assert any("L9.bytes: K1 is a hit, and d1 holds nothing" in problem for problem in played.problems)


def test_a_reset_that_keeps_leaves_the_objects() -> None:
    lines = "given K1 in disk\nreset keep\nobjects\nrecover\nopen r2\nlookup r2 K1"
    text = play(parse(BEGIN.format(lines), "keep.txt")).text
    assert "K1 is there, held by d1" in text
    assert "r2/1 hits K1 in d" in text


def test_a_lost_rank_loses_no_object() -> None:
    lines = "given K1 in disk\nlose 1\nobjects\nrecover\nobjects\nopen r2\nlookup r2 K1"
    text = play(parse(BEGIN.format(lines).replace("keeps=disk", "keeps=disk ranks=2"), "lose.txt")).text
    assert "K1 is there, and no block holds it on rank 1" in text
    assert "held by d" in text.partition("and no block holds it on rank 1")[2]
    assert "r2/1 hits K1 in d" in text


def test_bad_bytes_are_found_by_the_fetch_and_removed() -> None:
    lines = "given K1 in disk\nlookup r1 K1\nallocate r1 1\nload r1 into b0\ncorrupt d1\nland t3\ndeliver t3\nobjects"
    text = play(parse(BEGIN.format(lines), "bad.txt")).text
    assert "d1 has junk and not K1, and lets go of it" in text
    assert "t3 broken CRC_MISMATCH: heard" in text
    assert "no objects" in text
