"""What a scheduler tells a rank of its peers, as values and as bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.codec import CodecError
from kvstate.machines.messages import Adopt
from kvstate.runtime.memory import Memory, NoSuchBlockError, Pool
from kvstate.runtime.peers.layout import decode, layout_of
from kvstate.runtime.peers.routes import Leave, Meet, PeerItem, Route, Routes, decode_item, encode_item, route_of
from kvstate.runtime.peers.transport import DescriptionError

SUM = bytes(range(16))
GOOD: list[PeerItem] = [
    Meet("prefill-0", 2**62, b"\x00\xff description"),
    Leave("prefill-0", 0),
    Route((5, 6), "prefill-0", 3, (1, 0), (SUM, SUM[::-1])),
    Route((), "p", 1, (), ()),
]


@pytest.mark.parametrize("item", GOOD, ids=lambda item: type(item).__name__)
def test_they_come_through_as_they_were(item: PeerItem) -> None:
    assert decode_item(encode_item(item)) == item


@pytest.mark.parametrize(
    "item",
    [
        Meet("p", -1, b""),
        Meet("p", 2**63, b""),
        Leave("p", True),
        Route((1,), "p", 1, ()),
        Route((1, 2), "p", 1, (1, 2), (SUM,)),
        Route((1,), "p", 1, (1,), (b"short",)),
        Route((-1,), "p", 1, (1,)),
    ],
)
def test_what_makes_no_sense_is_not_sent(item: PeerItem) -> None:
    with pytest.raises(CodecError):
        encode_item(item)


@given(st.binary(max_size=60) | st.recursive(
    st.none() | st.integers() | st.text(max_size=9), lambda one: st.lists(one, max_size=4), max_leaves=9
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_arbitrary_bytes_are_refused_in_one_sentence(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_item(data)
    with pytest.raises(DescriptionError):
        decode(data, layout_of("loop", Memory([Pool("device", 0, 1, 8)]), {}))


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("bad", [None, True, -1, "x", [1], {}])
def test_each_word_of_a_message_is_looked_at(place: int, bad: Any) -> None:
    for item in GOOD:
        fields = json.loads(encode_item(item))
        fields[place] = bad
        with pytest.raises(CodecError):
            decode_item(json.dumps(fields).encode())


def test_handles_lie_in_their_pool() -> None:
    routes = Routes(100, 2, "peer")
    routes.route(route_of([101], "p", 1, [7]))
    assert routes.at(101) is None
    routes.adopt(Adopt(0, "peer", (101,), ("a",), (b"k",)))
    handle = routes.at(101)
    assert handle is not None
    assert (handle.peer, handle.life, handle.remote, handle.sum, handle.space, handle.key) == (
        "p",
        1,
        7,
        b"",
        "a",
        b"k",
    )
    assert len(routes) == 1
    for block in (99, 102):
        with pytest.raises(NoSuchBlockError, match="peer's 2 from 100 on"):
            routes.at(block)
        with pytest.raises(NoSuchBlockError):
            routes.route(route_of([block], "p", 1, [7]))


def test_a_layout_says_which_piece_lies_where() -> None:
    ours = layout_of("loop", Memory([Pool("device", 0, 3, 64), Pool("host", 10, 2, 64)]), {"a": 1})
    theirs = decode(ours.encode(), ours)
    assert theirs == ours
    assert theirs.plan_of(2) == ours.plans[0]
    assert theirs.plan_of(10) == ours.plans[1]
    assert [theirs.plan_of(block) for block in (-1, 3, 9, 12)] == [None] * 4
    assert [theirs.missing(blocks) for blocks in ((), (0, 2), (10, 11), (2, 10, 0))] == [None] * 4
    assert [theirs.missing(blocks) for blocks in ((3, 0), (0, 3, 9), (0, -1), (11, 12), (0, 11, 12))] == [
        3,
        3,
        -1,
        12,
        12,
    ]
    held = [theirs.plans[1].holds(blocks) for blocks in ((), (10, 11), (9, 10), (11, 12))]
    assert held == [True, True, False, False]
    cut = ours.plans[0].cut(((0, 16), (16, 48)))
    assert cut is not None
    assert [(row.address - ours.plans[0].rows[0].address, row.length, row.stride) for row in cut] == [
        (0, 16, 64),
        (16, 48, 64),
    ]
    with pytest.raises(DescriptionError, match="pulls over 'gloo'"):
        decode(ours.encode(), ours._replace(transport="gloo"))
