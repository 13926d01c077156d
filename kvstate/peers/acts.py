"""What a party does where `spec/peers/coupling.toml` says so: words to peers, actions for the caller, timers.

An act never fires a row and never decides anything: each is one thing that is done for one record. All are called with
the record and the name of the effect.
"""

from __future__ import annotations

from typing import Any, Final, cast

from kvstate.errors.codes import Code
from kvstate.machines.messages import Failure, Outcome, Report
from kvstate.peers.codec import encode
from kvstate.peers.records import Books, Borrow, Check, Lend, Link, Record
from kvstate.peers.tables.borrow import Event as R
from kvstate.peers.tables.check import Event as V
from kvstate.peers.tables.lend import Event as H
from kvstate.peers.tables.link import Event as G
from kvstate.peers.words import (
    Announce,
    Bye,
    Ended,
    Forward,
    Gone,
    Goods,
    Handoff,
    Hello,
    LetGo,
    Message,
    Met,
    Offer,
    Out,
    Strange,
    Vanish,
    Word,
)

RESEND: Final = {"link": G.RESEND, "lend": H.RESEND, "borrow": R.RESEND, "check": V.RESEND}
DEADLINE: Final = {"link": G.DEADLINE, "lend": H.DEADLINE, "borrow": R.DEADLINE, "check": V.DEADLINE}
"""`RESEND` and this: the events of the timers that every machine has."""
STAGE: Final = "verify"
"""Where a copy is refused that nobody vouches for."""
DRIVER: Final = "peer"
"""In whose name."""


class Acts:
    """The acts, over one party's books."""

    def __init__(self, books: Books) -> None:
        self.books = books

    # -- what all have -------------------------------------------------------------------------------------------------

    def send(self, link: Link, message: Message) -> None:
        """Bytes for that life of that peer. Errors: `MessageError` for what no message can carry."""
        terms = self.books.terms
        self.books.out.append(Out(link.peer, encode(terms.name, terms.life, link.life, message)))

    def wait_resend(self, record: Record, _effect: str = "") -> None:
        """Ring when it is time to say it again."""
        self.books.arm(record, RESEND[record.machine], self.books.now + self.books.terms.resend)

    def wait_closing(self, record: Record, _effect: str = "") -> None:
        """Say it again for so long, and then no more."""
        self.books.arm(record, DEADLINE[record.machine], self.books.now + self.books.terms.patience)
        self.wait_resend(record)

    def wait_answer(self, record: Record, _effect: str) -> None:
        """Likewise."""
        self.wait_closing(record)

    def count_stale(self, _record: Record, _effect: str) -> None:
        """It changes nothing, and is counted."""
        self.books.counts["stale"] += 1

    # -- link ----------------------------------------------------------------------------------------------------------

    def say_hello(self, link: Link, _effect: str = "", *, asks: bool = False) -> None:
        """Who we are."""
        terms = self.books.terms
        own = (terms.fingerprint, terms.layout, terms.transport, terms.ranks, terms.addresses)
        self.send(link, Hello(*own, link.challenge, link.theirs, asks))

    def ask_hello(self, link: Link, _effect: str = "") -> None:
        """Who we are, and who are you?"""
        self.say_hello(link, asks=True)

    def say_bye(self, link: Link, _effect: str = "") -> None:
        """Do not count on us."""
        self.send(link, Bye())

    def tell_met(self, link: Link, _effect: str) -> None:
        """To the caller."""
        self.books.actions.append(Met(link.peer, link.life, cast(Hello, link.hello)))

    def tell_strange(self, link: Link, _effect: str) -> None:
        """To the caller."""
        self.books.actions.append(Strange(link.peer, link.life, link.code, link.sentence))

    def tell_gone(self, link: Link, _effect: str) -> None:
        """To the caller."""
        self.books.actions.append(Gone(link.peer, link.life, link.code))

    # -- lend ----------------------------------------------------------------------------------------------------------

    def handoff_of(self, lend: Lend) -> Handoff:
        """Its name."""
        return Handoff(self.books.terms.life, lend.number)

    def say(self, lend: Lend, word: str, nonce: int = 0, code: int = 0) -> None:
        """A word about a handoff of ours."""
        self.send(lend.link, Word(word, self.books.terms.life, lend.number, nonce, code))

    def let_go(self, lend: Lend, _effect: str) -> None:
        """The hold is done."""
        self.books.actions.append(LetGo(self.handoff_of(lend), lend.hold))

    def tell_lend(self, lend: Lend, _effect: str) -> None:
        """The verdict, by the name of the state; the reason is kept for what is said of it later."""
        table: Any = self.books.tables["lend"]
        end = table.STATES[table.state[lend.slot]]
        codes = {"delivered": 0, "returned": self.books.word.code, "withdrawn": lend.code, "lost": Code.PEER_LOST}
        lend.code = codes.get(end, Code.LEASE_EXPIRED)
        request = b"" if lend.goods is None else lend.goods.request
        vouched = bool(table.vouched[lend.slot])
        self.books.actions.append(
            Ended(self.handoff_of(lend), "lend", lend.link.peer, request, end, lend.code, vouched)
        )

    def send_offer(self, lend: Lend, _effect: str = "") -> None:
        """The whole of it, and the number of the eldest offer that stands."""
        floor = min(other.number for other in self.books.lends.values() if other.link is lend.link)
        self.send(lend.link, Offer(lend.number, floor, self.books.terms.lease, cast(Goods, lend.goods)))

    def send_withdrawn(self, lend: Lend, _effect: str) -> None:
        """It is over."""
        self.say(lend, "withdrawn", code=lend.code)

    def send_over(self, lend: Lend, _effect: str) -> None:
        """We know what you decided."""
        self.say(lend, "over")

    def send_vouch(self, lend: Lend, _effect: str) -> None:
        """The blocks are held."""
        self.say(lend, "vouch", self.books.word.nonce)

    def send_deny(self, lend: Lend, _effect: str) -> None:
        """They are not."""
        self.say(lend, "deny", self.books.word.nonce, lend.code)

    def extend_lend(self, lend: Lend, _effect: str) -> None:
        """The lease begins anew."""
        lend.granted = self.books.word.nonce
        self.books.arm(lend, H.DEADLINE, self.books.now + self.books.terms.lease)

    def send_renewed(self, lend: Lend, _effect: str) -> None:
        """You have what you asked for."""
        self.say(lend, "renewed", self.books.word.nonce)

    def count_no_more(self, _lend: Lend, _effect: str) -> None:
        """Asked for once too often."""
        self.books.counts["no_more"] += 1

    # -- borrow --------------------------------------------------------------------------------------------------------

    def answer(self, borrow: Borrow, word: str, nonce: int = 0, code: int = 0) -> None:
        """A word about a handoff of the peer's."""
        self.send(borrow.link, Word(word, *borrow.handoff, nonce, code))

    def announce(self, borrow: Borrow, _effect: str) -> None:
        """To the caller: these names are there."""
        assert self.books.heard is not None
        offer = cast(Offer, self.books.heard.message)
        borrow.goods, borrow.lease = offer.goods, min(offer.lease, self.books.terms.lease)
        self.books.borrows[borrow.handoff] = borrow
        self.books.actions.append(Announce(borrow.handoff, borrow.link.peer, offer.goods))

    def vanish(self, borrow: Borrow, _effect: str) -> None:
        """To the caller: they are not any more. What was announced later is answered for when it is said."""
        borrow.vanished = True
        if borrow.lines:
            self.books.actions.append(Vanish(borrow.handoff, borrow.lines))

    def tell_borrow(self, borrow: Borrow, effect: str) -> None:
        """The verdict, by the name of the effect."""
        end = effect.removeprefix("tell_")
        codes: dict[str, int] = {"taken": 0, "refused": borrow.code, "withdrawn": self.books.word.code}
        code = codes.get(end, Code.PEER_LOST if end == "lost" else Code.LEASE_EXPIRED)
        borrow.code = code
        table: Any = self.books.tables["borrow"]
        request = b"" if borrow.goods is None else borrow.goods.request
        vouched = bool(table.vouched[borrow.slot])
        ended = Ended(borrow.handoff, "borrow", borrow.link.peer, request, cast(Any, end), code, vouched)
        self.books.actions.append(ended)

    def send_received(self, borrow: Borrow, _effect: str) -> None:
        """We have the offer."""
        self.answer(borrow, "received")

    def send_renew(self, borrow: Borrow, _effect: str) -> None:
        """More time, please; under the same number as long as it is the same question."""
        table: Any = self.books.tables["borrow"]
        number: int = table.asked[borrow.slot]
        if number != borrow.question:
            borrow.question, borrow.asked_at = number, self.books.now
        self.answer(borrow, "renew", number)

    def send_taken(self, borrow: Borrow, _effect: str) -> None:
        """Something was committed."""
        self.answer(borrow, "taken")

    def send_refused(self, borrow: Borrow, _effect: str) -> None:
        """Nothing was."""
        self.answer(borrow, "refused", code=borrow.code)

    def send_void(self, borrow: Borrow, _effect: str) -> None:
        """We know that it is over."""
        self.answer(borrow, "void")

    def wait_lease(self, borrow: Borrow, _effect: str = "", *, since: float | None = None) -> None:
        """Ring at half of the lease and at its end."""
        since = self.books.now if since is None else since
        self.books.arm(borrow, R.RENEW_DUE, since + borrow.lease / 2)
        self.books.arm(borrow, R.DEADLINE, since + borrow.lease)

    def extend_borrow(self, borrow: Borrow, _effect: str) -> None:
        """Both again, from when it was first asked for."""
        self.wait_lease(borrow, since=borrow.asked_at)

    # -- check ---------------------------------------------------------------------------------------------------------

    def send_check(self, check: Check, _effect: str) -> None:
        """Did you hold the blocks until now? To each that has not answered."""
        borrows = self.books.borrows
        for nonce, borrow in [(nonce, borrows[one]) for nonce, one in check.waiting.items() if one in borrows]:
            self.answer(borrow, "check", nonce)

    def forward_done(self, check: Check, _effect: str) -> None:
        """The rank's own report."""
        self._end(check, check.report)

    def forward_denied(self, check: Check, _effect: str) -> None:
        """Broken: whose lines, as far as it is known."""
        borrows = self.books.borrows
        handoffs = dict.fromkeys(source.handoff for source in check.sources if source is not None)
        over = {one for one in handoffs if one == check.denied or one not in borrows or borrows[one].vanished}
        gone = [line for line, source in enumerate(check.sources) if source is not None and source.handoff in over]
        failures = [self._failure(line, Code.LEASE_EXPIRED) for line in gone]
        self._end(check, Report(check.report.token, Outcome.BROKEN, tuple(failures)))

    def forward_lost(self, check: Check, _effect: str) -> None:
        """Failed: nobody is left to ask."""
        self._fail(check, Code.PEER_LOST)

    def forward_late(self, check: Check, _effect: str) -> None:
        """Failed: nobody answered in time."""
        self._fail(check, Code.LOAD_TIMEOUT)

    def _fail(self, check: Check, code: Code) -> None:
        self._end(check, Report(check.report.token, Outcome.FAILED, (self._failure(-1, code),)))

    def _end(self, check: Check, report: Report) -> None:
        """Nobody is waited for any more."""
        check.waiting.clear()
        self.books.actions.append(Forward(report))

    def _failure(self, line: int, code: Code) -> Failure:
        return Failure(line, int(code), STAGE, DRIVER)
