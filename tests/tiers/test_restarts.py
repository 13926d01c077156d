"""A runtime with a disk, made again over the same folder: what is a hit then, and what is not."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.machines.verdicts import Ending, Hit, LoadVerdict
from kvstate.runtime.answers import Done
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.processes import ProcessLink
from kvstate.runtime.recovery import Recovery
from kvstate.runtime.settings import RuntimeConfig, Workers
from kvstate.runtime.standard import copiers_of, memory_of
from kvstate.runtime.tiers.copier import DiskCopier
from kvstate.runtime.tiers.settings import DiskConfig, room_of
from kvstate.runtime.worker import Worker
from tests.runtime.parts import fill, holds, key
from tests.runtime.rig import got

BLOCK = 256
DISK = 2
"""The number of the disk pool."""
PATIENCE = 60.0


def config(path: Path, fingerprint: str = "model 1", *, slots: int = 6, ranks: int = 1, **more: Any) -> RuntimeConfig:
    pools = (PoolConfig("device", 4), PoolConfig("host", 4), PoolConfig("disk", slots, durable=True, copier="disk"))
    disk = DiskConfig(path=path, fingerprint=fingerprint, sync="none", **more.pop("disk", {}))  # type: ignore[arg-type]
    return RuntimeConfig(ledger=LedgerConfig(pools, ranks=ranks), block_bytes=BLOCK, disk=disk, **more)


class Serving:
    """A runtime, and requests of one block each."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.kv = KVRuntime(config)
        self.steps = 0
        self.turns: list[Done] = []

    def until_told(self, of: str) -> Any:
        """The first verdict of loads or jobs that comes."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.turns.append(self.kv.poll())
            assert self.turns[-1].fatal is None
            for verdict in getattr(self.turns[-1], of):
                return verdict
            self.kv.wait(0.05)
        raise AssertionError(f"no verdict of {of}")

    def store(self, *numbers: int) -> list[Ending]:
        """Compute a block for each key and store it; how that ended."""
        ended = []
        for number in numbers:
            lease = got(self.kv.open("a"))
            refs = got(self.kv.allocate(lease, 1)).blocks
            if self.kv.memories:
                fill(self.kv.memories[0], [refs[0].block], [key(number)])
            got(self.kv.seal(lease, refs, [key(number)]))
            got(self.kv.offload(lease, refs, pool=DISK))
            ended.append(self.until_told("jobs").ending)
            self.kv.finish(lease)
        self.forget()
        return ended

    def forget(self) -> None:
        """Evict all that the device has."""
        lease = got(self.kv.open("a"))
        got(self.kv.allocate(lease, 4))
        self.kv.finish(lease)

    def look(self, number: int) -> Hit:
        """A lookup, and its lease stays open."""
        return got(self.kv.lookup(got(self.kv.open("a")), [key(number)]))

    def load(self, number: int) -> LoadVerdict | None:
        """Look a key up and load it; None if it is a miss. What is loaded is right."""
        hit = self.look(number)
        if not hit.blocks:
            self.kv.finish(hit.lease)
            return None
        refs = got(self.kv.allocate(hit.lease, 1)).blocks
        got(self.kv.load(hit.lease, hit, refs, deadline=self.kv.now() + PATIENCE))
        verdict: LoadVerdict = self.until_told("verdicts")
        if verdict.blocks and self.kv.memories:
            assert holds(self.kv.memories[0], [refs[0].block], [key(number)])
        self.kv.finish(hit.lease)
        self.forget()
        return verdict

    def ends(self) -> None:
        assert not self.kv.shutdown(PATIENCE)


def disk_of(kv: KVRuntime) -> DiskCopier:
    copier = kv.copiers[0]["disk"]
    assert isinstance(copier, DiskCopier)
    return copier


# -- in this process ---------------------------------------------------------------------------------------------------


def test_the_next_runtime_with_the_same_fingerprint_hits_and_another_hits_nothing(tmp_path: Path) -> None:
    first = Serving(config(tmp_path))
    assert first.kv.recovered == {"disk": Recovery("disk", 0, 0, 0, 0, 0)}
    assert first.store(1, 2) == [Ending.COMMITTED] * 2
    assert first.load(1) is not None
    first.ends()
    again = Serving(config(tmp_path))
    assert again.kv.recovered["disk"] == Recovery("disk", 2, 0, 0, 0, 0)
    for number in (1, 2):
        verdict = again.load(number)
        assert verdict is not None
        assert (verdict.ending, verdict.blocks) == (Ending.PROCEED, 1)
    assert again.load(3) is None
    again.ends()
    for other in (config(tmp_path, "model 2"), config(tmp_path, ranks=1, disk={"secret_file": secret(tmp_path)})):
        stranger = Serving(other)
        assert stranger.kv.recovered["disk"].recovered in (0, 2)
        if stranger.kv.recovered["disk"].recovered:  # what was summed without the secret is found, and not believed
            assert stranger.load(1).ending == Ending.RECOMPUTE  # type: ignore[union-attr]
        assert stranger.load(1) is None
        stranger.ends()
    assert Serving(config(tmp_path)).kv.recovered["disk"].recovered == 1


def secret(path: Path) -> Path:
    file = path / "secret"
    file.write_text("ab" * 32, encoding="ascii")
    file.chmod(0o600)
    return file


def test_a_reset_is_not_undone_by_a_restart(tmp_path: Path) -> None:
    first = Serving(config(tmp_path))
    first.store(1)
    assert got(first.kv.reset()) == 1
    assert first.load(1) is None
    first.store(2)
    first.ends()
    again = Serving(config(tmp_path))
    assert again.kv.recovered["disk"].recovered == 1
    assert again.load(1) is None
    assert again.load(2) is not None
    again.ends()


def test_a_smaller_disk_takes_in_the_newest(tmp_path: Path) -> None:
    first = Serving(config(tmp_path))
    first.store(1, 2, 3)
    for place, number in enumerate((3, 1, 2)):
        os.utime(
            disk_of(first.kv).disk.folder._place(disk_of(first.kv).disk.folder.name_of("a", key(number))), ns=(0, place)
        )
    first.ends()
    again = Serving(config(tmp_path, slots=2))
    assert again.kv.recovered["disk"] == Recovery("disk", 2, 1, 0, 0, 0)
    assert again.load(3) is None
    assert again.load(1) is not None
    again.ends()
    assert Serving(config(tmp_path)).kv.recovered["disk"].recovered == 2


def test_what_does_not_fit_is_evicted_from_the_disk_as_well(tmp_path: Path) -> None:
    serving = Serving(config(tmp_path, slots=2))
    assert serving.store(1, 2, 3, 4) == [Ending.COMMITTED] * 4
    assert len(disk_of(serving.kv).disk.folder.names()) == 2
    serving.ends()


def test_the_engine_goes_on_while_the_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = Serving(config(tmp_path))

    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("os.writev", fails)
        assert serving.store(1) == [Ending.FAILED]
    (verdict,) = serving.turns[-1].jobs
    assert [error.code.name for error in verdict.errors] == ["NO_SPACE"]
    assert serving.load(1) is None
    assert serving.store(1) == [Ending.COMMITTED]
    path = Path(disk_of(serving.kv).disk.path_of(8) or disk_of(serving.kv).disk.path_of(9) or "")
    path.write_bytes(b"")
    loaded = serving.load(1)
    assert loaded is not None
    assert (loaded.ending, [error.code.name for error in loaded.errors]) == (Ending.RECOMPUTE, ["SHORT_READ"])
    assert serving.load(1) is None
    assert serving.store(1) == [Ending.COMMITTED]
    assert serving.load(1) is not None
    serving.ends()


def test_what_could_not_be_removed_is_a_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = Serving(config(tmp_path))
    serving.store(1)

    def fails() -> None:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(disk_of(serving.kv).disk.folder, "clear", fails)
    got(serving.kv.reset())
    serving.kv.take_effects()
    (trouble,) = serving.kv.poll().troubles
    assert trouble.startswith("disk: what is void could not be removed from")
    serving.ends()


def test_a_folder_that_can_not_be_used_is_told_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError, match=r"disk\.path: .*file can't be used: Not a directory"):
        KVRuntime(config(file))


def test_a_durable_pool_without_a_disk_is_told(tmp_path: Path) -> None:
    ledger = config(tmp_path).ledger
    with pytest.raises(ConfigError, match="disk is durable, and nothing here keeps it; say in disk where"):
        KVRuntime(RuntimeConfig(ledger=ledger, block_bytes=BLOCK))


# -- in other processes ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_lost_rank_costs_memory_and_not_the_disk(tmp_path: Path) -> None:
    serving = Serving(config(tmp_path, ranks=2, workers=Workers.PROCESSES))
    kv = serving.kv
    assert kv.ready(PATIENCE)
    assert kv.recovered["disk"] == Recovery("disk", 0, 0, 0, 0, 0)
    serving.store(1, 2)
    link = kv.engine.links[1]
    assert isinstance(link, ProcessLink)
    link.kill()
    serving.until_told("lost")
    assert kv.ready(PATIENCE)
    assert kv.recovered["disk"].recovered == 2
    verdict = serving.load(1)
    assert verdict is not None
    assert verdict.ending == Ending.PROCEED
    serving.ends()
    for file in (tmp_path / "rank-1" / "objects").rglob("*"):
        if file.is_file():
            file.unlink()
            break
    again = Serving(config(tmp_path, ranks=2, workers=Workers.PROCESSES))
    assert again.kv.ready(PATIENCE)
    assert again.kv.recovered["disk"] == Recovery("disk", 1, 1, 0, 0, 0), "a block is whole where every rank has it"
    again.ends()


def test_workers_of_the_embedders_say_what_they_found(tmp_path: Path) -> None:
    settings = config(tmp_path, workers=Workers.OWN)

    def worker(incarnation: int) -> Worker:
        inbox = Inbox()
        return Worker(0, incarnation, copiers_of(settings, inbox, memory_of(settings)), inbox)

    def exchange(kv: KVRuntime, worker: Worker) -> None:
        for message in kv.take_effects().values():
            worker.feed(message)
        worker.inbox.wait(0.05)
        kv.report(worker.take_reports())

    kv, own = KVRuntime(settings), worker(1)
    assert kv.recovered == {}
    exchange(kv, own)
    assert [one.recovered for _ in range(2) for one in kv.poll().recovered] == [0]
    lease = got(kv.open("a"))
    refs = got(kv.allocate(lease, 1)).blocks
    got(kv.seal(lease, refs, [key(1)]))
    got(kv.offload(lease, refs, pool=DISK))
    jobs: list[Any] = []
    while not jobs:
        exchange(kv, own)
        jobs += kv.poll().jobs
    assert jobs[0].ending == Ending.COMMITTED
    assert own.close(5.0) == ()
    kv.worker_lost(0, "it was restarted")
    assert kv.poll().lost
    own = worker(kv.incarnation(0))
    recovered: list[Recovery] = []
    while not recovered:
        exchange(kv, own)
        recovered += kv.poll().recovered
    assert recovered[0].recovered == 1
    assert got(kv.lookup(got(kv.open("a")), [key(1)])).blocks
    assert own.close(5.0) == ()


# -- settings ----------------------------------------------------------------------------------------------------------


def test_a_file_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "kv.toml"
    file.write_text(
        f"""
block_bytes = {BLOCK}
[ledger]
[[ledger.pools]]
name = "device"
blocks = 4
[[ledger.pools]]
name = "host"
blocks = 4
[[ledger.pools]]
name = "disk"
blocks = 6
durable = true
copier = "disk"
[disk]
path = "{tmp_path}"
fingerprint = "model 1"
sync = "none"
""",
        encoding="utf-8",
    )
    assert RuntimeConfig.from_toml(file) == config(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"path": ""}, "path: '' is no path"),
        ({"path": None}, "path: None is no path"),
        ({"secret_file": 3}, "secret_file: 3 is no path"),
        ({"fingerprint": ""}, "fingerprint: '' says nothing; name model"),
        ({"sync": "never"}, "sync: 'never' is none of none, data, full"),
        ({"most_bytes": 0}, "most_bytes: 0 is no size"),
        ({"threads": 0}, "threads: 0 is out of range; give 1 to 256"),
    ],
    ids=str,
)
def test_what_a_disk_can_not_be_told(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        DiskConfig(**{"path": "x", "fingerprint": "f", **change})


def test_disk_and_pools_have_to_fit(tmp_path: Path) -> None:
    device, host = PoolConfig("device", 4), PoolConfig("host", 4)
    for pools, sentence in (
        ((device, host), "there are 0"),
        ((device, PoolConfig("a", 1, durable=True), PoolConfig("b", 1, durable=True)), "there are 2"),
        ((device, host, PoolConfig("disk", 1, durable=True)), "disk has the copier 'cpu' of host"),
        (
            (device, host, PoolConfig("disk", 3, durable=True, copier="disk")),
            "have room for 2 blocks, and pool disk has 3",
        ),
    ):
        disk = DiskConfig(path=tmp_path, fingerprint="f", most_bytes=2 * room_of(BLOCK))
        with pytest.raises(ConfigError, match=sentence):
            RuntimeConfig(ledger=LedgerConfig(pools), block_bytes=BLOCK, disk=disk)
    with pytest.raises(ConfigError, match="disk: dict is no DiskConfig"):
        RuntimeConfig(ledger=LedgerConfig((device, host)), block_bytes=BLOCK, disk={})  # type: ignore[arg-type]


def test_a_secret_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)

    def read(data: bytes) -> bytes | None:
        file.write_bytes(data)
        return DiskConfig(path="x", fingerprint="f", secret_file=file).secret()  # type: ignore[arg-type]

    assert read(bytes(32)) == bytes(32)
    assert read(b"ab" * 32 + b"\n") == b"\xab" * 32
    for wrong in (b"", b"ab" * 31, b"xy" * 32, bytes(31) + b"\xff\xff"):
        with pytest.raises(ConfigError, match="holds no secret; write 32 bytes into it"):
            read(wrong)
    with pytest.raises(ConfigError, match="could not be read: No such file"):
        DiskConfig(path="x", fingerprint="f", secret_file=tmp_path / "none").secret()  # type: ignore[arg-type]
    assert DiskConfig(path="x", fingerprint="f").secret() is None  # type: ignore[arg-type]
