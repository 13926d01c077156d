"""Blocks handed to other processes and taken from there: what joins party, ledger, copiers and link. Decides nothing.

Who decides is the party (`kvstate.peers`), as the rows in `spec/peers` say. Here its actions are carried out, and it is
told of everything that it can't see:

1. *Offer.* The ledger holds sealed blocks, a thread sums them, the party offers them. When it says `LetGo`, the hold
   is reported done.
2. *Announce.* What a peer offers gets handles in the shared pool. The copiers are told what the handles stand for
   BEFORE the ledger's `Adopt` of them goes out. From then on they are hits, and are loaded as any others.
3. *Verify.* A part that verifies such a load is announced to the party when it goes out; its report comes through
   `sieve`, and reaches the ledger when the producer has vouched.
4. *Vanish.* What is over is no hit any more. If another offer has the same, it takes its place.

All of it is for the thread that owns the ledger; only sums are made elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

from kvstate.errors import Code
from kvstate.machines.messages import BlockRefs, Effect, Failure, Kind, Outcome, Report, Token, Work
from kvstate.machines.verdicts import Refusal
from kvstate.peers.party import Party
from kvstate.peers.words import (
    Action,
    Announce,
    Ended,
    Forward,
    Gone,
    Goods,
    Handoff,
    LetGo,
    Met,
    Source,
    Strange,
    Vanish,
)
from kvstate.runtime.engine import Engine
from kvstate.runtime.peers.news import HandoffVerdict, News, Offered, PeerNews
from kvstate.runtime.peers.summing import Summed, Summing
from kvstate.trace.observer import Observer

if TYPE_CHECKING:
    from kvstate.runtime.peers.copier import PeerCopier
    from kvstate.runtime.peers.link import LinkLike

NOWHERE: Final = Source(Handoff(0, 0), 0)
"""What a handle stands for that nobody knows anything of: no producer vouches for it."""


class Handoffs(Observer):
    """See the module. `pool` is the number of the shared pool, or None for a process that borrows nothing."""

    def __init__(
        self,
        party: Party,
        engine: Engine,
        copiers: Sequence[PeerCopier],
        link: LinkLike,
        *,
        pool: int | None,
        summed: bool,
        tell: Callable[[str], None],
        serves: bool = True,
    ) -> None:
        """`copiers`: one a rank. `link` is closed with it. `summed`: do blocks go with a sum? `tell` is told."""
        self.party, self.serves = party, serves
        """Who decides; and whether peers may pull from here."""
        self.link = link
        """The way to the schedulers of the peers; tests put one that loses messages into its place."""
        self.rung = False
        """Has something come that the next turn is to hear?"""
        self.copiers = tuple(copiers)
        """Who brings the blocks."""
        self._engine, self._ledger = engine, engine.ledger
        self._pool, self._tell, self._numbers = pool, tell, count(1)
        self._copier = "" if pool is None else self._ledger.config.pools[pool].copier
        self._handoffs: dict[int, Handoff] = {}
        self._numbered: dict[Handoff, int] = {}
        self._leases: dict[int, int] = {}
        self._borrowed: dict[Handoff, tuple[Announce, set[int]]] = {}
        self._stands: dict[int, Source] = {}
        self._checking: set[Token] = set()
        self._later: list[Action] = []
        self._news = News()
        self._summing = Summing(copiers if summed else ())
        engine.sieve = self.sieve
        engine.listeners.append(self)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Hear what has come, tell the time, do what is to be done, and send what is to be sent. Never waits."""
        self.rung = False
        for _, data in self.link.receive():
            self.party.hear(data)
        self.party.tick(now)
        for ready in self._summing.ready():
            self._offer(ready)
        for hold in self._summing.read_no_more():
            self._engine.feed(Report(hold, Outcome.DONE))
        tokens = self._ledger.books.tokens
        for token in [token for token in self._checking if token.serial not in tokens]:
            self._checking.discard(token)
            self.party.forget(token)
        while actions := self._later + self.party.take_actions():
            self._later = []
            for action in actions:
                self._do(action)
        for out in self.party.take_messages():
            self.link.send(out.peer, out.data)

    def take(self) -> News:
        """What has become known since the last time."""
        taken, self._news = self._news, News()
        return taken

    def sieve(self, report: Report) -> list[Report]:
        """What the ledger is to hear when this report has come: it, or nothing yet."""
        if self.party.broken:
            return [self._unvouched(report)]
        self.party.report(report)
        actions = self.party.take_actions()
        self._later += [action for action in actions if not isinstance(action, Forward)]
        return [action.report for action in actions if isinstance(action, Forward)]

    def on_effect(self, effect: Effect) -> None:
        """A part that verifies what came from a peer is about to go out."""
        if isinstance(effect, Work) and effect.kind == Kind.VERIFY and effect.copier == self._copier:
            self._checking.add(effect.token)
            self.party.expect(effect.token, [self._stands.get(block, NOWHERE) for block in effect.src])

    def close(self) -> None:
        """Say goodbye to all peers, and hear nothing more."""
        self.party.bye()
        for out in self.party.take_messages():
            self.link.send(out.peer, out.data)
        self._summing.close()
        self.link.close()

    # -- requests ------------------------------------------------------------------------------------------------------

    def offer(
        self, peer: str, lease: int, refs: BlockRefs, names: Sequence[tuple[str, bytes]], request: bytes, tokens: int
    ) -> int | Refusal:
        """Hold these blocks, sum them, and offer them. `names` has the key space and key of each."""
        terms = self.party.books.terms
        if self.party.broken or not self.party.is_met(peer):
            return Refusal(f"{peer} is not met, so nothing can be offered to it")
        most = terms.lease * (terms.renewals + 1) + terms.patience
        hold = self._ledger.hold(lease, refs, deadline=self._ledger.books.now + 2 * most)
        if isinstance(hold, Refusal):
            return hold
        spaces, keys = tuple(space for space, _ in names), tuple(key for _, key in names)
        spaces = spaces[:1] if len(set(spaces)) == 1 else spaces
        goods = Goods(request, tokens, spaces, keys, tuple(refs.blocks), tuple(refs.generations))
        number = next(self._numbers)
        self._leases[number] = lease
        self._summing.begin(number, peer, goods, hold)
        return number

    def withdraw(self, number: int, code: int) -> bool:
        """Call an offer of ours off; False if it is over, or none of ours."""
        summed = self._summing.drop(number)
        if summed is not None:
            self._never(summed, "withdrawn", code)
            return True
        handoff = self._handoffs.get(number)
        return handoff is not None and bool(self.party.withdraw(handoff, code))

    def withdraw_of(self, lease: int, code: int) -> None:
        """Call off what this lease has offered."""
        for number in [number for number, whose in self._leases.items() if whose == lease]:
            self.withdraw(number, code)

    def reset(self, code: int) -> None:
        """The cache is void: so is what was offered of it, and so may be what others offered for it."""
        for number in list(self._leases):
            self.withdraw(number, code)
        for handoff in list(self._borrowed):
            self.party.close(handoff, False, code)

    def close_offer(self, number: int, taken: bool, code: int) -> bool | Refusal:
        """What was done with a peer's offer is over. False if it has ended already, or was none."""
        handoff = self._handoffs.get(number)
        return False if handoff is None else self.party.close(handoff, taken, code)

    # -- what the party says -------------------------------------------------------------------------------------------

    def _do(self, action: Action) -> None:
        match action:
            case LetGo():
                if action.hold is not None:
                    self._engine.feed(Report(action.hold, Outcome.DONE))
            case Announce():
                self._announce(action)
            case Vanish():
                self._vanish(action)
            case Forward():
                self._engine.feed(action.report)
            case Ended():
                self._ended(action)
            case Met() | Strange() | Gone():
                self._peer(action)

    def _announce(self, announce: Announce) -> None:
        self._numbered[announce.handoff] = number = next(self._numbers)
        self._handoffs[number] = announce.handoff
        self._borrowed[announce.handoff] = announce, set()
        lines = self._name(announce.handoff, range(len(announce.goods.keys)))
        goods, peer = announce.goods, announce.peer
        offered = Offered(number, peer, goods.request, goods.tokens, goods.spaces, goods.keys, len(lines))
        self._news = self._news._replace(offers=(*self._news.offers, offered))

    def _name(self, handoff: Handoff, lines: Sequence[int]) -> tuple[int, ...]:
        """Give handles to these lines, as far as they are new and there is room; the lines that got one."""
        announce, all_named = self._borrowed[handoff]
        goods = announce.goods
        if self._pool is None:
            return ()
        made = self._ledger.announce(self._pool, [(goods.space(line), goods.keys[line]) for line in lines])
        if isinstance(made, Refusal):
            return ()
        named = tuple(lines[place] for place in made.lines)
        blocks = tuple(made.refs.blocks)
        for block, line in zip(blocks, named, strict=True):
            self._stands[block] = Source(handoff, line)
        remote = [goods.blocks[line] for line in named]
        for rank, copier in enumerate(self.copiers):
            sums = [goods.seals[rank][line] for line in named] if goods.seals else ()
            copier.route(blocks, announce.peer, handoff.life, remote, sums)
        all_named.update(named)
        self.party.announced(handoff, sorted(all_named))
        return named

    def _vanish(self, vanish: Vanish) -> None:
        over = self._borrowed.pop(vanish.handoff, None)
        if over is None or self._pool is None:
            return
        goods = over[0].goods
        names = {(goods.space(line), goods.keys[line]) for line in vanish.lines}
        self._ledger.vanish(self._pool, sorted(names))
        for handoff, (other, _) in self._borrowed.items():
            again = [line for line, key in enumerate(other.goods.keys) if (other.goods.space(line), key) in names]
            if again:
                self._name(handoff, again)

    def _ended(self, ended: Ended) -> None:
        number = self._numbered.pop(ended.handoff, 0)
        self._handoffs.pop(number, None)
        self._borrowed.pop(ended.handoff, None)
        self._verdict(HandoffVerdict(number, *ended[1:]))

    def _verdict(self, verdict: HandoffVerdict) -> None:
        self._leases.pop(verdict.number, None)
        self._news = self._news._replace(verdicts=(*self._news.verdicts, verdict))

    def _peer(self, news: PeerNews) -> None:
        match news:
            case Met():
                for copier, address in zip(self.copiers, news.hello.addresses, strict=False):  # or it has none
                    copier.meet(news.peer, news.life, address)
            case Gone():
                for copier in self.copiers:
                    copier.leave(news.peer, news.life)
            case Strange():
                self._tell(f"peer {news.peer} is not dealt with, {Code(news.code).name}: {news.sentence}")
        self._news = self._news._replace(peers=(*self._news.peers, news))

    # -- offers of ours ------------------------------------------------------------------------------------------------

    def _offer(self, ready: Summed) -> None:
        """The blocks are summed: offer them, if the peer is still there and the sums could be made."""
        try:
            seals = ready.seals()
        except Exception as error:  # the memory is gone, say: nothing that an offer could be made of
            self._tell(f"blocks for {ready.peer} could not be summed: {type(error).__name__}: {error}")
            self._never(ready, "withdrawn", Code.INTERNAL)
        else:
            handoff = self.party.offer(ready.peer, ready.goods._replace(seals=seals), ready.hold)
            if not isinstance(handoff, Refusal):
                self._handoffs[ready.number], self._numbered[handoff] = handoff, ready.number
                return
            self._tell(handoff.reason)
            self._never(ready, "lost", Code.PEER_LOST)
        self._engine.feed(Report(ready.hold, Outcome.DONE))

    def _never(self, offer: Summed, end: str, code: int) -> None:
        """An offer that the peer has never seen is over."""
        self._verdict(HandoffVerdict(offer.number, "lend", offer.peer, offer.goods.request, end, int(code), False))

    def _unvouched(self, report: Report) -> Report:
        """Nobody vouches any more: what would have to be vouched for has failed."""
        if report.token not in self._checking or report.outcome != Outcome.DONE:
            return report
        why = Failure(-1, int(Code.INTERNAL), "verify", message=f"nobody vouches for it: {self.party.broken}")
        return Report(report.token, Outcome.FAILED, (why,))
