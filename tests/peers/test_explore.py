"""Two parties, every order of events in small scopes: no law is broken, and the scopes are as large as they were."""

from __future__ import annotations

import json
from functools import cache
from typing import NamedTuple

import pytest

from kvstate.cli import run
from kvstate.explore.peers_actors import Actors
from kvstate.explore.peers_form import form_of, restore
from kvstate.explore.peers_scopes import PEER_SCOPES
from kvstate.explore.peers_search import PeersExplored, explore_peers
from kvstate.peers.hearing import Hearing
from kvstate.peers.party import Party
from kvstate.peers.records import Past
from kvstate.peers.rules import Rules
from kvstate.peers.words import Terms
from tests.peers.rig import copied, met, offered


class Pin(NamedTuple):
    """What a search of a scope to its end has to find."""

    states: int
    moves: int
    depth: int


PINS = {
    "handoff": Pin(1614, 11802, 16),
    "withdraw": Pin(6354, 48846, 17),
    "renew": Pin(7905, 71035, 20),
    "again": Pin(30021, 302385, 24),
    "ranks": Pin(6758, 56269, 18),
    "loads": Pin(888, 8395, 18),
    "lost": Pin(15040, 136921, 20),
    "bye": Pin(5382, 46181, 18),
    "greet": Pin(37348, 377904, 20),
    "strange": Pin(500, 2782, 12),
    "reborn": Pin(2442, 21366, 14),
    "producer": Pin(1165, 11120, 21),
    "undead": Pin(8569, 119094, 19),
    "consumer": Pin(1498, 17196, 23),
    "joined": Pin(12505, 177330, 23),
}
SMALL = ("handoff", "loads", "strange", "reborn", "producer", "consumer")
"""Those that are searched while one works."""
NEVER = "R44 R45 H04 H11 G07 G13"
"""Rows that fire in no scope: words that no peer of this project says, and a way that fails while a peer is greeted.
`test_party.py` and `test_links.py` come by each of them."""


@cache
def searched(name: str) -> PeersExplored:
    return explore_peers(PEER_SCOPES[name])


def test_every_scope_is_pinned() -> None:
    assert list(PEER_SCOPES) == list(PINS)


@pytest.mark.parametrize(
    "name", [name if name in SMALL else pytest.param(name, marks=pytest.mark.long) for name in PINS]
)
def test_no_law_is_broken_in_any_state(name: str) -> None:
    found = searched(name)
    assert (found.law, found.sentence, found.moves) == ("", "", ())
    assert found.finished
    assert Pin(found.states, found.transitions, found.depth) == PINS[name]


@pytest.mark.long
def test_all_rows_fire_but_these() -> None:
    fired = {row for name in PINS for row, count in searched(name).fired.items() if count}
    assert [row for row in searched("strange").fired if row not in fired] == NEVER.split()


ENDS = {
    *(("lend", "delivered", True) for _ in "1"),
    *(("lend", end, vouched) for end in ("returned", "withdrawn", "expired", "lost") for vouched in (False, True)),
    *(("borrow", end, False) for end in ("taken", "refused", "withdrawn", "expired", "lost")),
}


@pytest.mark.long
def test_every_end_is_told_somewhere() -> None:
    assert {end for name in PINS for end in searched(name).ends} == ENDS


def test_a_search_that_is_stopped_says_so() -> None:
    found = explore_peers(PEER_SCOPES["handoff"], max_states=100)
    assert not found.law
    assert not found.finished
    assert found.states >= 100


def test_a_party_is_its_form() -> None:
    """What is restored does what the original does: every field that acts is in the form."""
    wire = met()
    handoff = offered(wire)
    copied(wire, handoff)
    wire.parties["C"].tick(3)
    for name, party in wire.parties.items():
        twin = Party(party.books.terms)
        restore(twin, form_of(party))
        assert form_of(twin) == form_of(party)
        party.take_messages()
        for _ in range(12):
            for one in (party, twin):
                one.tick(one.due() or one.books.now)
            assert form_of(twin) == form_of(party)
            assert twin.take_messages() == party.take_messages()
        assert name in "PC"


def test_forms_are_worked_out_once() -> None:
    actors = Actors(Rules())
    form = actors.born(Terms("P", 1, "f"))
    assert actors.step(form, ("greet", "C")) is actors.step(form, ("greet", "C"))
    assert actors.fired()["G09"] == 1


# --- What is broken is found ----------------------------------------------------------------------------------------


def any_answer(self: Hearing, link: object, word: object) -> None:
    """An answer counts for whatever question is open about the handoff: the number is not looked at."""
    from kvstate.peers.tables.check import Event as V
    from kvstate.peers.words import Handoff, Word

    assert isinstance(word, Word)
    handoff = Handoff(word.life, word.number)
    for check in list(self.books.checks.values()):
        for nonce in [nonce for nonce, one in check.waiting.items() if one == handoff]:
            del check.waiting[nonce]
            self.rows.fire(check, V.VOUCHED if word.say == "vouch" else V.DENIED)


def believed(self: Hearing, *arguments: object) -> None:
    """Every hello that fits is believed."""
    letter, hello = arguments
    link = self._linked(letter.name, letter.life)  # type: ignore[attr-defined]
    if link is not None:
        known(self, letter, hello._replace(echo=link.challenge))  # type: ignore[attr-defined, arg-type]


known = Hearing._hello


def anybody(self: Hearing, peer: str, life: int) -> object:
    """Lives are not told apart: whoever speaks under a name is who was met under it."""
    for link in self.books.links:
        if link.peer == peer:
            link.life = life
            return link
    return None


def remembers_nothing(self: Past, number: int) -> bool:
    """What is over is forgotten."""
    return False


PLANTS = [
    ("_answer", any_answer, "again", "P2.bytes"),
    ("_hello", believed, "undead", "P5.life"),
    ("link", anybody, "producer", "P5.life"),
]


@pytest.mark.parametrize(("method", "plant", "scope", "law"), PLANTS, ids=[plant[0] for plant in PLANTS])
def test_a_party_that_forgets_what_it_is_about_is_caught(
    method: str, plant: object, scope: str, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hearing, method, plant)
    found = explore_peers(PEER_SCOPES[scope], max_states=20_000)
    assert found.law == law, found.sentence
    assert found.moves


def test_a_handoff_that_is_forgotten_begins_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Past, "has", remembers_nothing)
    assert explore_peers(PEER_SCOPES["handoff"]).law == "P1.one_end"


# --- The command ----------------------------------------------------------------------------------------------------


def test_the_command_says_how_large_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "--peers", "--scope", "strange", "--scope", "loads"]) == 0
    out = capsys.readouterr().out
    assert "500" in out
    assert "PASSED: no law was broken; every scope was searched to its end." in out
    assert run(["explore", "--peers", "--scope", "handoff", "--max-states", "50", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["scopes"][0]["finished"], told["scopes"][0]["violation"]) == (False, None)
    assert run(["explore", "--peers", "--scope", "handoff", "--max-states", "50"]) == 0
    assert "not searched to the end: handoff" in capsys.readouterr().out


def test_the_command_tells_the_way_to_a_broken_law(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Past, "has", remembers_nothing)
    assert run(["explore", "--peers", "--scope", "handoff"]) == 1
    told = capsys.readouterr()
    assert "  1. offer\n" in told.out
    assert "FAILED: handoff breaks P1.one_end in" in told.err


def test_what_the_command_does_not_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "--peers", "--scope", "handof"]) == 2
    assert "two peers have no scope 'handof'; did you mean handoff?" in capsys.readouterr().err
    assert run(["explore", "--peers", "--break", "timeout-frees"]) == 2
    assert "--peers goes with --scope, --max-states and --json alone" in capsys.readouterr().err
