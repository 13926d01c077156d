"""The link between schedulers: messages both ways, peers that come, go, stop and are somebody else."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from time import monotonic, sleep
from typing import Any

import pytest

from kvstate.runtime.peers.handshake import MAX_FRAME, Handshake, HandshakeError, framed
from kvstate.runtime.peers.link import Link, LinkLike

SECRET = b"of the tests"
PATIENCE = 30.0


@contextmanager
def link(name: str, **options: Any) -> Iterator[Link]:
    made = Link(name, **{"secret": SECRET, **options})
    try:
        yield made
    finally:
        made.close()


def until(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    end = monotonic() + seconds
    while not what():
        assert monotonic() < end, "it does not come to that"
        sleep(0.005)


def heard(one: LinkLike, count: int, seconds: float = PATIENCE) -> list[tuple[str, bytes]]:
    """So many messages, as they come."""
    found: list[tuple[str, bytes]] = []

    def enough() -> bool:
        found.extend(one.receive())
        return len(found) >= count

    until(enough, seconds)
    return found


def test_messages_go_both_ways_whoever_called() -> None:
    with link("a") as a, link("b", listen=None) as b:
        assert b.address == ("", 0)
        a.send("b", b"before b is there")
        b.meet("a", a.address)
        b.send("a", b"hello")
        assert heard(a, 1) == [("b", b"hello")]
        assert heard(b, 1) == [("a", b"before b is there")]
        big = bytes(range(256)) * 4096 * 3
        a.send("b", big)
        a.send("b", b"")
        assert heard(b, 2) == [("a", big), ("a", b"")]
        assert (a.connected(), b.connected()) == (("b",), ("a",))
        assert (a.counts.sent, a.counts.received, a.counts.dropped) == (3, 1, 0)


def test_both_may_call_each_other() -> None:
    with link("a") as a, link("b") as b:
        a.meet("b", b.address)
        b.meet("a", a.address)
        until(lambda: a.connected() and b.connected())
        for number in range(200):
            a.send("b", b"%d" % number)
            b.send("a", b"%d" % number)
            sleep(0.001)
        expected = {b"%d" % number for number in range(200)}
        assert {message for _, message in heard(a, 200)} == expected
        assert {message for _, message in heard(b, 200)} == expected


def test_the_oldest_is_dropped_for_a_peer_that_is_not_there() -> None:
    with link("a", most=3) as a, link("b", listen=None) as b:
        for number in range(10):
            a.send("b", b"%d" % number)
        assert a.counts.dropped == 7
        b.meet("a", a.address)
        assert [message for _, message in heard(b, 3)] == [b"7", b"8", b"9"]


def test_a_peer_that_comes_again_under_its_name_is_talked_to() -> None:
    with link("a") as a:
        address = a.address
        for life in (b"1", b"2", b"3"):
            with link("b", listen=None) as b:
                b.meet("a", address)
                b.send("a", life)
                assert heard(a, 1) == [("b", life)]
                a.send("b", b"to " + life)
                assert heard(b, 1) == [("a", b"to " + life)]
            until(lambda: not a.connected())


def test_a_listener_that_comes_again_is_found() -> None:
    with link("b", listen=None) as b:
        first = Link("a", secret=SECRET)
        b.meet("a", first.address)
        b.send("a", b"1")
        assert heard(first, 1) == [("b", b"1")]
        first.close()
        until(lambda: not b.connected())
        with link("a", listen=first.address) as second:
            b.send("a", b"2")
            assert heard(second, 1) == [("b", b"2")]


def test_who_does_not_know_the_secret_is_not_heard() -> None:
    with link("a") as a, link("b", listen=None, secret=b"another") as b:
        b.meet("a", a.address)
        b.send("a", b"let me in")
        until(lambda: a.counts.refused and b.counts.refused)
        assert a.receive() == []
        assert a.connected() == ()


def test_somebody_else_at_the_address_is_not_taken_for_the_peer() -> None:
    with link("c") as c, link("b", listen=None) as b:
        b.meet("a", c.address)
        b.send("a", b"for a alone")
        until(lambda: b.counts.refused)
        assert c.receive() == []


@pytest.mark.parametrize("noise", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, (5).to_bytes(4, "big") + b"hello"])
def test_noise_ends_its_own_connection_and_no_other(noise: bytes) -> None:
    with link("a") as a, link("b", listen=None) as b:
        with socket.create_connection(a.address) as sock:
            sock.sendall(noise)
            sock.settimeout(PATIENCE)
            if noise:
                while sock.recv(4096):
                    pass
        b.meet("a", a.address)
        b.send("a", b"1")
        assert heard(a, 1) == [("b", b"1")]


def test_a_frame_that_is_too_long_ends_its_connection() -> None:
    with link("a") as a:
        with pytest.raises(ValueError, match="too long for a link"):
            a.send("b", bytes(MAX_FRAME + 1))
        with socket.create_connection(a.address) as sock:
            sock.settimeout(PATIENCE)
            hands = Handshake("b", SECRET, dialled=True)
            sock.sendall(framed(hands.begin()))
            while not hands.peer:
                size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
                answer = hands.hear(sock.recv(size, socket.MSG_WAITALL))
                if answer is not None:
                    sock.sendall(framed(answer))
            until(lambda: a.connected() == ("b",))
            sock.sendall((MAX_FRAME + 1).to_bytes(4, "big"))
            assert sock.recv(1) == b""
        until(lambda: a.connected() == ())


def test_a_handshake_can_not_be_played_back_or_turned_round() -> None:
    one, other = Handshake("a", SECRET, dialled=True), Handshake("b", SECRET, dialled=False)
    hello, greeting = one.begin(), other.begin()
    proof, answer = one.hear(greeting), other.hear(hello)
    assert proof is not None
    assert answer is not None
    with pytest.raises(HandshakeError):
        one.hear(proof)  # its own, sent back
    assert other.hear(proof) is None
    assert other.peer == "a"
    third = Handshake("b", SECRET, dialled=False)
    third.hear(hello)
    with pytest.raises(HandshakeError):
        third.hear(proof)  # of another time
    with pytest.raises(ValueError, match="needs a secret"):
        Handshake("a", b"", dialled=True)


def _talk(pipe: Connection, address: tuple[str, int]) -> None:
    with link("child", listen=None) as child:
        child.meet("a", address)
        child.send("a", b"here")
        pipe.recv()
        found = heard(child, 1)
        pipe.send(found[-1])


def test_a_stopped_peer_holds_up_nobody() -> None:
    """1. the child is stopped. 2. far more is sent to it than any socket holds; every send returns at once. 3. another
    peer is talked to meanwhile. 4. the child goes on, and hears the newest; the oldest of what waited are dropped."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with link("a", most=64) as a, link("b", listen=None) as b:
        child = context.Process(target=_talk, args=(theirs, a.address), daemon=True)
        child.start()
        assert heard(a, 1, 120.0) == [("child", b"here")]
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)
        longest = 0.0
        for number in range(400):
            begin = monotonic()
            a.send("child", b"%d " % number + bytes(1 << 17))
            longest = max(longest, monotonic() - begin)
            sleep(0.001)
        assert longest < 1.0
        assert a.counts.dropped > 0
        b.meet("a", a.address)
        b.send("a", b"meanwhile")
        assert heard(a, 1) == [("b", b"meanwhile")]
        os.kill(child.pid, signal.SIGCONT)
        ours.send("go on")
        assert ours.poll(PATIENCE)
        assert ours.recv()[0] == "a"
        child.join(PATIENCE)


def test_somebody_is_woken() -> None:
    bells: list[int] = []
    with link("a", wake=lambda: bells.append(1)) as a, link("b", listen=None) as b:
        b.meet("a", a.address)
        b.send("a", b"1")
        until(lambda: bells)
    assert not a._thread.is_alive()
    a.close()
    a.send("b", b"into the void")


def test_what_waits_is_sent_before_a_close() -> None:
    with link("a") as a:
        b = Link("b", listen=None, secret=SECRET)
        b.meet("a", a.address)
        until(lambda: b.connected())
        for number in range(50):
            b.send("a", b"%d" % number)
        b.close()
        assert len(heard(a, 50)) == 50


def test_what_makes_no_link_is_refused() -> None:
    for options in ({"secret": b""}, {"most": 0}):
        with pytest.raises(ValueError, match="a link needs"):
            Link("a", **{"secret": SECRET, **options})  # type: ignore[arg-type]
