"""Contracts of small pure functions about reports, errors and references, for every code and any whole number."""

from __future__ import annotations

from kvstate.errors.codes import PROPERTIES, Code  # noqa: F401 - contracts speak of it
from kvstate.errors.kverror import code_of, may_be_transient, may_retry
from kvstate.errors.outcome import outcome_of
from kvstate.errors.translate import MAX_LINE, _line  # noqa: F401 - contracts speak of it
from kvstate.machines.messages import BlockRef, Failure, Outcome, Token
from kvstate.machines.verdicts import Refusal, Short

CODES = tuple(Code)


def failure(place: int, transient: bool) -> Failure:
    """Any code, as a copier saw it."""
    return Failure(line=-1, code=int(CODES[place]), stage="fetch", transient=transient)


def a_copier_that_gave_up_proves_nothing(place: int, transient: bool) -> Outcome:
    """
    pre: 0 <= place < len(CODES)
    post: _ == Outcome.TIMEOUT
    """
    return outcome_of((failure(place, transient),), proved=False)


def what_is_proved_is_never_a_timeout_and_never_done(place: int, transient: bool) -> Outcome:
    """
    pre: 0 <= place < len(CODES)
    post: _ not in (Outcome.TIMEOUT, Outcome.DONE)
    """
    return outcome_of((failure(place, transient),), proved=True)


def only_what_condemns_is_broken(place: int, transient: bool) -> Outcome:
    """
    pre: 0 <= place < len(CODES)
    post: (_ == Outcome.BROKEN) == (PROPERTIES[CODES[place]].condemns and not PROPERTIES[CODES[place]].fatal)
    """
    return outcome_of((failure(place, transient),), proved=True)


def one_bad_line_outweighs_a_harmless_one(place: int, bad: int) -> Outcome:
    """
    pre: 0 <= place < len(CODES) and 0 <= bad < len(CODES)
    pre: PROPERTIES[CODES[bad]].condemns and not PROPERTIES[CODES[place]].fatal and not PROPERTIES[CODES[bad]].fatal
    post: _ == Outcome.BROKEN
    """
    return outcome_of((failure(place, False), failure(bad, False)), proved=True)


def bad_bytes_are_never_tried_again(place: int, transient: bool) -> bool:
    """
    pre: 0 <= place < len(CODES) and PROPERTIES[CODES[place]].condemns
    post: not _
    """
    return may_retry(failure(place, transient)) or may_be_transient(CODES[place])


def a_code_has_one_number(place: int) -> Code:
    """
    pre: 0 <= place < len(CODES)
    post: _ is CODES[place]
    """
    return code_of(int(CODES[place]))


def a_line_fits_a_report(line: int) -> int:
    """
    post: -1 <= _ <= MAX_LINE and (_ == line or _ == -1)
    """
    return _line(line)


def two_lives_of_a_block_differ(block: int, one: int, other: int) -> bool:
    """
    post: _ == (one == other)
    """
    return BlockRef(block, one) == BlockRef(block, other)


def two_incarnations_share_no_token(one: int, other: int, serial: int) -> bool:
    """
    post: _ == (one == other)
    """
    return Token(one, serial) == Token(other, serial)


def a_refusal_is_false(wanted: int, free: int, draining: int, quarantined: int) -> bool:
    """
    post: not _
    """
    return bool(Short(wanted, free, draining, quarantined)) or bool(Refusal("no"))
