"""What a replay runs on: memory, ledger, copier and engine, wired as the settings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TextIO

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Report
from kvstate.machines.verdicts import Verdict
from kvstate.replay.breaks import Broken, intact
from kvstate.replay.chaos import Chaos
from kvstate.replay.chaos_copiers import ChaosThreadCopier, VirtualCopier
from kvstate.replay.config import RATES, ReplayConfig
from kvstate.replay.record import Recorder
from kvstate.replay.watch import Watch
from kvstate.replay.workload import BLOCK_TOKENS
from kvstate.runtime.clock import RealClock, VirtualClock
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.engine import Engine, Poll
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool

GRACE: Final = 0.2
"""Seconds from the end of a wait to the lapse; with the deadlines, less than the `late_by` of the chaos."""
HURRIED: Final = (0.4, 0.3)
"""Seconds until an offload and a load expire under chaos: soon enough for what is late to be late."""
UNHURRIED: Final = (30.0, 30.0)
"""The same where nothing is meant to go wrong."""
ADMISSION: Final = 0.001
"""Virtual seconds from one turn of the engine to the next."""
LONGEST_SLEEP: Final = 0.05
"""Seconds for which a wait sleeps at most, whatever is due: the driver wants to look around."""
SHORTEST_SLEEP: Final = 0.0005
"""Seconds for which it sleeps at least; what is due sooner is not worth a turn of its own."""


def ledger_config(config: ReplayConfig) -> LedgerConfig:
    """The ledger of a replay: a device and a host pool, as large as asked for, with waits that fit its virtual time."""
    verify = Integrity(config.integrity) is Integrity.HOST
    return LedgerConfig(
        pools=(PoolConfig("device", config.device_blocks), PoolConfig("host", config.host_blocks, verify=verify)),
        tokens_per_block=BLOCK_TOKENS,
        part_blocks=8,
        batch_blocks=16,
        max_jobs=512,
        grace=GRACE,
        retry_delay=0.02,
        cool_for=0.5,
        pending_for=0.2,
        step_for=30.0,
    )


class Stack:
    """See the module. In virtual time nothing happens but in `poll` and `wait`, and a seed gives one run."""

    def __init__(self, config: ReplayConfig, broken: Broken | None, record: TextIO | None) -> None:
        """`broken` is what runs instead of what ships, `record` where the record is written; `None` is neither.

        Starts the threads of the copier: whoever makes a stack closes `copier` in the end.
        """
        law = broken or intact()
        self.clock = VirtualClock() if config.deterministic else RealClock()
        """The time that all here go by."""
        self.memory = Memory(
            [
                Pool("device", 0, config.device_blocks, config.block_bytes),
                Pool("host", config.device_blocks, config.host_blocks, config.block_bytes),
            ]
        )
        """The device pool, from block 0, and behind it the host pool."""
        self.ledger = Ledger(ledger_config(config), machines=law.machines, couplings=law.couplings, acts=law.acts)
        """What is replayed."""
        self.recorder = None if record is None else Recorder(self.ledger, record, config.as_dict())
        """Who writes the record, if there is one."""
        self.note: Callable[..., None] = _quiet if self.recorder is None else self.recorder.on_input
        """Tell the record of an input, as `Recorder.on_input`; does nothing where there is no record."""
        self._fatal_noted = False
        self.watch = Watch(self.ledger)
        """Who sees what is physically so."""
        self.inbox = law.inbox(Inbox())
        """Where the copier reports."""
        hurry = any(getattr(config, name) for name in RATES) or bool(config.fail_codes)
        self.offload_seconds, self.load_seconds = HURRIED if hurry else UNHURRIED
        """From a request to its deadline."""
        self.copier = self._copier(config, law)
        """Who moves the bytes: in virtual time, in threads, or in threads and with a fate for each part."""
        self.engine = Engine(self.ledger, {"cpu": self.copier}, self.inbox, self.clock)
        """What hands effects to the copier, and its reports to the ledger."""
        self.engine.heard = self._heard
        if self.recorder is not None:
            self.engine.tap = self.recorder.on_effect

    def _copier(self, config: ReplayConfig, law: Broken) -> VirtualCopier | ChaosThreadCopier | ThreadCopier:
        chaos = Chaos(
            fail=config.fail,
            fail_codes=config.fail_codes,
            late=config.late,
            duplicate=config.duplicate,
            lost=config.lost,
            corrupt=config.corrupt,
            delay=(config.delay[0] / 1000, config.delay[1] / 1000),
            seed=config.seed,
        )
        options: dict[str, Any] = {
            "integrity": Integrity(config.integrity),
            "on_land": self.watch.on_land,
            "on_submit": law.submit(self.watch.on_submit),
        }
        if isinstance(self.clock, VirtualClock):
            return VirtualCopier(self.memory, self.inbox, self.clock, chaos, **options)
        if chaos == Chaos(seed=config.seed):
            return ThreadCopier(self.memory, self.inbox, config.concurrency, **options)
        return ChaosThreadCopier(self.memory, self.inbox, self.clock, chaos, config.concurrency, **options)

    def _heard(self, report: Report) -> None:
        self.watch.on_report(report)
        if self.recorder is not None:
            self.recorder.on_report(report)

    def poll(self) -> Poll:
        """A turn of the engine. In virtual time, first a moment passes and what is due happens."""
        if isinstance(self.clock, VirtualClock) and isinstance(self.copier, VirtualCopier):
            self.clock.advance(ADMISSION)
            self.copier.advance(self.clock.now())
        done = self.engine.poll()
        if self.recorder is not None:
            verdicts: list[Verdict] = [*done.loads, *done.jobs, *done.settled]
            if done.fatal is not None and not self._fatal_noted:
                verdicts.append(done.fatal)
                self._fatal_noted = True
            for verdict in verdicts:
                self.recorder.on_verdict(verdict)
        return done

    def wait(self) -> None:
        """Until something is due: in virtual time, go there; in real time, sleep until a report or a timer."""
        due = self.ledger.next_timer()
        if isinstance(self.clock, VirtualClock) and isinstance(self.copier, VirtualCopier):
            times = [time for time in (due, self.copier.next_due()) if time is not None]
            if times and min(times) > self.clock.now():
                self.clock.advance(min(times) - self.clock.now())
            return
        pause = LONGEST_SLEEP if due is None else min(LONGEST_SLEEP, max(SHORTEST_SLEEP, due - self.clock.now()))
        self.inbox.wait(pause)


def _quiet(name: str, **values: Any) -> None:
    """There is no record."""
