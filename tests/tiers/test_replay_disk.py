"""Replays with a disk: the next run hits what the last one left, whatever ended it.

`KVSTATE_KILLS=20 pytest tests/tiers` kills twenty times instead of three.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.tables.key import State as K
from kvstate.replay.config import ConfigError, ReplayConfig, parse_bytes
from kvstate.replay.content import check_many
from kvstate.replay.disk import FINGERPRINT, Commits
from kvstate.replay.plays import NAMESPACE
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.sealed import ObjectError, Seal
from tests.replay.runs import CHAOS, SMALL, STORM, no_measuring, replay, sound
from tests.tiers.rig import kills

__all__ = ["no_measuring"]

TINY: dict[str, Any] = SMALL | {"device_blocks": 120, "host_blocks": 200, "disk_bytes": 16 << 20, "limit": 120}


def test_the_next_run_begins_with_what_the_last_one_stored(tmp_path: Path) -> None:
    first = sound(replay(disk=tmp_path, **TINY))
    assert first.recovered["recovered"] == 0
    assert set(first.hits) == {"device", "host", "disk"}
    stored = len(found(tmp_path, TINY["block_bytes"]))
    second = sound(replay(disk=tmp_path, **TINY))
    assert second.recovered == {"recovered": stored, "left_out": 0, "removed": 0, "refused": 0, "strange": 0}
    assert second.hits["disk"] > first.hits["disk"]
    assert second.misses < first.misses
    other = sound(replay(disk=tmp_path, **TINY | {"block_bytes": 128}))
    assert other.recovered["recovered"] == 0, "blocks of another size are of another fingerprint"


def test_nothing_wrong_comes_out_of_a_disk_that_everything_happens_to(tmp_path: Path) -> None:
    settings = TINY | STORM | {"disk_bytes": 1 << 20}
    results = [sound(replay(disk=tmp_path, seed=seed, **settings)) for seed in (1, 2)]
    assert results[1].hits["disk"] > 0
    assert {code for result in results for code in result.failures} >= {"CRC_MISMATCH", "NO_SPACE", "PEER_LOST"}


@pytest.mark.long
def test_a_flipped_byte_of_a_file_is_served_where_nobody_sums(tmp_path: Path) -> None:
    """So it is the sum of the object that keeps it away, and the oracle that would see it."""
    replay(disk=tmp_path, **TINY)
    for path in (tmp_path / "rank-0" / "objects").rglob("*"):
        if path.is_file():
            data = bytearray(path.read_bytes())
            data[-3] ^= 1
            path.write_bytes(data)
    settings = TINY | {"device_blocks": 200, "host_blocks": 0}
    result = sound(replay(disk=tmp_path, **settings))
    assert result.failures["CRC_MISMATCH"] > 0
    blind = replay(disk=tmp_path / "blind", integrity="off", **TINY)
    sound(blind)
    for path in (tmp_path / "blind" / "rank-0" / "objects").rglob("*"):
        if path.is_file():
            data = bytearray(path.read_bytes())
            data[-3] ^= 1
            path.write_bytes(data)
    assert replay(disk=tmp_path / "blind", integrity="off", **settings).wrong_bytes > 0


def test_a_seed_gives_one_run_with_a_disk_too(tmp_path: Path) -> None:
    records = []
    for name in ("a", "b"):
        record = tmp_path / f"{name}.ndjson"
        settings = TINY | CHAOS | {"limit": 60, "deterministic": True, "trace_out": record}
        sound(replay(disk=tmp_path / name, **settings))
        records.append(record.read_text().replace(str(tmp_path / name), ""))
    assert records[0] == records[1]


def test_commits_are_written_down_and_so_is_what_leaves(tmp_path: Path) -> None:
    log = tmp_path / "commits"
    sound(replay(disk=tmp_path / "disk", commits_to=log, **TINY | {"disk_bytes": 1 << 18}))
    lines = log.read_text().splitlines()
    assert {line[0] for line in lines} == {"+", "-"}
    assert acknowledged(log.read_bytes()) == found(tmp_path / "disk", TINY["block_bytes"])


def test_what_leaves_while_it_cools_is_written_down_too(tmp_path: Path) -> None:
    """Its bytes are evicted, or found to be bad, after a deadline that made it cool: it was there until then."""
    ledger = Ledger(LedgerConfig((PoolConfig("device", 1), PoolConfig("disk", 1, durable=True, copier="disk"))))
    commits = Commits(ledger, tmp_path / "commits")
    (slot,) = ledger.books.keys.make(1, NAMESPACE, [b"key"])
    moves = [(K.WRITING, K.READY), (K.READY, K.COOLING), (K.COOLING, K.READY), (K.READY, K.COOLING)]
    for before, after in [*moves, (K.COOLING, K.CONDEMNED), (K.CONDEMNED, K.ABSENT)]:
        commits._heard("key", [slot], "K00", before, after)
    commits.close()
    assert (tmp_path / "commits").read_text() == f"+ {b'key'.hex()}\n- {b'key'.hex()}\n"


@pytest.mark.long
def test_each_rank_has_a_disk_and_a_killed_one_is_found_again(tmp_path: Path) -> None:
    settings = TINY | CHAOS | {"workers": 2, "limit": 100}
    sound(replay(disk=tmp_path, kill_workers=2, **settings))
    assert {path.name for path in tmp_path.iterdir()} == {"rank-0", "rank-1"}
    again = sound(replay(disk=tmp_path, **settings))
    assert again.recovered["recovered"] > 0
    assert again.hits["disk"] > 0


# -- the death of the process ------------------------------------------------------------------------------------------


def acknowledged(lines: bytes) -> set[bytes]:
    """What a run had said that its disk has; half a line was not said."""
    said: set[bytes] = set()
    for line in lines.splitlines(keepends=True):
        if line.endswith(b"\n"):
            sign, key = line.split()
            (said.add if sign == b"+" else said.discard)(bytes.fromhex(key.decode()))
    return said


def found(path: Path, block_bytes: int) -> set[bytes]:
    """The keys that a start finds, all of whose bytes have been compared with what they must be."""
    folder = Folder(path / "rank-0", Seal(f"{FINGERPRINT} / rank 0 of 1 / blocks of {block_bytes} bytes"))
    row = np.zeros((1, block_bytes), np.uint8)
    keys = {one.key for one in folder.start.found}
    assert folder.start.strange == folder.start.refused == ()
    for key in keys:
        folder.read(NAMESPACE, key, [row[0].data])
        assert check_many(row, [0], [key]) == []
    folder.close()
    return keys


def command(path: Path, *more: str) -> list[str]:
    """A replay by the command line, with trouble of all kinds but bytes that go bad by themselves."""
    return [
        sys.executable, "-m", "kvstate", "replay", "--quiet", "--json", "--disk", str(path), "--disk-bytes", "64MiB",
        "--device-blocks", "120", "--host-blocks", "200", "--block-bytes", "512", "--chaos", "--corrupt", "0",
        "--no-race", *more,
    ]  # fmt: skip


@pytest.mark.long
def test_killed_at_any_instant_it_leaves_whole_blocks_and_all_that_it_had_acknowledged(tmp_path: Path) -> None:
    """The pipe is the parent: what came through it was acknowledged before the kill."""
    dice, before = random.Random(7), 0
    for turn in range(kills()):
        after = f"{dice.uniform(0.05, 1.5):.3f}"
        options = ("--limit", "4000", "--seed", str(turn), "--kill-after", after, "--commits-to", "/dev/stdout")
        with subprocess.Popen(command(tmp_path, *options), stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            said = acknowledged(run.stdout.read())
        assert run.returncode == -signal.SIGKILL
        there = found(tmp_path, 512)
        assert there >= said
        assert len(there) >= before, "nothing is evicted from a disk that is large enough"
        before = len(there)
    assert before > 0
    last = subprocess.run(command(tmp_path, "--limit", "200"), stdout=subprocess.PIPE, check=True)
    result = json.loads(last.stdout)
    assert (result["wrong_bytes"], result["violations"], result["leaked_blocks"], result["problems"]) == (0, 0, 0, [])
    assert result["recovered"]["recovered"] == before
    assert result["hits"]["disk"] > 0


WITNESS = """
import os, runpy, signal, sys
from kvstate.errors import properties_of
from kvstate.runtime.tiers.disk import Disk
from kvstate.runtime.tiers.sealed import ObjectError

log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
left, real = [int(sys.argv[2])], Disk._unfetched

def unfetched(self, lines, line, error):
    bad = isinstance(error, ObjectError) and properties_of(error.error.code).condemns
    if bad:
        os.write(log, f"! {lines.work.keys[line].hex()}\\n".encode())
    real(self, lines, line, error)
    left[0] -= bad
    if bad and not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

Disk._unfetched = unfetched
sys.argv[1:] = sys.argv[3:]
runpy.run_module("kvstate", run_name="__main__", alter_sys=True)
"""
"""A replay that also writes down, among its commits, whose bytes were found to be bad, before they are removed; it dies
when so many were, before the ledger hears of the last."""


@pytest.mark.long
def test_what_is_missing_after_a_kill_was_removed_for_its_bad_bytes(tmp_path: Path) -> None:
    """Bytes are flipped on purpose here. A load that finds an object bad removes it, and may be killed before the
    ledger has heard of it: that is the one way in which something that was acknowledged is not there any more.
    """
    missing = bad = total = 0
    for turn in range(kills()):
        log = tmp_path / f"log-{turn}"
        options = command(tmp_path / "disk", "--corrupt", "20%", "--limit", "4000", "--seed", str(turn))[3:]
        options += ["--host-blocks", "0", "--commits-to", str(log)]
        child = [sys.executable, "-c", WITNESS, str(log), str(1 + 5 * turn), *options]
        assert subprocess.run(child, stdout=subprocess.DEVNULL, check=False).returncode == -signal.SIGKILL
        said: dict[bytes, str] = {}
        for line in log.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                sign, _, key = line.rstrip().partition(" ")
                said[bytes.fromhex(key)] = sign
        folder = Folder(tmp_path / "disk" / "rank-0", Seal(f"{FINGERPRINT} / rank 0 of 1 / blocks of 512 bytes"))
        gone = {key for key, sign in said.items() if sign != "-" and not folder.has(NAMESPACE, key)}
        folder.close()
        unexplained = [key.hex() for key in gone if said[key] == "+"]
        assert not unexplained, "acknowledged, and not there, and nobody found it to be bad"
        missing, total = missing + len(gone), total + sum(sign != "-" for sign in said.values())
        bad += sum(sign == "!" for sign in said.values())
    print(f"{total} acknowledged, {missing} of them missing, all found to be bad by a load; so were {bad} in all")
    assert missing >= kills(), "each was killed when one had just been removed"


def test_what_is_found_is_looked_at(tmp_path: Path) -> None:
    """The check of the test above sees a block that is not whole."""
    replay(disk=tmp_path, **TINY)
    path = next(path for path in (tmp_path / "rank-0" / "objects").rglob("*") if path.is_file())
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(ObjectError):
        found(tmp_path, TINY["block_bytes"])


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_of_a_disk_that_make_no_sense() -> None:
    for change, sentence in (
        ({"disk": Path("x"), "disk_bytes": 100}, "--disk-bytes is 100, which is room for 0 blocks of 4096 bytes"),
        ({"disk_sync": "often"}, "--disk-sync is 'often'; give one of none, data, full."),
        ({"tiers": "up"}, "--tiers is 'up'; give one of through, back."),
        ({"kill_after": -1.0}, "--kill-after is -1; give a number from 0 to"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            ReplayConfig(**change)
    assert ReplayConfig().disk_blocks == 0
    assert ReplayConfig(disk=Path("x"), disk_bytes=81920, workers=2).disk_blocks == 5


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("64MiB", 64 << 20), ("1.5G", 3 << 29), ("2 kb", 2048), ("1T", 1 << 40)]
)
def test_bytes_are_read(text: str, size: int) -> None:
    assert parse_bytes("--disk-bytes", text) == size


@pytest.mark.parametrize("text", ["", "much", "MiB", "inf", "nan"])
def test_what_is_no_size_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--disk-bytes is .*; give bytes such as 4096, 64MiB or 2GiB"):
        parse_bytes("--disk-bytes", text)
