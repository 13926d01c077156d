"""The laws of `spec/peers/properties.toml`, as the search looks at them: of one step of a party, and of a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvstate.explore.matter import LawBroken
from kvstate.explore.peers_actors import Actors, Seen, Stepped
from kvstate.explore.peers_world import CONSUMER, DEAD, PRODUCER, Deal, World
from kvstate.peers.words import Announce, Ended, Forward, Handoff, Hello, LetGo, Letter, Message, Offer, Vanish, Word

ABOUT_HANDOFFS: Final = (LetGo, Announce, Vanish, Forward, Ended)
"""Actions that a message of another life must not cause."""
CLOSING: Final = {
    ("lend", "withdrawn"): "withdrawn",
    ("lend", "expired"): "withdrawn",
    ("borrow", "taken"): "taken",
    ("borrow", "refused"): "refused",
    ("borrow", "expired"): "refused",
}
"""What an end says to the other side."""
ANSWERS: Final = {
    "check": {"vouch", "deny"},
    "taken": {"over"},
    "refused": {"over"},
    "withdrawn": {"void"},
    "renew": {"renewed", "withdrawn"},
}
"""What each word is answered with."""


def said(done: Stepped, messages: Sequence[Message], held: frozenset[Handoff], life: int) -> None:
    """P3.vouch and P4.said: what is said fits what was done. Errors: `LawBroken`."""
    words = {(word.say, word.number) for word in messages if isinstance(word, Word)}
    for say, number in words:
        if say == "vouch" and Handoff(life, number) not in held:
            raise LawBroken(f"P3.vouch: handoff {number} was vouched for and is not held")
    for action in done.actions:
        if isinstance(action, Ended):
            unknown = (action.side, action.end, action.vouched) == ("borrow", "expired", True)
            word = None if unknown else CLOSING.get((action.side, action.end))
            if word and (word, action.handoff.number) not in words:
                raise LawBroken(f"P4.said: {action.side} {action.end} without the word {word}")


def untouched(letter: Letter, done: Stepped, before: Seen, after: Seen) -> None:
    """P5.life: a message of another life has changed nothing about handoffs. Errors: `LawBroken`."""
    if after.handoffs != before.handoffs or any(isinstance(action, ABOUT_HANDOFFS) for action in done.actions):
        raise LawBroken(f"P5.life: a message of another life has changed something: {letter}")


def answered(letter: Letter, messages: Sequence[Message], after: Seen, renewals: int) -> None:
    """P4.answered and P4.heard: a word has its answer, and what it ends has ended. Errors: `LawBroken`."""
    message = letter.message
    words = {word.say for word in messages if isinstance(word, Word)}
    missing = False
    if isinstance(message, Hello):
        asks = message.asks and letter.name in after.names
        missing = asks and not any(isinstance(one, Hello) for one in messages)
    elif isinstance(message, Offer):
        missing = Handoff(letter.life, message.number) in after.alive and "received" not in words
    elif isinstance(message, Word):
        wanted = ANSWERS.get(message.say)
        too_often = message.say == "renew" and message.nonce > renewals
        missing = wanted is not None and not words & wanted and not too_often
        ends = message.say in ("withdrawn", "taken", "refused")
        if ends and Handoff(message.life, message.number) in after.alive | after.held:
            raise LawBroken(f"P4.heard: handoff {message.number} goes on after {message.say}")
    if missing:
        raise LawBroken(f"P4.answered: nothing was answered to {message}")


# --- Of a state -----------------------------------------------------------------------------------------------------


def look(actors: Actors, world: World) -> None:
    """The laws that can be seen in a state. Errors: `LawBroken`."""
    for form in world.forms:
        if form != DEAD:
            actors.look(form)
    for place, deal in enumerate(world.deals):
        committed = any(load.verdict == "committed" and place in load.deals for load in world.loads)
        _once(deal)
        _sides(actors, world, deal)
        _true(deal, committed)


def _once(deal: Deal) -> None:
    number = deal.handoff.number
    if deal.let_go > 1:
        raise LawBroken(f"P3.once: the blocks of handoff {number} were let go of {deal.let_go} times")
    if len(deal.lend_end) > 1 or len(deal.borrow_end) > 1:
        raise LawBroken(f"P1.one_end: handoff {number} has the ends {deal.lend_end} and {deal.borrow_end}")
    if deal.borrow_end and not deal.announced:
        raise LawBroken(f"P1.one_end: handoff {number} has an end and never began")


def _sides(actors: Actors, world: World, deal: Deal) -> None:
    number, (producer, consumer) = deal.handoff.number, world.forms
    if producer != DEAD and deal.handoff.life == world.lives[PRODUCER]:
        held = deal.handoff in actors.look(producer).held
        words = f"handoff {number} is {'' if held else 'not '}offered"
        if held == bool(deal.let_go):
            raise LawBroken(f"P3.held: {words}, let go of {deal.let_go} times")
        if held == bool(deal.lend_end):
            raise LawBroken(f"P1.one_end: {words}, told {deal.lend_end}")
    if consumer != DEAD and deal.consumer == world.lives[CONSUMER] and deal.announced:
        alive = deal.handoff in actors.look(consumer).alive
        if alive == bool(deal.borrow_end):
            raise LawBroken(f"P1.one_end: handoff {number} is {'' if alive else 'not '}alive, told {deal.borrow_end}")
        if deal.vanished != (not alive):
            said = f"handoff {number} is {'' if alive else 'not '}alive, its names vanished {deal.vanished} times"
            raise LawBroken(f"P4.vanished: {said}")


def _true(deal: Deal, committed: bool) -> None:
    number = deal.handoff.number
    for end, vouched in deal.lend_end:
        if end == "delivered" and not committed:
            raise LawBroken(f"P2.delivered: handoff {number} is delivered, and the consumer has not committed")
        if end == "returned" and committed:
            raise LawBroken(f"P2.returned: handoff {number} is returned, and the consumer has committed")
        if not vouched and committed:
            raise LawBroken(f"P7.doubt: handoff {number} ended {end} without a vouch, and the consumer has committed")
