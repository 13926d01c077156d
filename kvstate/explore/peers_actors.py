"""Parties as a search steps them: a form and an input give a form, words and actions, worked out once.

What is stepped is the real class. Since it is told everything (the time, too), what it does depends on its form and the
input alone, and can be remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kvstate.explore.matter import LawBroken
from kvstate.explore.peers_form import Form, form_of, restore
from kvstate.peers.party import Party
from kvstate.peers.rules import Rules
from kvstate.peers.tables.borrow import State as R
from kvstate.peers.tables.check import State as V
from kvstate.peers.tables.lend import State as H
from kvstate.peers.tables.link import State as G
from kvstate.peers.words import Action, Announce, Handoff, Out, Terms

Input = tuple[Any, ...]
"""The name of a method of `Party`, and its arguments; or `CLOCK`."""
CLOCK: Final[Input] = ("clock",)
"""The next time that a timer rings."""
MAX_RINGS: Final = 200
"""More rings than this on a way home, and it has no end."""


class Stepped(NamedTuple):
    """What came of an input: the form after it, the messages (`out`), and the `actions` for the caller."""

    form: int
    """The form after it, by number."""
    out: tuple[Out, ...]
    actions: tuple[Action, ...]
    answer: object
    """What the method returned."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a law may look at in a form, by handoff."""

    held: frozenset[Handoff]
    """Offers of this side that are vouched for."""
    alive: frozenset[Handoff]
    """Offers to this side that are announced."""
    lends: frozenset[Handoff]
    """All of ours on record."""
    rest: bool
    """Is nothing under way?"""
    met: frozenset[tuple[str, int]]
    """Names and lives of the peers that are listened to."""
    names: frozenset[str]
    """Names that are listened to at all."""
    handoffs: Form
    """All of the form that handoffs are about."""


@dataclass(slots=True)
class Actors:
    """All forms of all processes of a search under these `rules`: their `numbers`, what was `seen` in each, and what
    each input made of it."""

    rules: Rules = field(default_factory=Rules)
    forms: list[tuple[int, Form]] = field(default_factory=list)
    """By number: the life and the form."""
    numbers: dict[tuple[int, Form], int] = field(default_factory=dict)
    parties: dict[int, Party] = field(default_factory=dict)
    """One for each life, which is made what it was in a form."""
    done: dict[tuple[int, Input], Stepped] = field(default_factory=dict)
    seen: dict[int, Seen] = field(default_factory=dict)
    homes: set[int] = field(default_factory=set)
    """Forms from which the clock alone is known to end everything."""

    def born(self, terms: Terms) -> int:
        """The first form of a process."""
        self.parties[terms.life] = Party(terms, self.rules)
        return self._number(terms.life)

    def _number(self, life: int) -> int:
        key = (life, form_of(self.parties[life]))
        number = self.numbers.setdefault(key, len(self.forms))
        if number == len(self.forms):
            self.forms.append(key)
        return number

    def step(self, form: int, given: Input) -> Stepped:
        """What that input does in that form. Errors: `LawBroken` where the party breaks."""
        key = (form, given)
        known = self.done.get(key)
        if known is None:
            known = self.done[key] = self._step(form, given)
        return known

    def _step(self, form: int, given: Input) -> Stepped:
        life, what = self.forms[form]
        party = self.parties[life]
        restore(party, what)
        answer = self._do(party, given)
        actions = party.take_actions()
        for action in actions:
            if isinstance(action, Announce):
                party.announced(action.handoff, range(len(action.goods.keys)))
        actions += party.take_actions()
        if party.broken:
            raise LawBroken(f"P1.signals: {party.broken}")
        return Stepped(self._number(life), tuple(party.take_messages()), tuple(actions), answer)

    def _do(self, party: Party, given: Input) -> object:
        if given == CLOCK:
            due = party.due()
            if due is not None:
                party.tick(due)
            return None
        method, *arguments = given
        return getattr(party, method)(*arguments)

    def due(self, form: int) -> bool:
        """Does a timer wait?"""
        return bool(self.forms[form][1][6])

    def asked(self, form: int) -> int:
        """How many numbers were minted for questions and challenges."""
        number: int = self.forms[form][1][7][1]
        return number

    def fired(self) -> dict[str, int]:
        """How often each row has fired; what was remembered counts once."""
        total: dict[str, int] = {}
        for party in self.parties.values():
            for row, count in party.fired().items():
                total[row] = total.get(row, 0) + count
        return total

    # -- what a form says ----------------------------------------------------------------------------------------------

    def look(self, form: int) -> Seen:
        """What stands in a form. Errors: `LawBroken` for one that can't wait for its end."""
        seen = self.seen.get(form)
        if seen is None:
            seen = self.seen[form] = self._look(form)
            self.clock_ends(form)
        return seen

    def _look(self, form: int) -> Seen:
        life, what = self.forms[form]
        links, lends, borrows, checks, expected, _, _, (_, _, names) = what
        self._timers(what)
        alive = frozenset(fields[0] for columns, _, fields, _ in borrows if columns[0] == R.OFFERED)
        if any(handoff not in alive for *_, waiting, _ in checks for _, handoff in waiting):
            raise LawBroken("P4.denied: a check waits for a word about an offer that is over here")
        return Seen(
            frozenset(Handoff(life, fields[0]) for columns, _, fields in lends if columns[0] == H.OFFERED),
            alive,
            frozenset(Handoff(life, fields[0]) for _, _, fields in lends),
            not (lends or borrows or checks),
            frozenset((fields[0], fields[1]) for columns, fields in links if columns[0] == G.MET),
            frozenset(names),
            (lends, borrows, checks, expected),
        )

    def _timers(self, what: Form) -> None:
        """P6.timer: whatever waits has a timer that ends the wait, and one that repeats the question."""
        links, lends, borrows, checks, _, _, timers, _ = what
        armed: dict[int, set[str]] = {}
        for _, event, place in timers:
            armed.setdefault(place, set()).add(event.name.lower())
        place = 0
        for name, records in (("link", links), ("lend", lends), ("borrow", borrows), ("check", checks)):
            for record in records:
                lacks = _awaited(name, record[0]) - armed.get(place, set())
                if lacks:
                    raise LawBroken(f"P6.timer: a {name} waits in state {record[0][0]} without {', '.join(lacks)}")
                place += 1

    def clock_ends(self, form: int) -> None:
        """P6.clock: from here the clock alone ends every handoff and check. Errors: `LawBroken` where it does not."""
        way: list[int] = []
        for _ in range(MAX_RINGS):
            if form in self.homes:
                break
            way.append(form)
            if not self.due(form):
                if not self._look(form).rest:
                    raise LawBroken("P6.clock: no timer waits, and something is still on record")
                break
            form = self.step(form, CLOCK).form
        else:
            raise LawBroken(f"P6.clock: {MAX_RINGS} timers have rung, and it goes on")
        self.homes.update(way)


def _awaited(machine: str, columns: tuple[int, ...]) -> set[str]:
    """The timers that a record in that state must have."""
    state = columns[0]
    both = {"deadline", "resend"}
    if machine == "link":
        return both if state == G.GREETING else {"deadline"} if state == G.REFUSED else set()
    if machine == "lend":
        heard = columns[3]
        return {"deadline"} if state == H.OFFERED and heard else both
    if machine == "borrow":
        waiting = columns[4]
        return both if state == R.RETURNING or waiting else {"deadline"}
    return both if state == V.ASKED else set()
