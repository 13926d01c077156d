"""One process's end of all its handoffs, as producer and as consumer: requests and messages in, actions and bytes out.

A loop around it looks like this:

    party.tick(now)
    for data in arrived:
        party.hear(data)
    for action in party.take_actions():
        ...                                 # in order: the ledger's hold done, names announced, reports forwarded
    for out in party.take_messages():
        send(out.peer, out.data)            # may be lost, doubled, late

Nothing here waits, and nothing raises for what comes from outside. A request that can't be granted is answered by a
`Refusal`, which is false. Should an invariant break, the party is over (`broken` says why): it vouches for nothing any
more and forwards nothing that it kept back.

What it can't see is the caller's to say. `expect` comes before the report that it is about: a report that nobody
expects passes. `forget` comes only when the ledger has settled the part. `withdraw` is for everything that makes the
offered bytes another's or void: an abort, a dead rank, a cache reset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from kvstate.errors.codes import Code
from kvstate.machines.messages import Outcome, Report, Token
from kvstate.machines.ports import InvariantError
from kvstate.machines.sound import sound_report
from kvstate.machines.verdicts import Refusal
from kvstate.peers.acts import Acts
from kvstate.peers.codec import MessageError
from kvstate.peers.hearing import Hearing
from kvstate.peers.records import NOBODY, Books, Borrow, Check, Lend, Link, Record
from kvstate.peers.rules import Cascade, Rules
from kvstate.peers.tables.borrow import Event as R
from kvstate.peers.tables.check import Event as V
from kvstate.peers.tables.lend import Event as H
from kvstate.peers.tables.link import Event as G
from kvstate.peers.words import Action, Forward, Goods, Handoff, Out, Source, Terms, Vanish

Args = ParamSpec("Args")
T = TypeVar("T")


def door(method: Callable[Concatenate[Party, Args], T]) -> Callable[Concatenate[Party, Args], T | Refusal]:
    """Every input comes through here: it is run to its end, or the party is over."""

    @wraps(method)
    def entered(self: Party, *args: Args.args, **kwargs: Args.kwargs) -> T | Refusal:
        if self.broken:
            return Refusal(f"the party is over: {self.broken}")
        try:
            result = method(self, *args, **kwargs)
            self._sweep()
        except InvariantError as error:
            self.broken = str(error)
            return Refusal(f"the party is over: {self.broken}")
        return result

    return cast("Callable[Concatenate[Party, Args], T | Refusal]", entered)


class Party:
    """See the head of this file. `terms` say who it is; `rules` are for those who try other rows."""

    def __init__(self, terms: Terms, rules: Rules | None = None) -> None:
        rules = Rules() if rules is None else rules
        params = {"lend": {"renewals": terms.renewals}, "borrow": {"renewals": terms.renewals}}
        tables: dict[str, Any] = {name: table(**params.get(name, {})) for name, table in rules.machines.items()}
        self.books = Books(terms, tables)
        self.acts = Acts(self.books)
        self.rows = Cascade(self.books, rules, self.acts)
        self.hearing = Hearing(self.books, self.rows)
        self.broken = ""
        """Why the party is over; empty as long as it is not."""

    # -- what is taken out ---------------------------------------------------------------------------------------------

    def take_actions(self) -> list[Action]:
        """What the caller is to do, in this order; each once."""
        taken, self.books.actions = self.books.actions, []
        return taken

    def take_messages(self) -> list[Out]:
        """What is to be sent, each once. Whether it arrives is not asked."""
        taken, self.books.out = self.books.out, []
        return taken

    @property
    def counts(self) -> dict[str, int]:
        """How much came that changed nothing: `stale`, `unknown` (of a name that was not greeted), `unreadable`,
        `crowded`, `no_more` (a lease that may not be extended again), `withheld` (a second report on a part)."""
        return dict(self.books.counts)

    def fired(self) -> dict[str, int]:
        """How often each row has fired, by its id."""
        counts = self.rows.fired
        return {row: counts[name][at] for name, t in self.books.tables.items() for at, row in enumerate(t.ROWS)}

    def due(self) -> float | None:
        """When there is something to do by the clock; None if nothing waits."""
        return self.books.due()

    # -- the caller ----------------------------------------------------------------------------------------------------

    @door
    def greet(self, peer: str) -> bool:
        """Say hello to whoever has that name, until it answers or the greeting is over. False if it is known."""
        self.books.names.add(peer)
        if any(link.peer == peer for link in self.books.links):
            return False
        self.rows.fire(self.hearing.greet(peer), G.RESEND)
        return True

    @door
    def offer(self, peer: str, goods: Goods, hold: Token | None = None) -> Handoff | Refusal:
        """Offer sealed blocks that the ledger holds under `hold`, for the lease of our terms, from now."""
        link = self._met(peer)
        if link is None:
            return Refusal(f"{peer} is not met, so nothing can be offered to it")
        books = self.books
        books.minted += 1
        lend = Lend("lend", books.slot("lend"), link=link, number=books.minted, goods=goods, hold=hold)
        books.lends[lend.number] = lend
        try:
            self.acts.send_offer(lend)
        except MessageError as error:
            del books.lends[lend.number]
            books.free.setdefault("lend", []).append(lend.slot)
            return Refusal(str(error))
        books.arm(lend, H.DEADLINE, books.now + books.terms.lease)
        self.acts.wait_resend(lend)
        return self.acts.handoff_of(lend)

    @door
    def withdraw(self, handoff: Handoff, code: int = Code.CANCELLED) -> bool:
        """Call an offer of ours off; False if it is over already."""
        lend = self._lend(handoff)
        if lend is None:
            return False
        lend.code = code if self.rows.takes(lend, H.WITHDRAW) else lend.code
        return self.rows.fire(lend, H.WITHDRAW)

    @door
    def withdraw_all(self, code: int = Code.CANCELLED) -> int:
        """Call all offers of ours off; how many those were."""
        standing = [lend for lend in self.books.lends.values() if self.rows.takes(lend, H.WITHDRAW)]
        for lend in standing:
            lend.code = code
            self.rows.fire(lend, H.WITHDRAW)
        return len(standing)

    @door
    def announced(self, handoff: Handoff, lines: Sequence[int]) -> None:
        """The ledger has named these lines of the goods. If the offer is over by now, they vanish at once."""
        borrow = self.books.borrows.get(handoff)
        if borrow is not None and not borrow.vanished:
            borrow.lines = tuple(lines)
        elif lines:
            self.books.actions.append(Vanish(handoff, tuple(lines)))

    @door
    def close(self, handoff: Handoff, taken: bool, code: int = Code.CANCELLED) -> bool | Refusal:
        """The loads that used a peer's offer are over, and something of it was committed, or nothing was.

        False if the offer is over already. Refused if something is said to be taken and nothing was vouched for.
        """
        borrow = self.books.borrows.get(handoff)
        if borrow is None or borrow.vanished:
            return False
        borrow.code = code
        if self.rows.fire(borrow, R.TAKE if taken else R.REFUSE):
            return True
        return Refusal(f"nothing of handoff {handoff.number} was vouched for, so nothing can have been taken")

    @door
    def expect(self, token: Token, sources: Sequence[Source | None]) -> None:
        """A part that verifies copies from these handles is about to start. Say so before its report can come.

        `sources` has what each line was copied from; None where that is no peer.
        """
        if any(source is not None for source in sources):
            self.books.expected[token] = tuple(sources)

    @door
    def forget(self, token: Token) -> None:
        """The ledger has settled that part: no report on it can commit anything any more."""
        self.books.expected.pop(token, None)

    @door
    def report(self, report: Report) -> None:
        """A report of a rank. It goes on at once, or when the producers have vouched; a second one never does."""
        books = self.books
        if sound_report(report) is None:
            books.actions.append(Forward(report))
            return
        if report.token in books.checks:
            books.counts["withheld"] += 1
            return
        sources = books.expected.pop(report.token, None)
        if sources is None or report.outcome != Outcome.DONE:
            books.actions.append(Forward(report))
            return
        handoffs = list(dict.fromkeys(source.handoff for source in sources if source is not None))
        waiting = {books.question(): handoff for handoff in handoffs}
        slot = books.slot("check", left=len(handoffs))
        check = Check("check", slot, report=report, sources=sources, waiting=waiting)
        books.checks[report.token] = check
        borrows = [books.borrows.get(handoff) for handoff in handoffs]
        alive = all(borrow is not None and self.rows.fire(borrow, R.ASK) for borrow in borrows)
        self.rows.fire(check, V.ASK if alive else V.TURN_AWAY)

    @door
    def bye(self) -> None:
        """This process ends: all that was offered and borrowed is over, the peers are told and listened to no more."""
        self.books.names.clear()
        for link in list(self.books.links):
            link.code = Code.CANCELLED
            if link.life != NOBODY:
                self.acts.say_bye(link)
            self.rows.fire(link, G.BYE)

    # -- the world -----------------------------------------------------------------------------------------------------

    @door
    def hear(self, data: bytes) -> None:
        """Bytes from anybody. Total: whatever comes, at worst it is counted."""
        self.hearing.hear(data)

    @door
    def peer_lost(self, peer: str) -> None:
        """The transport has lost that peer."""
        for link in [link for link in self.books.links if link.peer == peer]:
            self.rows.fire(link, G.PEER_LOST)

    @door
    def tick(self, now: float) -> None:
        """Tell the time and fire what is due. Time that runs backwards is ignored."""
        books = self.books
        books.now = max(books.now, now)
        while (rung := books.ring()) is not None:
            self.rows.fire(*rung)

    def is_met(self, peer: str) -> bool:
        """Could something be offered to it now?"""
        return any(link.peer == peer and self.rows.takes(link, G.PASS) for link in self.books.links)

    # -- help ----------------------------------------------------------------------------------------------------------

    def _met(self, peer: str) -> Link | None:
        links = [link for link in self.books.links if link.peer == peer]
        return next((link for link in links if self.rows.fire(link, G.PASS)), None)

    def _lend(self, handoff: Handoff) -> Lend | None:
        return self.books.lends.get(handoff.number) if handoff.life == self.books.terms.life else None

    def _sweep(self) -> None:
        """Forget what this input has ended."""
        books = self.books
        touched, books.touched = books.touched, {}
        for record in sorted(touched.values(), key=lambda record: isinstance(record, Link)):
            if record in (self.hearing.over_lend, self.hearing.over_borrow):
                continue
            if self.rows.over(record):
                self._forget(record)
            elif isinstance(record, Borrow) and record.goods is None:
                self._free(record)

    def _forget(self, record: Record) -> None:
        books = self.books
        if isinstance(record, Link):
            books.links.remove(record)
            if record.code == Code.CANCELLED or any(link.peer == record.peer for link in books.links):
                books.past.pop(record.life, None)  # it said goodbye or has a successor: it will not be met again
        elif isinstance(record, Lend):
            books.lends.pop(record.number, None)
        elif isinstance(record, Borrow):
            books.borrows.pop(record.handoff, None)
            self.hearing.past(record.handoff.life).add(record.handoff.number)
        else:
            books.checks.pop(cast(Check, record).report.token, None)
        self._free(record)

    def _free(self, record: Record) -> None:
        record.timers.clear()
        self.books.free.setdefault(record.machine, []).append(record.slot)
