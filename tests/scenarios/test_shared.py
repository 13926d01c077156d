"""Pools that others write to, told in scenarios: hints that were wrong, answers that were late, what was withdrawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kvstate.machines.seek_acts import SeekActs
from kvstate.machines.shareds import Shareds
from kvstate.testing import ScenarioError, parse, play
from tests.scenarios.test_scenarios import read

FILES = sorted((Path(__file__).parent / "shared").glob("*.txt"))
H1, H2, H3, H4, H5 = FILES


# -- a broken law is seen, whatever the file says ----------------------------------------------------------------------


def a_reset_forgets_no_question(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Shareds, "_call_off", lambda self: None)


def one_rank_is_enough(mp: pytest.MonkeyPatch) -> None:
    hear = SeekActs.hear_seek

    def hasty(self: SeekActs, part: Any, effect: str) -> None:
        if part.rank == 0:
            hear(self, part, effect)
        elif (seek := self.books.seeks.by_part.get(part.slot)) is not None:
            missing = set(seek.missing)
            hear(self, part, effect)
            seek.missing = missing

    mp.setattr("kvstate.machines.acts.Acts.hear_seek", hasty)


def what_vanishes_stays(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Shareds, "vanish", lambda self, pool, names: 0)


@pytest.mark.parametrize(
    ("path", "fault", "law"),
    [
        (H2, a_reset_forgets_no_question, "L9.hint: K1 is a hit in store, and nobody said so"),
        (H3, one_rank_is_enough, "L9.hint: K2 is a hit in store, and nobody said so"),
        (H4, what_vanishes_stays, "L9.hint: K1 is a hit in peer, and nobody said so"),
    ],
)
def test_a_law_is_seen_broken(path: Path, fault: Any, law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not play(read(path)).problems
    fault(monkeypatch)
    text = path.read_text(encoding="utf-8").partition("# Step 4")[0]  # what comes after can't be played any more
    problems = play(parse(text, path.name)).problems
    assert any(law in problem for problem in problems), problems


# -- the commands ------------------------------------------------------------------------------------------------------

BEGIN = "# A slip\n\nledger device=b0,b1 store=d1,d2 shared=store\nopen r1\n{}\n----\n"
SLIPS = {
    "others have": "it has too few words",
    "others eat K1": "eat stands where have, lose or spoil should be",
    "others have K1 rank=3": "there is no rank 3; there are 1, from 0 up",
    "seek r2 K1": "there is no request r2",
    "ledger device=b0 host=h0\nannounce K1": "no pool is shared; `ledger device=b7 store=s1,s2 shared=store` makes one",
    "ledger device=b0 host=h0 shared=device": "pools: device is shared and it is the device; share a pool below",
    "ledger device=b0 host=h0 offered=peer": "peer can't be shared: it is no tier below the device",
    "ledger device=b0 host=h0 shared=host unverified": "host is shared and its blocks are taken as read",
}


@pytest.mark.parametrize("line", SLIPS)
def test_a_slip_of_the_pen_is_told(line: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(SLIPS[line])):
        play(parse(BEGIN.format(line), "slip.txt"))


ANSWERS = {
    "announce K1\nannounce K1": "nothing",
    "announce K1 space=b\nvanish K1 space=b\nvanish K1": "K1 of b is named, d1@0 stands for it\nkeys dropped: 1",
    "seek r1 K1\nseek r1 K1": "refused: nothing to seek",
    "others lose K1": "others lose K1",
    "drain\nannounce K1\nvanish K1": "refused: the ledger is draining and takes no new work\nkeys dropped: 0",
    "expect fatal\nseek r1 K1\ndeliver t1 failed DEVICE_ERROR\nvanish K1": "refused: the ledger is poisoned",
}


@pytest.mark.parametrize("lines", ANSWERS)
def test_what_a_command_answers(lines: str) -> None:
    played = play(parse(BEGIN.format(lines).replace("\nopen", "\nquietly\nopen", 0), "answer.txt"))
    text = "\n".join(line for line in played.text.splitlines() if not line.startswith("  "))
    assert ANSWERS[lines] in text
    assert not played.problems


def test_ours_is_stored_under_the_name_that_others_read() -> None:
    """Put there if nobody has it; undone if it was ours; and by no name of before, once all was swept."""
    head = "allocate r1 1\ncompute r1 b0=K1\nseal r1 b0=K1\noffload r1 b0\nland t1\ndeliver t1\n"
    more = "land t2\ndeliver t2\nopen r2\nseek r2 K1"
    assert "K1 can be found, in d1" in play(parse(BEGIN.format(head + more), "put.txt")).text
    there = play(parse(BEGIN.format("others have K1\n" + head + more), "there.txt"))
    assert "K1 stays as it is: somebody has put it there" in there.text
    swept = play(parse(BEGIN.format(head + "reset\n" + more), "swept.txt"))
    assert "K1 is not made visible" in swept.text
    gone = head + "land t2\ndeliver t2 denied\nfinish r1\nopen r2\nallocate r2 2\nseek r2 K1\nland t3"
    undone = play(parse(BEGIN.format(gone), "undone.txt"))
    assert "K1 is not there" in undone.text
    late = head + "land t2\ndeliver t2 timeout\ndeliver t2\nfinish r1\nopen r2\nallocate r2 2\nseek r2 K1\nland t3"
    assert "K1 is not there" in play(parse(BEGIN.format(late), "late.txt")).text
    assert not there.problems + swept.problems + undone.problems
