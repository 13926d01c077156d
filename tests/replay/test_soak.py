"""The soak sees what grows, and its rounds have all the trouble that they are to have."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvstate.replay.config import CHAOS
from tests.replay.soak import config_of, grown, look

FLAT = {"rss": 100 << 20, "files": 6, "threads": 1, "children": 0}


def test_what_stays_as_it_is_has_not_grown() -> None:
    early = [{**FLAT, "rss": 60 << 20}] * 5  # caches fill
    assert grown(early + [FLAT] * 15) == []
    assert grown([FLAT] * 3 + [{**FLAT, "files": 7, "children": 1}] + [FLAT] * 4) == [], "it was there and went"


@pytest.mark.parametrize(("what", "value"), [("rss", 110 << 20), ("files", 7), ("threads", 2), ("children", 1)])
def test_what_grows_is_seen(what: str, value: int) -> None:
    assert len(grown([FLAT] * 12 + [{**FLAT, what: value}] * 8)) == 1


def test_a_look_sees_an_open_file(tmp_path: Path) -> None:
    before = look()
    with (tmp_path / "file").open("w"):
        assert look()["files"] == before["files"] + 1
    assert look()["files"] == before["files"]
    assert before["rss"] > 1 << 20


def test_the_rounds_have_every_trouble(tmp_path: Path) -> None:
    rounds = [config_of(number, 7, tmp_path) for number in range(8)]
    assert all(getattr(one, name) == rate for one in rounds for name, rate in CHAOS.items())
    assert {one.tiers for one in rounds} == {"through", "back"}
    assert [one.kill_workers for one in rounds] == [0, 0, 0, 3] * 2
    assert len({one.seed for one in rounds}) == 8
    assert len({one.disk for one in rounds}) == 2, "kept from round to round, for as many ranks as it was written by"
