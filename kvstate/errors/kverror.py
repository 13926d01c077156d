"""One error, with all that is known of it (law L10): what, at which stage, to which block, in which attempt, and why.

A `KVError` is a value and is passed, stored and compared like one; errors on the hot path are not raised. Whoever
prefers an exception at the end of the chain raises `KVException(error)`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kvstate.errors.codes import PROPERTIES, Code, Properties
from kvstate.errors.text import MAX_RAW, clean
from kvstate.machines.messages import Failure, Outcome, Token

_NUMBERS: dict[int, Code] = {int(code): code for code in Code}


def code_of(number: int) -> Code:
    """The code with this number; UNKNOWN if this version has none (a newer worker may know more than we do)."""
    return _NUMBERS.get(number, Code.UNKNOWN)


def properties_of(code: int) -> Properties:
    """What the registry says of a code, or of the number of one."""
    return PROPERTIES[code_of(code)]


def may_retry(failure: Failure) -> bool:
    """May the same part be tried again? A retryable code may, and so may what a driver marks transient."""
    return properties_of(failure.code).retryable or (failure.transient and may_be_transient(failure.code))


def may_be_transient(code: int) -> bool:
    """Is a driver believed that says so of this code? Never of bad bytes, a broken device or a cancellation."""
    has = properties_of(code)
    return has.outcome == Outcome.DENIED and not has.fatal


@dataclass(frozen=True, slots=True)
class KVError:
    """One thing that went wrong. Numbers that are not known are -1, words that are not known are empty."""

    code: Code
    """What went wrong; stable for ever."""
    stage: str
    block: int = -1
    generation: int = -1
    token: Token | None = None
    """The part that it happened to; `None` where there was none (a lookup, a deadline)."""
    attempt: int = 0
    retryable: bool = False
    """May the same part be tried again at once?"""
    driver: str = ""
    """Whose code `raw` is."""
    raw: str = ""
    type: str = ""
    """The full name of the exception's class, if there was one."""
    message: str = ""
    """The driver's own words, cut where they are long."""

    @classmethod
    def of(
        cls,
        failure: Failure,
        *,
        block: int = -1,
        generation: int = -1,
        token: Token | None = None,
        attempt: int = 0,
    ) -> KVError:
        """What a worker saw, with what only the ledger knows. A number that is no code is kept in `raw`."""
        code = code_of(failure.code)
        raw = failure.raw
        if code != failure.code:
            raw = clean(f"code {failure.code} {raw}".rstrip(), MAX_RAW)
        return cls(
            code=code,
            stage=failure.stage,
            block=block,
            generation=generation,
            token=token,
            attempt=attempt,
            retryable=may_retry(failure),
            driver=failure.driver,
            raw=raw,
            type=failure.type,
            message=failure.message,
        )

    def __str__(self) -> str:
        """One line: the code, the place, the sentence of the registry, and the driver's own words."""
        where = [f"{self.code.name} at {self.stage or 'no known stage'}"]
        if self.token is not None:
            where.append(f"part {self.token.serial} of incarnation {self.token.incarnation} attempt {self.attempt}")
        if self.block >= 0:
            where.append(f"block {self.block} gen {self.generation}")
        words = [word for word in (self.type, self.message) if word]
        if self.raw:
            words.insert(0, f"{self.driver} {self.raw}".strip())
        text = f"{', '.join(where)}: {PROPERTIES[self.code].sentence}"
        if words:
            text += f" [{': '.join(words)}]"
        text += " Retryable." if self.retryable else " Not retryable."
        return "".join(sign if sign.isprintable() else _escaped(sign) for sign in text)

    def to_json(self) -> str:
        """One JSON object on one line; `from_json` gives the same error back."""
        return json.dumps(
            {
                "code": self.code.name,
                "number": int(self.code),
                "stage": self.stage,
                "block": self.block,
                "generation": self.generation,
                "token": None if self.token is None else list(self.token),
                "attempt": self.attempt,
                "retryable": self.retryable,
                "driver": self.driver,
                "raw": self.raw,
                "type": self.type,
                "message": self.message,
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> KVError:
        """The error that `to_json` wrote. Raises `ValueError`, in one sentence, for anything else."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"not an error as JSON: {problem}") from None
        if not isinstance(found, dict) or found.keys() != _JSON.keys():
            raise ValueError(f"not an error as JSON: expected an object with the keys {', '.join(_JSON)}")
        for key, kind in _JSON.items():
            if type(found[key]) is not kind and not (key == "token" and found[key] is None):
                raise ValueError(f'not an error as JSON: "{key}" must be of type {kind.__name__}')
        return cls(code=_code(found), token=_token(found.pop("token")), **found)


_JSON: dict[str, type] = {
    "code": str,
    "number": int,
    "stage": str,
    "block": int,
    "generation": int,
    "token": list,
    "attempt": int,
    "retryable": bool,
    "driver": str,
    "raw": str,
    "type": str,
    "message": str,
}


def _code(found: dict[str, Any]) -> Code:
    """Takes name and number out of `found`; they must agree, since both are stable for ever."""
    name, number = found.pop("code"), found.pop("number")
    code = Code.__members__.get(name)
    if code is None:
        raise ValueError(f'not an error as JSON: there is no code "{clean(name, 40)}"')
    if code != number:
        raise ValueError(f"not an error as JSON: the number of {name} is {int(code)}, not {number}")
    return code


def _token(found: list[Any] | None) -> Token | None:
    if found is None:
        return None
    if len(found) != 2 or any(type(number) is not int for number in found):
        raise ValueError('not an error as JSON: "token" must be two whole numbers')
    return Token(*found)


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


class KVException(Exception):  # noqa: N818, it carries an error, which has that name already
    """An error for embedders who want to raise one. It says nothing that `error` does not say."""

    def __init__(self, error: KVError) -> None:
        super().__init__(error)
        self.error = error
