"""A link that loses, doubles, delays and reorders, and one in memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kvstate.runtime.peers.chaos import ChaosLink, memory_links
from kvstate.runtime.peers.link import LinkLike


def run(seed: int, count: int = 400, **chances: Any) -> tuple[list[bytes], ChaosLink]:
    """What arrives of so many messages, a tick between each, and long after the last."""
    now = [0.0]
    links = memory_links("a", "b")
    chaos = ChaosLink(links["a"], seed, clock=lambda: now[0], **chances)
    like: LinkLike = chaos
    found = []
    for number in range(count):
        like.send("b", b"%d" % number)
        now[0] += 0.01
        found += links["b"].receive()
    now[0] += 10.0
    assert chaos.receive() == []
    found += links["b"].receive()
    assert {peer for peer, _ in found} == {"a"}
    return [message for _, message in found], chaos


def test_without_chances_all_comes_in_order() -> None:
    assert run(1)[0] == [b"%d" % number for number in range(400)]


def test_some_are_lost_and_no_other() -> None:
    found, chaos = run(1, lose=0.3)
    assert chaos.lost == 400 - len(found) > 60
    assert found == sorted(found, key=int)


def test_some_come_twice() -> None:
    found, chaos = run(1, double=0.3)
    counts = Counter(found)
    assert set(counts.values()) == {1, 2}
    assert chaos.doubled == list(counts.values()).count(2) > 60


@pytest.mark.parametrize("chances", [{"delay": 0.5, "delay_for": 0.5}, {"reorder": 0.5}])
def test_some_come_late_or_in_another_order_and_none_is_lost(chances: dict[str, Any]) -> None:
    found, chaos = run(1, **chances)
    assert sorted(found, key=int) == [b"%d" % number for number in range(400)]
    assert found != sorted(found, key=int)
    assert chaos.delayed + chaos.reordered > 100


def test_the_last_one_is_not_held_back_for_ever() -> None:
    assert run(1, count=1, reorder=1.0)[0] == [b"0"]


def test_the_seed_says_it_all() -> None:
    chances: dict[str, Any] = {"lose": 0.2, "double": 0.2, "delay": 0.2, "reorder": 0.2}
    assert run(5, **chances)[0] == run(5, **chances)[0] != run(6, **chances)[0]


def test_what_is_no_chance_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lose: 1.5 is no probability"):
        ChaosLink(memory_links("a")["a"], 1, lose=1.5)


def test_nobody_hears_what_is_sent_to_a_link_that_was_closed() -> None:
    links = memory_links("a", "b")
    links["b"].close()
    for peer in ("b", "nobody"):
        links["a"].send(peer, b"1")
    assert links["b"].receive() == []
    chaos = ChaosLink(links["a"], 1)
    chaos.close()
    chaos.send("b", b"1")
    assert links["b"].receive() == []
