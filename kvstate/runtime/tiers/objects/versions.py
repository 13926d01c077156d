"""What is under a name in a store, and how it is changed: by one request that the store decides on, or not at all.

Several processes on several machines do this at once and know nothing of each other. What one of them believes of an
object is true of one *version* of it, which the store calls by its `e_tag`; so whatever puts something in the place of
something else says which version it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvstate.errors import Code, properties_of
from kvstate.runtime.tiers.objects.answers import StoreError
from kvstate.runtime.tiers.objects.bucket import Bucket, Got
from kvstate.runtime.tiers.objects.names import TOMB, is_plausible, tombstone
from kvstate.runtime.tiers.sealed import MAX_TEXT, UNIT, Header, ObjectError, Seal

RACES: Final = 4
"""So often a name is tried for that others write at the same moment."""
MOST_BAD: Final = 4096
"""So many versions are remembered that are bad and could not be replaced yet."""


@dataclass(slots=True)
class Put:
    """What became of a put, as far as that is known."""

    there: bool = False
    """Is the object in the store?"""
    e_tag: str = ""
    """The version that we put, or may have put."""
    ours: bool = False
    """Was it put by us? Else somebody was first."""
    doubtful: bool = False
    """A request was made, and nobody knows what came of it."""


class BadVersionError(ObjectError):
    """An object that must not be served."""

    def __init__(self, error: ObjectError, e_tag: str) -> None:
        super().__init__(error.error.code, error.error.stage, error.error.message)
        self.e_tag = e_tag
        """The version that is bad."""


class Versions:
    """Objects with a block of `length` bytes each. For several threads. Errors: `StoreError` from all that asks."""

    def __init__(self, bucket: Bucket, seal: Seal, length: int) -> None:
        self.bucket = bucket
        """The store."""
        self.seal = seal
        """What makes headers, and looks at them."""
        self._length = length
        self._bad: dict[str, str] = {}

    def put(self, name: str, data: memoryview, put: Put) -> None:
        """Have this object in the store; `put` says what came of it, also where an error ends it.

        Of several who put it, one does, and the others see that it is there. What looks right is not read for that: who
        put it had the same bytes. A tombstone is replaced, and so is what is cut off, or known to be bad.
        """
        for _ in range(RACES):
            try:
                self._put_once(name, data, put)
            except StoreError as error:
                put.doubtful = put.doubtful or error.doubtful
                if error.error.code is not Code.SLOT_CONFLICT:
                    raise
            if put.there:
                self._bad.pop(name, None)
                return
        raise StoreError.of(Code.SLOT_CONFLICT, "commit", f"{name} is written by others all the time")

    def _put_once(self, name: str, data: memoryview, put: Put) -> None:
        try:
            put.e_tag, put.ours, put.there = self.bucket.create(name, data, "commit"), True, True
            return
        except StoreError as error:
            put.doubtful = put.doubtful or error.doubtful
            if error.error.code is not Code.SLOT_CONFLICT:
                raise
        there = self.bucket.look(name, "commit")
        if there is None:
            return
        if self._looks_good(name, there.size, there.e_tag):
            put.e_tag, put.ours, put.there = there.e_tag, put.doubtful, True
            return
        put.e_tag, put.ours, put.there = self.bucket.replace(name, data, there.e_tag, "commit"), True, True

    def is_there(self, name: str) -> bool:
        """Is there an object of the right size that is not known to be bad?"""
        there = self.bucket.look(name, "lookup")
        return there is not None and self._looks_good(name, there.size, there.e_tag)

    def _looks_good(self, name: str, size: int, e_tag: str) -> bool:
        return is_plausible(size, self._length) and self._bad.get(name) != e_tag

    def get(self, name: str, space: str, key: bytes) -> tuple[Header, memoryview]:
        """What the object says of itself, and the bytes of its block: all of it is looked at.

        Errors: `ObjectError` with BLOCK_NOT_FOUND where there is none, `BadVersionError` with what is wrong with it.
        """
        got = self.bucket.get(name, self._length + MAX_TEXT + UNIT, "fetch")
        if got is None or bytes(got.data[: len(TOMB)]) == TOMB:
            raise ObjectError(Code.BLOCK_NOT_FOUND, "fetch", f"there is no object {name}")
        try:
            return self._checked(got, space, key)
        except ObjectError as error:
            if not properties_of(error.error.code).condemns:
                raise
            if len(self._bad) >= MOST_BAD:
                self._bad = {}
            self._bad[name] = got.meta.e_tag
            raise BadVersionError(error, got.meta.e_tag) from None

    def _checked(self, got: Got, space: str, key: bytes) -> tuple[Header, memoryview]:
        data, wanted = got.data, self._length
        if got.meta.size > len(data):
            raise ObjectError(Code.LAYOUT_MISMATCH, "fetch", f"it has {got.meta.size} bytes, far more than a block")
        said, begin = self.seal.read(data[: MAX_TEXT + UNIT], "fetch")
        self.seal.check_name(said, space, key, "fetch")
        if said.length != wanted:
            raise ObjectError(Code.LAYOUT_MISMATCH, "fetch", f"it has {said.length} bytes, a block has {wanted}")
        if len(data) != begin + wanted:
            code = Code.SHORT_READ if len(data) < begin + wanted else Code.LAYOUT_MISMATCH
            raise ObjectError(code, "fetch", f"it is {len(data)} bytes long and should be {begin + wanted}")
        self.seal.check_bytes(said, [data[begin:]], "fetch")
        return said, data[begin:]

    def take_back(self, name: str, put: Put) -> None:
        """Nobody is to find what was put so, if it is still that version."""
        if put.ours:
            self.bury(name, put.e_tag, "taken back")
        elif put.doubtful:
            there = self.bucket.look(name, "rollback")
            if there is not None and is_plausible(there.size, self._length):
                self.bury(name, there.e_tag, "taken back")

    def bury(self, name: str, e_tag: str, why: str) -> None:
        """Put a tombstone in the place of that version, if it is still there."""
        try:
            self.bucket.replace(name, memoryview(tombstone(why)), e_tag, "rollback")
        except StoreError as error:
            if error.error.code is not Code.SLOT_CONFLICT:
                raise
        if self._bad.get(name) == e_tag:
            self._bad.pop(name, None)

    def forget_bad(self) -> None:
        """All names are new ones from here on."""
        self._bad = {}
