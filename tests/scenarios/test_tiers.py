"""Tiers told in scenarios: promoted, written back, short of room, and a demotion whose source is lost under it."""

from __future__ import annotations

import pytest

from kvstate.testing import ScenarioError, parse, play


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("turn", "there are no tiers yet; `tier host through` makes one"),
        ("tier tape through", "tiers[0].pool: tape is no pool below the device; there are host"),
        ("tier host often", "write: 'often' is none of through, back, off"),
        ("tier host through turn=0", "turn_blocks: 0 is no number of blocks; give one from 1 to"),
        ("tier host through\nopen r1\npromote r1", "no load of r1/1 has brought anything yet"),
        ("tier host through\nturn back", "back stands where flush should be"),
    ],
)
def test_a_mistake_is_one_sentence(lines: str, sentence: str) -> None:
    with pytest.raises(ScenarioError) as mistake:
        play(parse(f"# T\n\nledger device=b7 host=h3\n{lines}\n----\n", "try.txt"))
    assert sentence in str(mistake.value)


def test_a_flush_and_a_store_of_an_engine_that_names_its_blocks() -> None:
    played = play(
        parse(
            "# T\n\nquietly\nledger device=b7 host=h3 disk=d1 foreign\ntier host through\ntier disk back\nopen r1\n"
            "engine gives r1 b7\ncompute r1 b7=K1\nstore r1 b7=K1\nland t1\ndeliver t1\nturn flush\n----\n",
            "try.txt",
        )
    )
    assert not played.problems
    assert "j1 stores b7@1" in played.text
    assert "1 written back" in played.text
