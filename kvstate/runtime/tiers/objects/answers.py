"""What a store said, or that it said nothing: from obstore's exceptions to codes, and when to leave a store alone.

An answer with a status means what the status means (the table `http` of `errors.toml`); where none came, the kind of
the error says how (the table `obstore`). Both stand in the text of the exception and nowhere else.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Final

from kvstate.errors import Code, KVError, KVException, from_exception, translate
from kvstate.errors.kverror import may_retry

DRIVER: Final = "obstore"
"""The name of the table in `errors.toml`."""
_STATUS: Final = re.compile(r"\bstatus code: (\d{3})\b|\bstatus: (\d{3}),")
_KIND: Final = re.compile(r"\bHttpError \{\s*kind: (\w+)")
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>")
_METADATA: Final = "169.254.169.254"
LOST_IN_A_ROW: Final = 3
"""So many requests in a row without an answer, and the store is away."""
FIRST_PAUSE: Final = 0.25
"""Seconds for which nothing is asked of a store that is away; doubled each time it is still away."""
LONGEST_PAUSE: Final = 10.0
"""Seconds, however long it has been away."""


class StoreError(KVException):
    """What a store answered, or that it did not, or why it was not asked: with a code of the registry."""

    def __init__(self, error: KVError, *, doubtful: bool = False) -> None:
        super().__init__(error)
        self.doubtful = doubtful
        """It is not known whether what was asked has been done, or will be."""

    @classmethod
    def of(cls, code: Code, stage: str, message: str, *, transient: bool = False) -> StoreError:
        """One of our own."""
        return cls(KVError(code, stage, driver="object", message=message, retryable=transient))

    @property
    def transient(self) -> bool:
        """May the same request go well another time?"""
        return self.error.retryable

    @property
    def unanswered(self) -> bool:
        """Did nobody answer?"""
        return self.error.code in (Code.LOAD_TIMEOUT, Code.PEER_LOST)


def heard(problem: Exception, stage: str) -> StoreError:
    """What an exception of obstore means."""
    text = str(problem)
    said = text.partition("\n\nDebug source:")[0]
    if _METADATA in said:
        said = "there are no credentials in the environment (AWS_ACCESS_KEY_ID, ...), and no host to give any"
    status, kind, word = _STATUS.search(text), _KIND.search(text), _CODE.search(text)
    number = int(status.group(1) or status.group(2)) if status is not None else 0
    if number:
        failure = translate("http", number, stage=stage, message=f"{word.group(1)}: {said}" if word else said)
    elif kind is not None:
        failure = translate(DRIVER, kind.group(1), stage=stage, message=said)
    else:
        failure = from_exception(problem, stage=stage, driver=DRIVER)._replace(message=said)
    name = type(problem).__name__
    error = KVError(
        Code(failure.code), stage, driver=failure.driver, raw=failure.raw, type=name, message=failure.message,
        retryable=may_retry(failure),
    )  # fmt: skip
    return StoreError(error, doubtful=number >= 500 or (not number and kind is not None))


@dataclass(slots=True)
class _Away:
    until: float
    pause: float
    since: float
    trying: bool = False


class Patience:
    """Leaves a store alone that does not answer: after some requests in a row without an answer the next ones fail at
    once, and now and then a single one is made, to see whether it is there again.

    Else each lookup would wait for a store that is down, and each copy hold its blocks until its request has ended. For
    several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost = 0
        self._away: _Away | None = None

    def lets_ask(self, now: float) -> bool:
        """May a request be made? Of a store that is away by one at a time, when its pause is over."""
        with self._lock:
            away = self._away
            if away is None:
                return True
            if now < away.until or away.trying:
                return False
            away.trying = True
            return True

    def may_ask(self, now: float, stage: str) -> None:
        """Errors: `StoreError` with PEER_LOST where the store is to be left alone."""
        if not self.lets_ask(now):
            away = self._away
            text = "" if away is None else f" for {now - away.since:.1f} s"
            raise StoreError.of(Code.PEER_LOST, stage, f"not asked: the store has not answered{text}", transient=True)

    def told(self, now: float, *, answered: bool) -> None:
        """A request has ended."""
        if answered and self._away is None and not self._lost:
            return
        with self._lock:
            if answered:
                self._lost, self._away = 0, None
                return
            self._lost += 1
            if self._away is not None:
                pause = min(2 * self._away.pause, LONGEST_PAUSE) if self._away.trying else self._away.pause
                until = now + pause if self._away.trying else self._away.until
                self._away = _Away(until, pause, self._away.since)
            elif self._lost >= LOST_IN_A_ROW:
                self._away = _Away(now + FIRST_PAUSE, FIRST_PAUSE, now)
