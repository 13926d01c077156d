"""Where an object lies in a store, and what lies there when it is gone.

    kvstate-1/MARK/SPACE/KEY

`MARK` is a hash of all that must be equal to share: fingerprint, rank, size of a block, how bytes are summed, and the
secret, where there is one. `SPACE` is one of the key space, so that all of one tenant can be listed and removed, and
`KEY` one of the key. No word of anybody's is in a name; the prefix of the URL stands before it. Since the format is in
it, what is found under a name of ours and can't be read is of nobody else's format: it is bad, and may be replaced.
"""

from __future__ import annotations

import hashlib
from typing import Final
from uuid import uuid4

from kvstate.runtime.tiers.sealed import FORMAT, MAX_TEXT, UNIT, Sum

TOMB: Final = b"KVSTATE TOMBSTONE\n"
"""What stands in the place of an object that was bad, or was taken back. An object can't begin so."""
SPACES: Final = 1024
"""So many key spaces are remembered with their hashes."""


class Names:
    """Names for one fingerprint. For several threads, but `renew` for one."""

    def __init__(self, fingerprint: str, algorithm: Sum, secret: bytes | None) -> None:
        """With a `secret` nobody without it knows a name before he sees one."""
        self._what = _parts(fingerprint.encode(), str(algorithm).encode())
        self._secret = secret or b""
        self._spaces: dict[str, str] = {}
        self._root = self._made(b"")

    @property
    def root(self) -> str:
        """What the names of all of our objects begin with now."""
        return self._root

    def of(self, space: str, key: bytes) -> str:
        """The name of the object of that key."""
        folder = self._spaces.get(space)
        if folder is None:
            if len(self._spaces) >= SPACES:
                self._spaces = {}
            folder = self._spaces[space] = self._hash(space.encode())
        return f"{self._root}{folder}/{self._hash(_parts(space.encode(), key))}"

    def renew(self) -> None:
        """From here on all names are new ones, that nobody has used: nothing stored before is found."""
        self._root = self._made(uuid4().bytes)

    def _made(self, word: bytes) -> str:
        return f"kvstate-{FORMAT}/{self._hash(_parts(self._what, word))}/"

    def _hash(self, data: bytes) -> str:
        return hashlib.blake2b(data, digest_size=16, key=self._secret, person=b"kvstate name").hexdigest()


def _parts(*parts: bytes) -> bytes:
    """Parts end to end, so that their ends can't be moved against each other."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def tombstone(why: str) -> bytes:
    """What to put in the place of an object that is to be replaced by the next store; no two are equal."""
    return TOMB + uuid4().hex.encode() + b"\n" + why.encode()[:1024] + b"\n"


def is_plausible(size: int, length: int) -> bool:
    """May an object of so many bytes be one with a block of `length`? A tombstone is not, nor what is cut off."""
    header = size - length
    return 0 < header <= MAX_TEXT + UNIT and not header % UNIT
