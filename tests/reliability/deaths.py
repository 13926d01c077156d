"""A process that dies while it stores: where it was then, and what the next one finds."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kvstate.machines.verdicts import Hit
from tests.reliability.rig import SIZE, SPACE, Rig, content

SAFE, VICTIM = b"stored before", b"being stored"
CHILD = """
import os, signal, sys
from pathlib import Path
from kvstate.runtime.tiers import folder as place
from kvstate.runtime.tiers.sealed import Seal, Sum
from kvstate.runtime.tiers.settings import Sync

path, where, victim, safe, data, other = Path(sys.argv[1]), sys.argv[2], *map(bytes.fromhex, sys.argv[3:])
path.mkdir(parents=True)
seal = Seal("model 1 / rank 0 of 1 / blocks of SIZE bytes", algorithm=Sum.XXH3)
folder = place.Folder(path / "rank-0", seal, sync=Sync.NONE)
folder.write(1, "SPACE", safe, [other])
folder.commit(1)
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if where == "in the middle of the bytes":
    place.write_all = lambda file, pieces: (os.write(file, b"".join(pieces)[:2000]), die())
folder.write(2, "SPACE", victim, [data])
if where == "after the bytes, before the commit":
    die()
folder.commit(2)
if where == "after the commit":
    die()
folder.clear()
if where == "after a reset, before the objects are removed":
    die()
""".replace("SIZE", str(SIZE)).replace("SPACE", SPACE)
DEATHS = (
    "in the middle of the bytes",
    "after the bytes, before the commit",
    "after the commit",
    "after a reset, before the objects are removed",
)


@dataclass(frozen=True)
class Found:
    """What the next process found."""

    recovered: int
    removed: int
    safe: bool
    """Is what was stored before a hit, with its bytes?"""
    victim: bool
    """Is what was being stored a hit?"""
    wrong: bool
    """Did anything come with bytes that are not its own?"""
    left: int
    """Files that nobody knows."""


def die(where: str, path: Path) -> Found:
    """Kill a process there, and look at what the next one makes of its folder."""
    said = [VICTIM, SAFE, content(VICTIM), content(SAFE)]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), where, *(one.hex() for one in said)], check=False, capture_output=True
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    rig = Rig(path)
    try:
        rig.settle()
        found = rig.kv.recovered["disk"]
        served = {key: _served(rig, key) for key in (SAFE, VICTIM)}
        wrong = any(data is not None and data != content(key) for key, data in served.items())
        look = rig.look()
        swept = list(path.glob("rank-0/swept/*"))
        return Found(
            found.recovered, found.removed, served[SAFE] is not None, served[VICTIM] is not None, wrong,
            look.unseen + look.unnamed + len(swept) + found.strange + found.refused,
        )  # fmt: skip
    finally:
        rig.close()


def _served(rig: Rig, key: bytes) -> bytes | None:
    lease = rig.kv.open(SPACE)
    hit = rig.kv.lookup(lease, [key])  # type: ignore[arg-type]
    assert isinstance(hit, Hit)
    rig.kv.finish(lease)  # type: ignore[arg-type]
    return rig.served(key) if hit.below else None
