"""Two or more parties and a wire between them that a test holds in its hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kvstate.machines.messages import Report, Token
from kvstate.peers.codec import decode
from kvstate.peers.party import Party
from kvstate.peers.words import (
    Action,
    Announce,
    Ended,
    Forward,
    Goods,
    Handoff,
    LetGo,
    Letter,
    Out,
    Source,
    Terms,
    Vanish,
)

LEASE, RESEND, PATIENCE = 8.0, 1.0, 3.0


def terms(name: str, life: int, **more: object) -> Terms:
    said: dict[str, object] = {"fingerprint": "model", "lease": LEASE, "resend": RESEND, "patience": PATIENCE}
    return Terms(name, life, **{**said, "renewals": 1, **more})  # type: ignore[arg-type]


def goods(*keys: bytes, request: bytes = b"r1") -> Goods:
    lines = tuple(range(len(keys)))
    return Goods(request, 16 * len(keys), ("space",) if keys else (), keys, lines, tuple(1 for _ in lines))


def say(out: Out) -> str:
    """What a message says, in a word."""
    letter = decode(out.data)
    assert isinstance(letter, Letter)
    return getattr(letter.message, "say", type(letter.message).__name__.lower())


@dataclass
class Wire:
    """Parties by name. What they send lies here until it is delivered, dropped or doubled."""

    parties: dict[str, Party] = field(default_factory=dict)
    lying: list[Out] = field(default_factory=list)
    told: dict[str, list[Action]] = field(default_factory=dict)
    now: float = 0.0

    def join(self, name: str, life: int, **more: object) -> Party:
        party = Party(terms(name, life, **more))
        party.tick(self.now)
        self.parties[name], self.told[name] = party, []
        return party

    def collect(self) -> list[Out]:
        """What was said since, which is now on the wire; what was announced is named at once."""
        fresh: list[Out] = []
        for name, party in self.parties.items():
            for action in party.take_actions():
                self.told[name].append(action)
                if isinstance(action, Announce):
                    party.announced(action.handoff, range(len(action.goods.keys)))
            fresh += party.take_messages()
        self.lying += fresh
        return fresh

    def deliver(self, keep: Callable[[Out], bool] = lambda _: True) -> list[str]:
        """Everything until it is quiet, in order; what `keep` does not want is lost. Returns what was heard."""
        heard = []
        self.collect()
        while self.lying:
            out = self.lying.pop(0)
            if keep(out):
                heard.append(say(out))
                self.parties[out.peer].hear(out.data)
                self.collect()
        return heard

    def lose(self) -> list[str]:
        self.collect()
        lost, self.lying = [say(out) for out in self.lying], []
        return lost

    def pass_time(self, seconds: float, *names: str, step: float = 0.5) -> None:
        """The clocks go on, and nothing is delivered. With names, only theirs."""
        for _ in range(round(seconds / step)):
            self.now += step
            for name in names or self.parties:
                self.parties[name].tick(self.now)
        self.collect()

    def ends(self, name: str) -> list[tuple[str, str, bool]]:
        return [(one.side, one.end, one.vouched) for one in self.told[name] if isinstance(one, Ended)]

    def of(self, name: str, kind: type[Action]) -> list[Action]:
        return [one for one in self.told[name] if isinstance(one, kind)]


def met(**more: object) -> Wire:
    """A producer P and a consumer C that have met; nothing lies on the wire."""
    wire = Wire()
    wire.join("P", 11, **more)
    wire.join("C", 22, **more)
    wire.parties["P"].greet("C")
    wire.parties["C"].greet("P")
    wire.deliver()
    for told in wire.told.values():
        told.clear()
    return wire


def offered(wire: Wire, *keys: bytes, number: int = 1, request: bytes = b"r1") -> Handoff:
    """An offer that has arrived."""
    handoff = wire.parties["P"].offer("C", goods(*(keys or (b"k1",)), request=request), Token(11, number))
    assert isinstance(handoff, Handoff)
    wire.deliver()
    return handoff


def copied(wire: Wire, handoff: Handoff, serial: int = 1, lines: int = 1) -> Token:
    """A part that has copied from an offer and says that it is done."""
    token = Token(22, serial)
    wire.parties["C"].expect(token, [Source(handoff, line) for line in range(lines)])
    wire.parties["C"].report(Report(token, "done"))
    return token


def forwarded(wire: Wire) -> list[Report]:
    return [one.report for one in wire.told["C"] if isinstance(one, Forward)]


def let_go(wire: Wire) -> list[Token | None]:
    return [one.hold for one in wire.told["P"] if isinstance(one, LetGo)]


def vanished(wire: Wire) -> list[tuple[int, ...]]:
    return [one.lines for one in wire.told["C"] if isinstance(one, Vanish)]
