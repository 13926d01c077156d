"""What a replay runs on: memory, ledger, copier and engine, wired as the settings say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TextIO

from kvstate.machines.adaptive import Adaptive
from kvstate.machines.books import MakePolicy
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Effect, Report, Work
from kvstate.machines.policy import LRU
from kvstate.replay.breaks import Broken, Submit, intact
from kvstate.replay.config import RATES, Policy, ReplayConfig
from kvstate.replay.disk import NAME as DISK
from kvstate.replay.disk import Commits
from kvstate.replay.hardware import Hardware, Local
from kvstate.replay.shards import Shards
from kvstate.replay.store import NAME as STORE
from kvstate.replay.watch import Watch
from kvstate.replay.workload import BLOCK_TOKENS
from kvstate.runtime.clock import RealClock, VirtualClock
from kvstate.runtime.copy import Integrity
from kvstate.runtime.engine import Engine, Poll
from kvstate.runtime.inbox import Inbox
from kvstate.trace.record import Recorder
from kvstate.trace.ring import Crash, Ring

GRACE: Final = 0.2
"""Seconds from the end of a wait to the lapse; with the deadlines, less than the `late_by` of the chaos."""
HURRIED: Final = (0.4, 0.3)
"""Seconds until an offload and a load expire under chaos: soon enough for what is late to be late."""
UNHURRIED: Final = (30.0, 30.0)
"""The same where nothing is meant to go wrong."""
ADMISSION: Final = 0.001
"""Virtual seconds from one turn of the engine to the next."""
FOUND_SECONDS: Final = 120.0
"""For workers to look through their folders."""
LONGEST_SLEEP: Final = 0.05
"""Seconds for which a wait sleeps at most, whatever is due: the driver wants to look around."""
SHORTEST_SLEEP: Final = 0.0005
"""Seconds for which it sleeps at least; what is due sooner is not worth a turn of its own."""


def ledger_config(config: ReplayConfig) -> LedgerConfig:
    """The ledger of a replay: its pools, as large as asked for, with waits that fit its virtual time.

    A disk checks what it reads by itself; that it is compared again, on the device, is for runs in which bytes go bad
    on the way there.
    """
    verify = Integrity(config.integrity) is Integrity.HOST
    pools = [PoolConfig("device", config.device_blocks), PoolConfig("host", config.host_blocks, verify=verify)]
    if config.disk is not None:
        pools.append(PoolConfig(DISK, config.disk_blocks, durable=True, verify=verify, copier=DISK))
    if config.store is not None:
        pools.append(PoolConfig(STORE, config.store_blocks, durable=True, shared=True, verify=True, copier=STORE))
    return LedgerConfig(
        pools=tuple(pools),
        tokens_per_block=BLOCK_TOKENS,
        ranks=config.workers or 1,
        part_blocks=8,
        batch_blocks=16,
        max_jobs=512,
        grace=GRACE,
        retry_delay=0.02,
        cool_for=0.5,
        pending_for=0.2 if config.store is None else 1.0,
        step_for=30.0,
    )


EVICTS: Final[dict[Policy, MakePolicy]] = {"adaptive": Adaptive, "lru": LRU}
"""By the name of the setting."""


class Stack:
    """See the module. In virtual time nothing happens but in `poll` and `wait`, and a seed gives one run."""

    def __init__(self, config: ReplayConfig, broken: Broken | None, record: TextIO | None) -> None:
        """`broken` is what runs instead of what ships, `record` where the record is written; `None` is neither.

        Starts threads or processes: whoever makes a stack closes it in the end. Errors: `ConfigError` of the machines
        for a disk that can't be used, `OSError` for commits that can't be written.
        """
        law = broken or intact()
        self.clock = VirtualClock() if config.deterministic else RealClock()
        """The time that all here go by."""
        self.ledger = Ledger(
            ledger_config(config),
            machines=law.machines,
            couplings=law.couplings,
            acts=law.acts,
            policy=EVICTS[config.policy],
        )
        """What is replayed."""
        self.recorder = None if record is None else Recorder(self.ledger, record, config.as_dict())
        """Who writes the record, if there is one."""
        self.crash = (
            None if config.crash_dump is None else Crash(Ring(self.ledger), config.crash_dump, config.as_dict())
        )
        """What keeps the end of the run for the day when the ledger is poisoned."""
        self.watch = Watch(self.ledger)
        """Who sees what is physically so."""
        self.inbox = law.inbox(Inbox())
        """Where the copier reports."""
        hurry = any(getattr(config, name) for name in RATES) or bool(config.fail_codes)
        self.offload_seconds, self.load_seconds = HURRIED if hurry else UNHURRIED
        """From a request to its deadline."""
        self.hardware: Hardware
        """Where the bytes are, and who moves them."""
        if config.workers:
            self.hardware = Shards(config, self.ledger.config, self.watch, self.inbox)
        else:
            self.hardware = Local(config, self.ledger.config, law, self.watch, self.inbox, self.clock)
        self.engine = Engine(self.ledger, self.hardware.links, self.inbox, self.clock)
        """What hands effects to the copiers, and their reports to the ledger."""
        if config.workers:
            self.engine.tap = _submitted(law.submit(self.watch.on_submit))
        self.engine.heard = self._heard
        self.engine.crash = self.crash
        self.engine.listeners += [listener for listener in (self.recorder, self.crash and self.crash.ring) if listener]
        self.commits = None if config.commits_to is None else Commits(self.ledger, config.commits_to)
        """Who writes down what the disk has, if anybody does."""
        self._recover()

    def _recover(self) -> None:
        """Take in what the disk held, before any request. Errors: `RuntimeError` for a rank that says nothing."""
        end = time.monotonic() + FOUND_SECONDS
        while not self.engine.recover() and self.engine.recoveries.awaited:
            if time.monotonic() > end:
                raise RuntimeError("a worker did not say what it found on its disk")
            self.inbox.wait(LONGEST_SLEEP)
        self.engine.pump()

    def close(self) -> None:
        """End threads and processes, and what is written down."""
        self.hardware.close()
        if self.commits is not None:
            self.commits.close()

    def note(self, name: str, **values: Any) -> None:
        """Tell whoever listens of an input, as `Listener.on_input`."""
        for listener in self.engine.listeners:
            listener.on_input(name, **values)

    def _heard(self, report: Report) -> None:
        self.hardware.hear(report)
        self.watch.on_report(report)

    def poll(self) -> Poll:
        """A turn of the engine. In virtual time, first a moment passes and what is due happens.

        A worker that is gone has been replaced when this returns; `Poll.lost` says what went with it.
        """
        if isinstance(self.clock, VirtualClock):
            self.clock.advance(ADMISSION)
            self._advance(self.clock.now())
        done = self.engine.poll()
        for loss in done.lost:
            self.note("rank_lost", rank=loss.rank, leases=len(loss.leases), keys=loss.keys, parts=loss.parts)
            self.engine.replace(loss.rank, self.hardware.restart(loss.rank))
        return done

    def _advance(self, now: float) -> None:
        """What is due by then happens, in the order in which it is due, whoever's it is."""
        copiers = self.hardware.virtual
        while copiers:
            due = [(time, number) for number, one in enumerate(copiers) if (time := one.next_due()) is not None]
            if not due or min(due)[0] > now:
                break
            when, number = min(due)
            copiers[number].advance(when)

    def wait(self) -> None:
        """Until something is due: in virtual time, go there; in real time, sleep until a report or a timer."""
        due = self.ledger.next_timer()
        if isinstance(self.clock, VirtualClock):
            events = [copier.next_due() for copier in self.hardware.virtual]
            times = [time for time in (due, *events) if time is not None]
            if times and min(times) > self.clock.now():
                self.clock.advance(min(times) - self.clock.now())
            return
        pause = LONGEST_SLEEP if due is None else min(LONGEST_SLEEP, max(SHORTEST_SLEEP, due - self.clock.now()))
        self.inbox.wait(pause)


def _submitted(submit: Submit) -> Callable[[Effect], None]:
    """Tells of work as it goes out, where the copier that will be given it is in another process."""

    def tap(effect: Effect) -> None:
        if isinstance(effect, Work):
            submit(effect)

    return tap
