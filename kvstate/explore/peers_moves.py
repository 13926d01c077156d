"""What can happen to two parties, and what comes of it: moves, and the laws that are looked at on the way."""

from __future__ import annotations

from typing import Any, Final

from kvstate.explore.matter import LawBroken
from kvstate.explore.peers_actors import CLOCK, Input, Stepped
from kvstate.explore.peers_choices import Choices, Move
from kvstate.explore.peers_laws import answered, said, untouched
from kvstate.explore.peers_world import CONSUMER, DEAD, NAMES, PRODUCER, Copy, Deal, Left, Load, World, put
from kvstate.machines.messages import Report, Token
from kvstate.machines.verdicts import Refusal
from kvstate.peers.codec import decode
from kvstate.peers.words import (
    Action,
    Announce,
    Ended,
    Forward,
    Goods,
    Handoff,
    Hello,
    LetGo,
    Letter,
    Message,
    Out,
    Source,
    Terms,
    Vanish,
)

PER_LOAD: Final = 1000
PER_TRY: Final = 100
"""`PER_LOAD` and this: how the serial of a token is made."""


class PeerSystem(Choices):
    """The moves of a scope, and what comes of each."""

    # -- the beginning -------------------------------------------------------------------------------------------------

    def terms(self, who: int, life: int) -> Terms:
        """What a process of that name and life says of itself."""
        scope = self.scope
        said: dict[str, Any] = {"name": NAMES[who], "life": life, "fingerprint": "f", "renewals": scope.renewals}
        said |= {"lease": scope.lease, "resend": scope.resend, "patience": scope.patience, "greeting": scope.patience}
        if scope.differs and who == PRODUCER:
            said[scope.differs] = "another"
        return Terms(**said)

    def begin(self) -> World:
        """Two processes that have met and said nothing else, or that are strangers."""
        forms = tuple(self.actors.born(self.terms(who, who + 1)) for who in (PRODUCER, CONSUMER))
        scope = self.scope
        left = Left(*(getattr(scope, name) for name in Left._fields))
        world = World((forms[0], forms[1]), (1, 2), 0, (), (), left)
        for who in (PRODUCER, CONSUMER):
            world = self._step(world, who, ("greet", NAMES[1 - who]))
        if scope.greet:
            return world
        told = 0
        while world.sent >> told:
            world = self._step(world, self._to(told), ("hear", self.letters[told][0].data))
            told += 1
        for who in (PRODUCER, CONSUMER):
            while self.actors.due(world.forms[who]):
                world = self._step(world, who, CLOCK)
        return world if scope.keep else world._replace(sent=0)

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def do(self, world: World, move: Move) -> World:
        """The world after a move. Errors: `LawBroken`."""
        method: Any = getattr(self, f"_{move[0]}")
        after: World = method(world, *move[1:])
        return after

    def _step(self, world: World, who: int, given: Input) -> World:
        """Tell a process something, and do what it says."""
        done = self.actors.step(world.forms[who], given)
        if given[0] in ("take", "close") and isinstance(done.answer, Refusal):
            raise LawBroken(f"P2.taken: what was committed can't be said: {done.answer.reason}")
        forms = (done.form, world.forms[1]) if who == PRODUCER else (world.forms[0], done.form)
        world = world._replace(forms=forms)
        said(done, self._messages(done), self.actors.look(done.form).held, world.lives[who])
        for out in done.out:
            world = world._replace(sent=world.sent | 1 << self._letter(out))
        for action in done.actions:
            world = self._act(world, who, action)
        return world

    def _letter(self, out: Out) -> int:
        number = self.numbers.setdefault(out, len(self.letters))
        if number == len(self.letters):
            letter = decode(out.data)
            assert isinstance(letter, Letter), letter
            self.letters.append((out, letter))
        return number

    def _messages(self, done: Stepped) -> list[Message]:
        return [self.letters[self._letter(out)][1].message for out in done.out]

    def _act(self, world: World, who: int, action: Action) -> World:
        if isinstance(action, Forward):
            return self._forward(world, action.report)
        if not isinstance(action, LetGo | Announce | Vanish | Ended):
            return world
        place = next(place for place, deal in enumerate(world.deals) if deal.handoff == action.handoff)
        deal = world.deals[place]
        if isinstance(action, LetGo):
            deal = deal._replace(let_go=deal.let_go + 1)
        elif isinstance(action, Announce):
            deal = deal._replace(announced=True)
        elif isinstance(action, Vanish):
            deal = deal._replace(vanished=deal.vanished + 1)
        elif who == PRODUCER:
            deal = deal._replace(lend_end=(*deal.lend_end, (action.end, action.vouched)))
        else:
            deal = deal._replace(borrow_end=(*deal.borrow_end, action.end))
        world = world._replace(deals=put(world.deals, place, deal))
        return self._loaded(world) if isinstance(action, Announce) else world

    def _loaded(self, world: World) -> World:
        """A load begins where all is announced that it copies from."""
        begun = {place for load in world.loads for place in load.deals}
        fresh = [place for place, deal in enumerate(world.deals) if deal.announced and place not in begun]
        if len(fresh) < (self.scope.offers if self.scope.joined else 1):
            return world
        load = Load(tuple(fresh), (Copy(),) * self.scope.ranks)
        return world._replace(loads=(*world.loads, *(load,) * self.scope.loads))

    def _forward(self, world: World, report: Report) -> World:
        """The ledger hears of a part. What it has heard already is stale there."""
        place, rest = divmod(report.token.serial - 1, PER_LOAD)
        tries, rank = divmod(rest, PER_TRY)
        load = world.loads[place]
        copy = load.copies[rank]
        if tries != load.tries or copy.stage == "out" or report.token.incarnation != world.lives[CONSUMER]:
            return world
        copies = put(load.copies, rank, copy._replace(stage="out", outcome=report.outcome))
        verdict = load.verdict
        if not verdict and all(one.stage == "out" for one in copies):
            verdict = "committed" if all(one.outcome == "done" for one in copies) else "fell"
            if verdict == "committed" and not all(one.good for one in copies):
                raise LawBroken("P2.bytes: a load was committed with bytes that were read too late")
        load = load._replace(copies=copies, verdict=verdict)
        return world._replace(loads=put(world.loads, place, load))

    # -- the moves -----------------------------------------------------------------------------------------------------

    def _clock(self, world: World, who: int) -> World:
        return self._step(world, who, CLOCK)

    def _hear(self, world: World, number: int) -> World:
        out, letter = self.letters[number]
        who = self._to(number)
        before = self.actors.look(world.forms[who])
        after = self._step(world, who, ("hear", out.data))
        done = self.actors.step(world.forms[who], ("hear", out.data))
        other = letter.life != world.lives[1 - who] or world.forms[1 - who] == DEAD
        if not isinstance(letter.message, Hello):
            other = letter.to != world.lives[who] or (letter.name, letter.life) not in before.met
        seen = self.actors.look(done.form)
        if other:
            untouched(letter, done, before, seen)
        else:
            answered(letter, self._messages(done), seen, self.scope.renewals)
        return after

    def _offer(self, world: World) -> World:
        place, life = len(world.deals), world.lives[PRODUCER]
        number = 1 + sum(deal.handoff.life == life for deal in world.deals)
        deal = Deal(Handoff(life, number), world.lives[CONSUMER])
        world = world._replace(deals=(*world.deals, deal), left=world.left._replace(offers=world.left.offers - 1))
        goods = Goods(b"r%d" % place, 1, ("s",), (b"k%d" % place,), (place,), (1,))
        peer, hold = NAMES[CONSUMER], Token(life, number)
        return self._step(world, PRODUCER, ("offer", peer, goods, hold))

    def _withdraw(self, world: World, place: int) -> World:
        left = world.left._replace(withdrawals=world.left.withdrawals - 1)
        return self._step(world._replace(left=left), PRODUCER, ("withdraw", world.deals[place].handoff))

    def _write(self, world: World, place: int) -> World:
        return world._replace(deals=put(world.deals, place, world.deals[place]._replace(written=True)))

    def _token(self, world: World, place: int, rank: int) -> Token:
        return Token(world.lives[CONSUMER], place * PER_LOAD + world.loads[place].tries * PER_TRY + rank + 1)

    def _at(self, world: World, place: int, rank: int, copy: Copy) -> World:
        load = world.loads[place]
        return world._replace(loads=put(world.loads, place, load._replace(copies=put(load.copies, rank, copy))))

    def _copy(self, world: World, place: int, rank: int) -> World:
        deals = [world.deals[deal] for deal in world.loads[place].deals]
        sources = tuple(Source(deal.handoff, 0) for deal in deals)
        good = not any(deal.written for deal in deals)
        world = self._at(world, place, rank, Copy("copied", good))
        return self._step(world, CONSUMER, ("expect", self._token(world, place, rank), sources))

    def _done(self, world: World, place: int, rank: int) -> World:
        world = self._at(world, place, rank, world.loads[place].copies[rank]._replace(stage="done"))
        return self._step(world, CONSUMER, ("report", Report(self._token(world, place, rank), "done")))

    def _fail(self, world: World, place: int, rank: int) -> World:
        world = world._replace(left=world.left._replace(failures=world.left.failures - 1))
        world = self._at(world, place, rank, world.loads[place].copies[rank]._replace(stage="done"))
        return self._step(world, CONSUMER, ("report", Report(self._token(world, place, rank), "failed")))

    def _double(self, world: World, place: int, rank: int) -> World:
        world = world._replace(left=world.left._replace(doubles=world.left.doubles - 1))
        return self._step(world, CONSUMER, ("report", Report(self._token(world, place, rank), "done")))

    def _close(self, world: World, place: int) -> World:
        load = world.loads[place]
        world = world._replace(loads=put(world.loads, place, load._replace(told=True)))
        for deal in load.deals:
            world = self._step(world, CONSUMER, ("close", world.deals[deal].handoff, load.verdict == "committed"))
        return world

    def _retry(self, world: World, place: int) -> World:
        load = world.loads[place]
        again = Load(load.deals, (Copy(),) * len(load.copies), load.tries + 1)
        left = world.left._replace(retries=world.left.retries - 1)
        return world._replace(loads=put(world.loads, place, again), left=left)

    def _abort(self, world: World, place: int) -> World:
        load = world.loads[place]._replace(verdict="aborted", told=True)
        left = world.left._replace(aborts=world.left.aborts - 1)
        world = world._replace(loads=put(world.loads, place, load), left=left)
        for deal in load.deals:
            world = self._step(world, CONSUMER, ("close", world.deals[deal].handoff, False))
        return world

    def _lost(self, world: World, who: int) -> World:
        left = world.left._replace(losses=world.left.losses - 1)
        return self._step(world._replace(left=left), who, ("peer_lost", NAMES[1 - who]))

    def _bye(self, world: World, who: int) -> World:
        left = world.left._replace(byes=world.left.byes - 1)
        return self._step(world._replace(left=left), who, ("bye",))

    def _die(self, world: World, who: int) -> World:
        name = "producers_die" if who == PRODUCER else "consumers_die"
        left = world.left._replace(**{name: getattr(world.left, name) - 1})
        forms = put(world.forms, who, DEAD)
        loads = world.loads
        if who == CONSUMER:
            loads = tuple(load if load.verdict else load._replace(verdict="died") for load in loads)
            loads = tuple(load._replace(told=True) for load in loads)
        return world._replace(left=left, forms=(forms[0], forms[1]), loads=loads)

    def _rise(self, world: World, who: int) -> World:
        lives = put(world.lives, who, world.lives[who] + 2)
        forms = put(world.forms, who, self.actors.born(self.terms(who, lives[who])))
        world = world._replace(lives=(lives[0], lives[1]), forms=(forms[0], forms[1]))
        return self._step(world, who, ("greet", NAMES[1 - who]))
