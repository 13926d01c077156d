"""What a party does with a message: find the record that it is about, and fire the event that it is.

Which event that is follows from identities alone: of processes, handoffs, questions. What comes of it is the rows'. A
message about nothing that is on record is answered by the rows as well, through a record that is over already (or not
yet begun), so that there is one answer to a late word wherever it comes.
"""

from __future__ import annotations

from typing import Final, cast

from kvstate.errors.codes import Code
from kvstate.peers.codec import Foreigner, Unreadable, decode
from kvstate.peers.records import NO_WORD, NOBODY, Books, Borrow, Lend, Link, Past
from kvstate.peers.rules import Cascade
from kvstate.peers.tables.borrow import Event as R
from kvstate.peers.tables.check import Event as V
from kvstate.peers.tables.lend import Event as H
from kvstate.peers.tables.link import Event as G
from kvstate.peers.words import TO_PRODUCER, Bye, Handoff, Hello, Letter, Offer, Terms, Word

MAX_LIVES: Final = 8
"""Lives of one name that are on record at the same time. More are strangers that make noise."""
LEND_EVENTS: Final = {
    "received": H.RECEIVED,
    "check": H.CHECKED,
    "taken": H.TAKEN,
    "refused": H.REFUSED,
    "void": H.VOIDED,
}
"""What the words of a consumer are to a lend. `renew` is one of two."""


def differs(terms: Terms, hello: Hello) -> tuple[Code, str] | None:
    """In what a peer differs so that no blocks can pass: a code and a sentence; None if it fits."""
    own = (
        (Code.KEY_MISMATCH, "fingerprint", terms.fingerprint, hello.fingerprint),
        (Code.LAYOUT_MISMATCH, "layout", terms.layout, hello.layout),
        (Code.LAYOUT_MISMATCH, "number of ranks", terms.ranks, hello.ranks),
        (Code.LAYOUT_MISMATCH, "transport", terms.transport, hello.transport),
    )
    for code, what, ours, its in own:
        if ours != its:
            return code, f"its {what} is {its!r}, and ours is {ours!r}"
    return None


class Hearing:
    """The ear of one party."""

    def __init__(self, books: Books, rows: Cascade) -> None:
        self.books = books
        self.rows = rows
        self.over_lend = Lend("lend", self._over("lend", H.WITHDRAW, H.VOIDED))
        self.over_borrow = Borrow("borrow", self._over("borrow", R.WITHDRAWN))
        """Records that are over: they answer for all that are forgotten."""

    def _over(self, machine: str, *events: int) -> int:
        slot = self.books.slot(machine)
        for event in events:
            self.books.tables[machine].fire(slot, event)
        return slot

    def hear(self, data: bytes) -> None:
        """Answer a message, or count it. Errors: `InvariantError` where the data is wrong, never the message."""
        heard = decode(data)
        if isinstance(heard, Unreadable):
            self.books.counts["unreadable"] += 1
        elif heard.name not in self.books.names:
            self.books.counts["unknown"] += 1
        elif isinstance(heard, Foreigner):
            self._foreigner(heard)
        elif isinstance(heard.message, Hello):
            self._hello(heard, heard.message)
        else:
            self._spoken(heard)

    # -- who is it? ----------------------------------------------------------------------------------------------------

    def link(self, peer: str, life: int) -> Link | None:
        """The record of that life of that peer, if there is one."""
        return next((link for link in self.books.links if (link.peer, link.life) == (peer, life)), None)

    def greet(self, peer: str, life: int = NOBODY) -> Link:
        """A new record; it is greeted by the clock, if nothing is heard before."""
        link = Link("link", self.books.slot("link"), peer=peer, life=life, challenge=self.books.question())
        self.books.links.append(link)
        self.books.arm(link, G.DEADLINE, self.books.now + self.books.terms.greeting)
        self.books.arm(link, G.RESEND, self.books.now + self.books.terms.resend)
        return link

    def _linked(self, peer: str, life: int) -> Link | None:
        """The record of a life that says something; a new one if it is new, none if there are too many."""
        known = self.link(peer, life)
        if known is not None:
            return known
        waiting = self.link(peer, NOBODY)
        if waiting is not None:
            waiting.life = life
            return waiting
        if sum(link.peer == peer for link in self.books.links) >= MAX_LIVES:
            self.books.counts["crowded"] += 1
            return None
        return self.greet(peer, life)

    def _foreigner(self, heard: Foreigner) -> None:
        link = self._linked(heard.name, heard.life)
        if link is None:
            return
        link.code, link.sentence = Code.VERSION_MISMATCH, heard.sentence
        self.rows.fire(link, G.STRANGE)
        if heard.to != self.books.terms.life:  # it has heard nothing of this life yet
            self.rows.fire(link, G.ASKED)

    def _hello(self, letter: Letter, hello: Hello) -> None:
        link = self._linked(letter.name, letter.life)
        if link is None:
            return
        link.theirs = hello.challenge
        found = differs(self.books.terms, hello)
        if found is not None:
            link.code, link.sentence = found
            self.rows.fire(link, G.STRANGE)
        else:
            link.hello = hello
            self.rows.fire(link, G.PROVEN if hello.echo == link.challenge else G.HELLO)
        if hello.asks:
            self.rows.fire(link, G.ASKED)

    def _spoken(self, letter: Letter) -> None:
        """What is no hello is heard from a life that is known to be alive, and only if it is for this one."""
        link = self.link(letter.name, letter.life)
        if letter.to == self.books.terms.life and link is not None:
            if isinstance(letter.message, Bye):
                link.code = Code.CANCELLED
                self.rows.fire(link, G.BYE)
                return
            if self.rows.fire(link, G.PASS):
                self._of_handoff(letter, link)
                return
        self.books.counts["stale"] += 1
        if link is None and not isinstance(letter.message, Bye):
            self._stranger(letter)

    def _stranger(self, letter: Letter) -> None:
        """A life that believes to be known here, or takes us for another: a hello tells it who is here."""
        link = self._linked(letter.name, letter.life)
        if link is not None:
            self.rows.fire(link, G.ASKED)

    # -- what is it about? ---------------------------------------------------------------------------------------------

    def _of_handoff(self, letter: Letter, link: Link) -> None:
        books, message = self.books, letter.message
        if isinstance(message, Offer) and len(message.goods.seals) not in (0, books.terms.ranks):
            books.counts["unreadable"] += 1  # each rank has seals of its own, and there are as many ranks as here
            return
        books.heard = letter
        if isinstance(message, Offer):
            past = self.past(letter.life)
            past.raise_to(message.floor)
            books.word = Word("offer", letter.life, message.number)
            self.rows.fire(self._borrow(link), R.OFFER)
        else:
            books.word = word = cast(Word, message)
            if word.say in TO_PRODUCER:
                self._to_producer(link, word)
            elif word.life == letter.life:
                self._to_consumer(link, word)
            else:
                books.counts["stale"] += 1
        books.heard, books.word = None, NO_WORD

    def _to_producer(self, link: Link, word: Word) -> None:
        books = self.books
        lend = books.lends.get(word.number)
        if word.life != books.terms.life or word.number > books.minted or (lend is not None and lend.link is not link):
            books.counts["stale"] += 1
            return
        if lend is None:
            lend = self.over_lend
            lend.link, lend.number, lend.code = link, word.number, Code.LEASE_EXPIRED
        if word.say == "renew":
            self.rows.fire(lend, H.RENEWAL if word.nonce > lend.granted else H.RENEWAL_AGAIN)
        else:
            self.rows.fire(lend, LEND_EVENTS[word.say])

    def _to_consumer(self, link: Link, word: Word) -> None:
        if word.say in ("vouch", "deny"):
            self._answer(link, word)
            return
        borrow = self._borrow(link)
        if word.say == "renewed" and word.nonce != borrow.question:
            self.books.counts["stale"] += 1
            return
        events = {"renewed": R.GRANTED, "withdrawn": R.WITHDRAWN, "over": R.OVER}
        self.rows.fire(borrow, events[word.say])

    def _answer(self, link: Link, word: Word) -> None:
        """A producer's answer counts for the question that was asked under that number, and only once."""
        handoff = Handoff(word.life, word.number)
        check = next((one for one in self.books.checks.values() if one.waiting.get(word.nonce) == handoff), None)
        if check is None:
            self.books.counts["stale"] += 1
            return
        del check.waiting[word.nonce]
        if word.say == "vouch":
            self.rows.fire(check, V.VOUCHED)
            return
        check.denied = handoff
        self.rows.fire(check, V.DENIED)
        self.rows.fire(self._borrow(link), R.WITHDRAWN)

    def past(self, life: int) -> Past:
        """What is over here of the handoffs of that life."""
        return self.books.past.setdefault(life, Past())

    def _borrow(self, link: Link) -> Borrow:
        """The handoff that the word is about: on record, over, or not heard of so far."""
        word = self.books.word
        handoff = Handoff(word.life, word.number)
        borrow = self.books.borrows.get(handoff)
        if borrow is None and self.past(word.life).has(word.number):
            borrow = self.over_borrow
            borrow.link, borrow.handoff = link, handoff
        if borrow is None:
            borrow = Borrow("borrow", self.books.slot("borrow"), link=link, handoff=handoff)
            self.books.touched[id(borrow)] = borrow
        return borrow
