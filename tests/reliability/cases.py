"""Faults, each where and when it strikes. A case breaks one thing; `run` measures what came of it."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kvstate.machines.messages import Report
from kvstate.runtime import pieces
from kvstate.runtime.tiers import disk as disk_module
from kvstate.runtime.tiers import folder as folder_module
from kvstate.runtime.tiers import reading as reading_module
from kvstate.runtime.tiers.sealed import Seal, Sum
from tests.reliability.rig import (
    BYSTANDERS,
    DEADLINE,
    GRACE,
    LATER,
    PATIENCE,
    SPACE,
    STORED,
    VICTIMS,
    Everything,
    Rig,
    Told,
    content,
    rig_in,
    verdict_of,
)

Inject = Callable[[Rig], Any]
"""Breaks something of a rig; a context manager undoes it, anything else stays broken."""


@dataclass(frozen=True)
class Case:
    """What is done (`store` or `load`) in which tier, at which stage it goes wrong, and how."""

    tier: str
    does: str
    stage: str
    kind: str
    inject: Inject
    waits: str = ""
    """`deadline`: nothing comes, and time passes; `cancel`: the caller calls it off."""
    takes_tier: bool = False
    """All that rests in the tier is hit by it."""

    @property
    def name(self) -> str:
        return f"{self.tier}: {self.does}, {self.stage}: {self.kind}"


@dataclass(frozen=True)
class Outcome:
    """What was measured."""

    told: Told
    before: Everything
    after: Everything
    """When it was over for the caller."""
    end: Everything
    """When all copies were proved over."""
    goes_on: bool
    """Another store and load in each tier went well afterwards, with the right bytes."""
    bystanders: bool
    """Nothing happened to anything else."""


def run(case: Case, path: Path) -> Outcome:
    with rig_in(path) as rig, ExitStack() as undo:
        before = rig.look()
        stale = rig.kv.ledger.books.stale
        done = case.inject(rig)
        hang = undo.enter_context(done) if hasattr(done, "__enter__") else None
        if case.does == "store":
            lease, refs = _owning(rig)
            number = rig.offload(lease, refs, case.tier)
        else:
            lease, number = rig.load(next(key for key, tier in VICTIMS.items() if tier == case.tier))
        if hang is not None:
            assert hang.entered.wait(PATIENCE), f"{case.name}: nothing hangs"
        told = _wait(rig, case, number)
        after = rig.look()
        verdict = verdict_of(told, number)
        assert verdict is not None, f"{case.name}: no verdict"
        if hang is not None:
            hang.go.set()
        rig.kv.finish(lease)
        undo.close()
        rig.kv.fence()
        rig.settle()
        rig.pass_time(LATER)
        rig.settle()
        end = rig.look()
        telling = Told(
            str(verdict.ending), getattr(verdict, "tokens", None), verdict.errors, rig.kv.ledger.books.stale - stale
        )
        return Outcome(telling, before, after, end, _goes_on(rig), _untouched(rig, case, end))


def _owning(rig: Rig) -> tuple[int, Any]:
    """A lease that has the block that is to be stored."""
    lease = rig.kv.open(SPACE)
    hit = rig.kv.lookup(lease, [STORED])  # type: ignore[arg-type]
    return lease, hit.blocks  # type: ignore[return-value,union-attr]


def _wait(rig: Rig, case: Case, number: int) -> list[Any]:
    if case.waits == "cancel":
        rig.kv.cancel(number)
    if not case.waits:
        return rig.turns(lambda told: verdict_of(told, number) is not None)
    told = rig.pass_time(0.0 if case.waits == "cancel" else DEADLINE)
    for _ in range(3):
        told += rig.pass_time(GRACE)
    return told


def _goes_on(rig: Rig) -> bool:
    fresh = {tier: f"afterwards, {tier}".encode() for tier in ("host", "disk")}
    for tier, key in fresh.items():
        lease, refs = rig.sealed(key)
        number = rig.offload(lease, refs, tier)
        told = rig.turns(lambda told, number=number: verdict_of(told, number) is not None)
        if str(verdict_of(told, number).ending) != "committed":
            return False
        rig.kv.finish(lease)
    rig.flush()
    return all(rig.served(key) == content(key) for key in fresh.values())


def _untouched(rig: Rig, case: Case, end: Everything) -> bool:
    """Are the bystanders hits still, where they were, with their own bytes?"""
    where = {(tier, key) for key, tier in BYSTANDERS.items() if not (case.takes_tier and tier == case.tier)}
    served = None if case.takes_tier else content(b"disk bystander")
    return where <= end.hits and rig.served(b"disk bystander") == served


# --- How things break -----------------------------------------------------------------------------------------------


@contextmanager
def raising(place: Any, name: str, error: BaseException, times: int = 99) -> Iterator[None]:
    """A function raises, the first so many times."""
    real, left = getattr(place, name), [times]

    def broken(*args: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise error
        return real(*args, **options)

    with patch.object(place, name, broken):
        yield


class Hang:
    """Somebody waits in there, and goes on when told to."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()


@contextmanager
def hanging(place: Any, name: str) -> Iterator[Hang]:
    """A function waits, until it is let go, and then does what it always did."""
    real, hang = getattr(place, name), Hang()

    def slow(*args: Any, **options: Any) -> Any:
        hang.entered.set()
        hang.go.wait(PATIENCE)
        return real(*args, **options)

    with patch.object(place, name, slow):
        yield hang


class Os:
    """The module `os`, but for one function of it."""

    def __init__(self, name: str, instead: Callable[..., Any]) -> None:
        self._name, self._instead = name, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead if name == self._name else getattr(os, name)


def call(name: str, number: int, times: int = 99) -> Inject:
    """A call of the system fails with this errno, the first so many times, in the folder of the disk."""

    @contextmanager
    def broken(rig: Rig) -> Iterator[None]:
        left = [times]

        def fails(*args: Any, **options: Any) -> Any:
            if left[0] and (name != "open" or ".part" in str(args[0]) or "objects" in str(args[0])):
                left[0] -= 1
                raise OSError(number, os.strerror(number), str(args[0]) if isinstance(args[0], str) else None)
            return getattr(os, name)(*args, **options)

        with patch.object(folder_module, "os", Os(name, fails)), patch.object(reading_module, "os", Os(name, fails)):
            yield

    return broken


def copying(error: BaseException, times: int = 99) -> Inject:
    return lambda rig: raising(pieces, "move", error, times)


def writing(error: BaseException, times: int = 99) -> Inject:
    return lambda rig: raising(folder_module, "write_all", error, times)


def reading(error: BaseException, times: int = 99) -> Inject:
    return lambda rig: raising(reading_module, "read_whole", error, times)


def carrying(error: BaseException) -> Inject:
    """The copier itself breaks, in the middle of a part."""
    return lambda rig: raising(disk_module.Disk, "_do", error)


def hang(place: Any, name: str) -> Inject:
    return lambda rig: hanging(place, name)


def reports(change: Callable[[Report], list[Report]]) -> Inject:
    """What a copier says comes otherwise than it was said."""

    @contextmanager
    def broken(rig: Rig) -> Iterator[None]:
        inbox = rig.kv.inbox
        real = inbox.put

        def put(report: Report) -> None:
            for one in change(report):
                real(one)

        with patch.object(type(inbox), "put", lambda self, report: put(report) if self is inbox else None):
            yield

    return broken


def in_host(change: Callable[[Any], None]) -> Inject:
    """The bytes of the victim in host memory are changed."""
    return lambda rig: change(rig.memory(rig.block("host", b"in the host")))


def _flip(data: Any) -> None:
    data[100] ^= 1


def seal_of_host(change: Callable[[Any, int], None]) -> Inject:
    """What the host pool keeps of its block is changed."""

    def broken(rig: Rig) -> None:
        pool, slot = rig.kv.memories[0].place(rig.block("host", b"in the host"))
        change(pool.seals, slot)

    return broken


def on_disk(change: Callable[[Path], None], key: bytes = b"on the disk") -> Inject:
    """The file of the victim is changed."""
    return lambda rig: change(rig.file(key))


def _flip_at(at: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return change


def _cut_to(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def _other(fingerprint: str = "model 1 / rank 0 of 1 / blocks of 4096 bytes", *, length: int = 4096,
           key: bytes = b"on the disk", secret: bytes | None = None) -> Callable[[Path], None]:  # fmt: skip
    """In the place of the object lies a whole one that is another."""

    def change(path: Path) -> None:
        seal = Seal(fingerprint, algorithm=Sum.BLAKE3 if secret else Sum.XXH3, secret=secret)
        data = b"x" * length
        path.write_bytes(seal.header(SPACE, key, [data]) + data)

    return change


def _link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _version(path: Path) -> None:
    path.write_bytes(b"OTHERFMT" + path.read_bytes()[8:])


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def vanish(rig: Rig) -> None:
    """The whole folder is removed under the runtime."""
    shutil.rmtree(rig.path / "rank-0" / "objects")


def _nothing(seals: Any, slot: int) -> None:
    seals.open([slot])


IO, SPACE_OUT, ACCESS, READ_ONLY, FILES = errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EMFILE
WRITE_HANGS, READ_HANGS = hang(folder_module, "write_all"), hang(reading_module, "read_whole")
CASES: tuple[Case, ...] = (
    Case("host", "store", "write", "the copy raises MemoryError", copying(MemoryError())),
    Case("host", "store", "write", "the copy raises once", copying(MemoryError(), 1)),
    Case("host", "store", "write", "the copy raises RuntimeError", copying(RuntimeError("driver"))),
    Case("host", "store", "write", "the copy hangs, and lands late", hang(pieces, "move"), waits="deadline"),
    Case("host", "store", "write", "it is called off while it copies", hang(pieces, "move"), waits="cancel"),
    Case("host", "store", "report", "its report is lost", reports(lambda report: []), waits="deadline"),
    Case("host", "store", "report", "its report comes twice", reports(lambda report: [report, report])),
    Case("host", "load", "fetch", "the copy raises MemoryError", copying(MemoryError())),
    Case("host", "load", "fetch", "the copy raises once", copying(MemoryError(), 1)),
    Case("host", "load", "fetch", "the copy raises RuntimeError", copying(RuntimeError("driver"))),
    Case("host", "load", "fetch", "the copy hangs, and lands late", hang(pieces, "move"), waits="deadline"),
    Case("host", "load", "fetch", "it is called off while it copies", hang(pieces, "move"), waits="cancel"),
    Case("host", "load", "report", "its report is lost", reports(lambda report: []), waits="deadline"),
    Case("host", "load", "report", "its report comes twice", reports(lambda report: [report, report])),
    Case("host", "load", "verify", "a bit of the host block has flipped", in_host(_flip)),
    Case("host", "load", "verify", "the host block holds another key",
         seal_of_host(lambda seals, slot: seals.keys.__setitem__(slot, b"another"))),
    Case("host", "load", "verify", "the store into the host block never ended", seal_of_host(_nothing)),
    Case("disk", "store", "write", "no space (ENOSPC)", writing(OSError(SPACE_OUT, "no space"))),
    Case("disk", "store", "write", "no space once", writing(OSError(SPACE_OUT, "no space"), 1)),
    Case("disk", "store", "write", "the disk fails (EIO)", writing(OSError(IO, "disk"))),
    Case("disk", "store", "write", "no permission (EACCES)", call("open", ACCESS)),
    Case("disk", "store", "write", "mounted read-only (EROFS)", call("open", READ_ONLY)),
    Case("disk", "store", "write", "too many open files (EMFILE), once", call("open", FILES, 1)),
    Case("disk", "store", "write", "the copier itself breaks", carrying(ZeroDivisionError("a bug"))),
    Case("disk", "store", "write", "the write hangs, and lands late", WRITE_HANGS, waits="deadline"),
    Case("disk", "store", "write", "it is called off while it writes", WRITE_HANGS, waits="cancel"),
    Case("disk", "store", "commit", "the disk fails (EIO)", call("rename", IO)),
    Case("disk", "store", "commit", "no permission (EACCES)", call("rename", ACCESS)),
    Case("disk", "store", "commit", "no space (ENOSPC), once", call("rename", SPACE_OUT, 1)),
    Case("disk", "store", "commit", "the folder of the objects has vanished", vanish, takes_tier=True),
    Case("disk", "store", "report", "its report is lost", reports(lambda report: []), waits="deadline"),
    Case("disk", "store", "report", "its report comes twice", reports(lambda report: [report, report])),
    Case("disk", "load", "fetch", "the file is gone", on_disk(Path.unlink)),
    Case("disk", "load", "fetch", "the folder of the objects has vanished", vanish, takes_tier=True),
    Case("disk", "load", "fetch", "a bit of the bytes has flipped", on_disk(_flip_at(-100))),
    Case("disk", "load", "fetch", "a bit of the header has flipped", on_disk(_flip_at(30))),
    Case("disk", "load", "fetch", "cut off within the bytes", on_disk(_cut_to(3000))),
    Case("disk", "load", "fetch", "cut off within the header", on_disk(_cut_to(20))),
    Case("disk", "load", "fetch", "an empty file", on_disk(_cut_to(0))),
    Case("disk", "load", "fetch", "a file of another format", on_disk(_version)),
    Case("disk", "load", "fetch", "an object of another key", on_disk(_other(key=b"another"))),
    Case("disk", "load", "fetch", "an object of another fingerprint", on_disk(_other("model 2"))),
    Case("disk", "load", "fetch", "an object of another length", on_disk(_other(length=512))),
    Case("disk", "load", "fetch", "an object summed with a secret", on_disk(_other(secret=b"s" * 32))),
    Case("disk", "load", "fetch", "a link in the place of the file", on_disk(_link)),
    Case("disk", "load", "fetch", "a pipe in the place of the file", on_disk(_pipe)),
    Case("disk", "load", "fetch", "the disk fails (EIO)", reading(OSError(IO, "disk"))),
    Case("disk", "load", "fetch", "the disk fails once", reading(OSError(IO, "disk"), 1)),
    Case("disk", "load", "fetch", "no permission (EACCES)", call("open", ACCESS)),
    Case("disk", "load", "fetch", "too many open files (EMFILE), once", call("open", FILES, 1)),
    Case("disk", "load", "fetch", "the copier itself breaks", carrying(ZeroDivisionError("a bug"))),
    Case("disk", "load", "fetch", "the read hangs, and lands late", READ_HANGS, waits="deadline"),
    Case("disk", "load", "fetch", "it is called off while it reads", READ_HANGS, waits="cancel"),
    Case("disk", "load", "report", "its report is lost", reports(lambda report: []), waits="deadline"),
    Case("disk", "load", "report", "its report comes twice", reports(lambda report: [report, report])),
)  # fmt: skip
