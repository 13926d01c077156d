"""Objects read from a folder, some together: their files are opened, then their bytes come, then these are looked at.

Of what a core has in its caches little is left when a block has been copied. So what is to be done beside the copies
takes half the time when it is done for several blocks at once, a call after another of its kind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import xxhash

from kvstate.errors import Code
from kvstate.runtime.tiers.files import READ, SHARE, head, read_all, read_summed, read_whole
from kvstate.runtime.tiers.sealed import Buffer, Frame, Header, ObjectError, Seal, bytes_in

Wanted = tuple[str, str, bytes, Sequence[bytearray | memoryview]]
"""The name of a file, the namespace and key that it should have, and where its bytes go, end to end."""
Unwanted = Callable[[int], bool]
"""Asked before the bytes of each, by its place: are they, and all behind them, no longer wanted?"""
_Opened = tuple[int, int, Frame, bytearray]
"""A place, a file, what its header should be, and where it goes, as far as it says anything."""


def read_each(
    objects: str, seal: Seal, wanted: Sequence[Wanted], length: int, unwanted: Unwanted | None
) -> list[Exception | None]:
    """Read and check these, with blocks of `length` bytes, from the shelves in `objects`; what was wrong with each.

    What is no longer wanted, and all behind it, has no outcome. Where something was wrong, memory holds anything.
    """
    outcomes: list[Exception | None] = [None] * len(wanted)
    opened: list[_Opened] = []
    try:
        for at, (name, namespace, key, _) in enumerate(wanted):
            try:
                frame = seal.frame(namespace, length, len(key))
                opened.append((at, os.open(f"{objects}/{name[0]}/{name}", READ), frame, bytearray(frame.said)))
            except FileNotFoundError:
                outcomes[at] = ObjectError(Code.BLOCK_NOT_FOUND, "fetch", f"there is no file {name}")
            except OSError as error:
                outcomes[at] = error
        _fill(opened, seal, wanted, length, unwanted, outcomes)
    finally:
        for one in opened:
            os.close(one[1])
    return outcomes


def _fill(
    opened: list[_Opened],
    seal: Seal,
    wanted: Sequence[Wanted],
    length: int,
    unwanted: Unwanted | None,
    outcomes: list[Exception | None],
) -> None:
    came: list[tuple[int, str]] = []
    hasher = seal.hasher
    for at, file, frame, start in opened:
        if unwanted is not None and unwanted(at):
            del outcomes[at:]
            break
        into, digest = wanted[at][3], ""
        try:
            if hasher is None or len(into) > 1 or length <= SHARE:
                there = read_whole(file, [start, frame.rest], into)
                if hasher is not None and len(into) == 1:  # now, while they are in the core's cache
                    digest = xxhash.xxh3_128_hexdigest(into[0])
            else:
                there, digest = read_summed(file, [start, frame.rest], memoryview(into[0]), hasher)
        except OSError as error:
            there, outcomes[at] = 0, error
        came.append((there, digest))
    for (at, file, frame, start), (there, digest) in zip(opened, came, strict=False):
        if outcomes[at] is not None:
            continue
        _, namespace, key, into = wanted[at]
        if there == frame.begin + length and seal.is_ours(frame, start, key, into, digest):
            continue
        try:  # what is it then? Or was it read in pieces?
            said, begin = head(seal, file, "fetch")
            check_header(seal, said, namespace, key, into, "fetch")
            read_all(file, begin, into)
            seal.check_bytes(said, into, "fetch")
        except (ObjectError, OSError) as error:
            outcomes[at] = error


def check_header(seal: Seal, said: Header, namespace: str, key: bytes, pieces: Sequence[Buffer], stage: str) -> None:
    """Is it of this key, and of so many bytes? Errors: `ObjectError`."""
    seal.check_name(said, namespace, key, stage)
    wanted = bytes_in(pieces)
    if said.length != wanted:
        raise ObjectError(Code.LAYOUT_MISMATCH, stage, f"it has {said.length} bytes, a block has {wanted}")
