"""The same incidents where the engine allocates the device blocks: with one that waits, and with one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvstate.testing import ScenarioError, parse, play
from tests.scenarios.spec_mutants import changed
from tests.scenarios.test_scenarios import read

FILES = sorted((Path(__file__).parent / "foreign").glob("*.txt"))
RETOLD = ["i01", "i04", "i05", "i08", "i13"]


def test_each_is_retold_once() -> None:
    assert [path.stem.partition("-")[0] for path in FILES] == RETOLD


@pytest.mark.parametrize(
    ("incident", "row", "change", "law"),
    [
        ("i04", "P06", {"to": "landed", "effects": ("let_go", "ok")}, "L9.bytes: K1 names h3, which holds K9 by r2/1"),
        ("i04", "E06", {"effects": ("pull",)}, "L9.bytes: K1 names h3, which holds K9 by r2/1"),
        ("i05", "E04", {"to": "outside", "effects": ("pull",)}, "row E22 is among the rows that answer"),
        ("i08", "E04", {"effects": ("hold",)}, "row X20 is among the rows that answer"),
        ("i13", "P14", {"unset": "tainted"}, "L9.bytes: K1 names h3, which holds K9 by r2/1"),
    ],
)
def test_a_law_is_seen_broken_whatever_the_file_says(incident: str, row: str, change: dict[str, Any], law: str) -> None:
    path = FILES[RETOLD.index(incident)]
    problems = play(read(path), machines=changed(row, **change)).problems
    assert any(law in problem for problem in problems), problems


LATE = """# A store of what a stray load may have written

ledger device=b7 foreign host=h3,h4
given K1 in host
open r1 r2
engine gives r1 b7
lookup r1 K1
load r1 into b7
engine reuses r2 b7
compute r2 b7=K9
land t3
deliver t3
offload r2 b7=K9
----
"""


def test_without_the_stain_the_wrong_bytes_get_a_name() -> None:
    """The stray load lands after the new owner has computed, and is over when it asks for the store."""
    assert not play(parse(LATE, "late.txt")).problems
    text = LATE.replace("offload r2 b7=K9\n", "offload r2 b7=K9\nland t4\ndeliver t4\n")
    problems = play(parse(text, "late.txt"), machines=changed("E06", unset="stained")).problems
    assert any("L9.bytes: K9 names h4, which holds K1 by past" in problem for problem in problems), problems


# -- the commands ------------------------------------------------------------------------------------------------------

BEGIN = "# A slip\n\nledger device=b0,b1 foreign host=h0\nopen r1\nengine gives r1 b0\n{}\n----\n"
SLIPS = {
    "engine takes b0": "an engine gives, reuses or frees, and does not 'takes'",
    "engine gives r2 b1": "there is no request r2",
    "engine frees b9": "there is no block b9",
    "engine frees": "it has too few words",
}


@pytest.mark.parametrize("line", SLIPS)
def test_a_slip_of_the_pen_is_told(line: str) -> None:
    with pytest.raises(ScenarioError, match=SLIPS[line]):
        play(parse(BEGIN.format(line), "slip.txt"))


def test_an_engine_without_an_allocator_gives_nothing() -> None:
    with pytest.raises(ScenarioError, match="the device pool is the ledger's own"):
        play(parse("# A slip\n\nledger device=b0 host=h0\nopen r1\nengine gives r1 b0\n----\n", "slip.txt"))


def test_what_is_refused_is_told() -> None:
    lines = "engine gives r1 h0\ncompute r1 h0=K1\nallocate r1 1\ndrain\nengine gives r1 b1\nshow b0 free"
    text = play(parse(BEGIN.format(lines), "refused.txt")).text
    assert "refused: there is no device h0; there are 2, numbered from 0" in text
    assert "r1/1 gets b1@1" in text, "what it reports while we drain is heard"
    assert "r1/1 does not own h0 as an open block, so it writes nothing" in text
    assert "refused: the engine allocates the device blocks" in text


def test_after_a_poison_nothing_is_heard() -> None:
    lines = "offload r1 b0=K1\ndeliver t1 DEVICE_ERROR\nengine gives r1 b1\nengine frees b0\nexpect fatal"
    text = play(parse(BEGIN.format(lines), "fatal.txt")).text
    assert text.count("refused: the ledger is poisoned") == 2
