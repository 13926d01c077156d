"""Resets, losses and large pools, where a recovery is under way: nothing void comes back, and nothing is left."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from kvstate import codec, wire
from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Adopt
from kvstate.machines.verdicts import Refusal
from kvstate.runtime import answers, ranked
from kvstate.runtime import kv as kv_module
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.outbox import Outbox
from kvstate.runtime.processes import ProcessLink
from kvstate.runtime.recovery import Recovery
from kvstate.runtime.settings import RuntimeConfig, Workers
from kvstate.runtime.standard import copiers_of, memory_of
from kvstate.runtime.tiers import folder
from kvstate.runtime.worker import Worker
from kvstate.wire import Found, decode_down, decode_up
from tests.runtime.parts import key
from tests.runtime.rig import got
from tests.tiers.test_restarts import Serving, config, disk_of


def stored(path: Path, *numbers: int) -> None:
    """What a process leaves that has stored these keys."""
    serving = Serving(config(path))
    serving.store(*numbers)
    serving.ends()


class Own:
    """A runtime whose worker is in the test's hands, one life after the other."""

    def __init__(self, path: Path) -> None:
        self.settings: RuntimeConfig = config(path, workers=Workers.OWN)
        self.kv = KVRuntime(self.settings)
        self.worker = self.begin()

    def begin(self) -> Worker:
        inbox = Inbox()
        life = self.kv.incarnation(0)
        self.worker = Worker(0, life, copiers_of(self.settings, inbox, memory_of(self.settings)), inbox)
        return self.worker

    def die(self) -> None:
        """The worker is gone, and what is on its way to it."""
        assert self.worker.close(5.0) == ()
        self.kv.worker_lost(0, "it died")

    def says(self) -> list[Recovery]:
        """The worker says what it has to say; what is recovered by that."""
        self.kv.report(self.worker.take_reports())
        return [one for _ in range(2) for one in self.kv.poll().recovered]

    def hits(self, number: int) -> bool:
        return bool(got(self.kv.lookup(got(self.kv.open("a")), [key(number)])).blocks)


def test_a_reset_holds_that_no_worker_has_heard_of(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    own = Own(tmp_path)
    got(own.kv.reset())
    own.kv.take_effects()
    own.die()
    assert own.kv.poll().lost
    own.begin()
    assert [one.recovered for one in own.says()] == [0]
    assert not own.hits(1)
    for message in own.kv.take_effects().values():
        own.worker.feed(message)
    assert own.worker.close(5.0) == ()
    assert Serving(config(tmp_path)).kv.recovered["disk"].recovered == 0


@pytest.mark.parametrize("when", ["before the loss", "after the loss"])
def test_a_reset_holds_while_a_lost_rank_is_awaited(tmp_path: Path, when: str) -> None:
    stored(tmp_path, 1)
    own = Own(tmp_path)
    assert [one.recovered for one in own.says()] == [1]
    if when == "before the loss":
        got(own.kv.reset())
    own.die()
    assert own.kv.poll().lost
    if when == "after the loss":
        got(own.kv.reset())
    for _ in range(2):  # the second is lost while the first has said nothing yet
        own.begin()
        own.die()
        assert own.kv.poll().lost
    own.begin()
    assert [one.recovered for one in own.says()] == [0]
    assert not own.hits(1)
    assert own.worker.close(5.0) == ()


def test_what_a_process_found_that_is_gone_counts_for_nothing(tmp_path: Path) -> None:
    stored(tmp_path, 1, 2)
    own = Own(tmp_path)
    own.kv.report(own.worker.take_reports())
    own.kv.poll()
    own.die()
    done = own.kv.poll()
    assert (len(done.lost), done.recovered) == (1, ())
    own.begin()
    assert [one.recovered for one in own.says()] == [2]
    for message in own.kv.take_effects().values():
        own.worker.feed(message)
    disk: Any = own.worker.dispatcher.copiers["disk"]
    assert disk.disk.path_of(got(own.kv.lookup(got(own.kv.open("a")), [key(1)])).blocks[0].block)
    assert own.worker.close(5.0) == ()


def test_a_reset_has_taken_the_objects_away_when_it_returns(tmp_path: Path) -> None:
    serving = Serving(config(tmp_path))
    serving.store(1)
    got(serving.kv.reset())
    assert disk_of(serving.kv).disk.folder.names() == []
    serving.ends()


def test_what_the_thread_could_not_remove_is_told_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = Serving(config(tmp_path))
    serving.store(1)

    def fails(_: Path) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(folder, "bury_swept", fails)
    got(serving.kv.reset())
    assert disk_of(serving.kv).disk.settle(10)
    (trouble,) = serving.kv.poll().troubles
    assert trouble.startswith("disk: what is void could not be removed")
    serving.ends()


def test_a_runtime_that_can_not_be_made_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "rank-1").write_text("")
    gc.collect()  # what other tests have left is not let go of in the middle
    before = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ConfigError, match=r"disk\.path"):
        KVRuntime(config(tmp_path, ranks=2))
    assert (threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))) == before


def test_what_a_large_pool_recovers_goes_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(LedgerConfig((PoolConfig("device", 4), PoolConfig("disk", 60_000, durable=True, copier="disk"))))
    names = [("tenant", number.to_bytes(16, "little")) for number in range(60_000)]
    assert len(got(ledger.recover(1, names)).refs) == len(names)
    effects = ledger.take_effects()
    monkeypatch.setattr(codec, "MAX_BYTES", 1 << 20)
    box = Outbox(0, 1, Inbox())
    box.give(effects)
    came: list[Any] = []
    while message := box.take():
        came += decode_down(message).items
    assert came == effects
    assert sum(isinstance(effect, Adopt) for effect in came) > 1
    assert box.troubles == []


def test_what_a_worker_found_goes_in_several_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Own(tmp_path)
    parts = [Found("disk", ("a",), tuple(key(one) for one in range(9)), 0, 0, 0, last=False)] * 8
    own.worker._up = [*parts]
    monkeypatch.setattr(wire, "MAX_BYTES", 512)
    came: list[Any] = []
    while message := own.worker.take_reports():
        came += decode_up(message).items
    assert came == parts
    own.worker._up = [parts[0]._replace(keys=parts[0].keys * 9)]
    (told,) = decode_up(own.worker.take_reports()).items
    assert told == wire.Trouble("rank 0: a Found is too long for any message")
    assert own.worker.close(5.0) == ()


def test_a_namespace_that_has_no_encoding_is_refused() -> None:
    ledger = Ledger(LedgerConfig((PoolConfig("device", 4),)))
    for bad in ("a\ud800", None):
        assert isinstance(ledger.open(bad), Refusal)  # type: ignore[arg-type]
    assert ledger.fatal is None


def test_a_worker_that_can_not_be_started_again_ends_no_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[Any] = []

    class Fake(ProcessLink):
        lost = ""

        def __init__(self, *_: Any) -> None:
            if links:
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            links.append(self)
            self.incarnation, self.troubles, self.probed, self.found = 1, [], deque(), deque()

        def give(self, effects: Any) -> None:
            pass

        def stop(self, within: float) -> bool:
            return True

    monkeypatch.setattr(kv_module, "ProcessLink", Fake)
    monkeypatch.setattr(answers, "ProcessLink", Fake)
    monkeypatch.setattr(ranked, "ProcessLink", Fake)
    with KVRuntime(config(tmp_path, workers=Workers.PROCESSES)) as kv:
        links[0].lost = "it died"
        done = kv.poll()
    assert len(done.lost) == 1
    assert [sentence.split(":")[0] for sentence in done.troubles] == [
        "rank 0 could not be started again, and is given up"
    ]
