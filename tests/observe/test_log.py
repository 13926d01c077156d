"""What is logged of a runtime: one record for what matters, with its fields, and a storm in one."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kvstate.errors import Code, KVError
from kvstate.machines.messages import Failure, Outcome
from kvstate.machines.verdicts import Ending, Fatal, JobVerdict
from kvstate.observe.log import FIELDS, Logs
from kvstate.observe.log import JSONFormatter as Formatter
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.settings import RuntimeConfig, Workers
from tests.observe.served import POOLS, Served
from tests.runtime.rig import got

BUSY = Failure(-1, int(Code.BUSY), "fetch", driver="errno", raw="EAGAIN", transient=True)


class Kept(logging.Handler):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def events(self) -> list[str]:
        return [str(getattr(record, "event", "")) for record in self.records]

    def of(self, event: str) -> dict[str, Any]:
        """The fields of the only record of an event, and what it says."""
        (record,) = [record for record in self.records if getattr(record, "event", "") == event]
        assert set(vars(record)) - PLAIN <= set(FIELDS)
        return {name: value for name, value in vars(record).items() if name in FIELDS} | {
            "logger": record.name,
            "level": record.levelname,
            "said": record.getMessage(),
        }


PLAIN = set(vars(logging.LogRecord("", 0, "", 0, "", None, None))) | {"message"}


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler, logger = Kept(), logging.getLogger("kvstate")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_a_job_that_fails_says_what_is_known_of_its_error(kept: Kept) -> None:
    rig = Served()
    Logs(rig.kv)
    lease, _ = rig.compute(1, 2)
    rig.land(failures=[Failure(1, int(Code.NO_SPACE), "store", driver="errno", raw="ENOSPC", message="full")])
    told = kept.of("job_failed")
    said = told.pop("said")
    assert said.startswith(f"job 2 of lease {lease} failed: NO_SPACE at store, part 1 of incarnation 1 attempt 1")
    assert "ENOSPC" in said
    assert told == {
        "event": "job_failed", "logger": "kvstate.jobs", "level": "WARNING", "code": "NO_SPACE", "seconds": 0.0,
        "code_number": int(Code.NO_SPACE), "stage": "store", "block": 5, "generation": told["generation"],
        "token": [1, 1], "attempt": 1, "retryable": False, "driver": "errno", "raw": "ENOSPC", "errors": 1,
        "job": 2, "lease": lease,
    }  # fmt: skip


def test_a_retry_and_a_load_that_falls(kept: Kept) -> None:
    rig = Served()
    Logs(rig.kv)
    lease, _ = rig.compute(1, 2)
    rig.land()
    rig.kv.finish(lease)
    rig.crowd()
    lease, _, started = rig.fetch(1, 2)
    rig.land(failures=[BUSY])
    rig.clock.advance(0.05)
    rig.kv.poll()
    told = kept.of("retry")
    assert (told["load"], told["lease"], told["attempt"], told["level"]) == (started.load, lease, 2, "INFO")
    assert told["said"] == f"fetch of 2 blocks of load {started.load}, lease {lease} begins its attempt 2"
    rig.land(failures=[BUSY])
    told = kept.of("load_fell")
    assert (told["code"], told["tokens"], told["errors"], told["logger"]) == ("BUSY", 0, 2, "kvstate.loads")
    assert told["said"].endswith("(and 1 more)")


def test_a_job_that_is_tried_again(kept: Kept) -> None:
    rig = Served()
    Logs(rig.kv)
    rig.compute(1)
    rig.land(failures=[BUSY])
    rig.clock.advance(0.05)
    rig.kv.poll()
    told = kept.of("retry")
    assert (told["job"], told["logger"]) == (2, "kvstate.jobs")


def test_blocks_go_into_quarantine_and_come_out(kept: Kept) -> None:
    rig = Served()
    Logs(rig.kv)
    lease, _ = rig.compute(1)
    rig.kv.reset()
    rig.kv.abort(lease)
    rig.clock.advance(2.0)
    rig.kv.poll()
    rig.kv.poll()
    entered = [record for record in kept.records if record.__dict__["event"] == "quarantined"]
    assert [(record.__dict__["block"], record.__dict__["pool"]) for record in entered] == [(0, "device"), (4, "host")]
    assert entered[0].getMessage().startswith("block 0 (device, gen 0) is quarantined")
    rig.land()
    left = [record for record in kept.records if record.__dict__["event"] == "unquarantined"]
    assert {(record.__dict__["block"], record.__dict__["generation"]) for record in left} == {(0, 0), (4, 0)}
    assert (
        left[0].getMessage()
        == f"block {left[0].__dict__['block']} ({left[0].__dict__['pool']}, gen 0) is out of quarantine"
    )


def test_a_great_many_blocks_are_counted(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstate.observe.log.MOST_BLOCKS", 1)
    rig = Served()
    Logs(rig.kv)
    lease, _ = rig.compute(1, 2)
    rig.kv.reset()
    rig.kv.abort(lease)
    rig.clock.advance(2.0)
    rig.kv.poll()
    rig.kv.poll()
    assert kept.events() == ["quarantined", "quarantine"]
    assert kept.of("quarantine")["said"] == "3 more blocks went into quarantine or out"


def test_ranks_and_troubles(kept: Kept) -> None:
    kv = KVRuntime(RuntimeConfig(ledger=Served().kv.config.ledger, block_bytes=64, workers=Workers.OWN))
    Logs(kv)
    got(kv.open("a"))
    kv.worker_lost(0, "it was killed")
    kv.report(b"nonsense")
    kv.poll()
    told = kept.of("rank_lost")
    assert (told["rank"], told["code"], told["level"]) == (0, "PEER_LOST", "ERROR")
    assert "with 1 leases" in told["said"]
    assert "it was killed" in told["said"]
    assert kept.of("trouble")["said"].startswith("a message of a worker could not be read")


def test_the_end_is_critical_and_says_what_was_under_way(kept: Kept) -> None:
    rig = Served()
    logs = Logs(rig.kv, burst=1)
    rig.compute(1)
    rig.land(failures=[Failure(-1, int(Code.DEVICE_ERROR), "store", message="xid 79")])
    told = kept.of("fatal")
    assert (told["law"], told["level"], told["logger"]) == ("device", "CRITICAL", "kvstate.runtime")
    assert "xid 79" in told["said"]
    assert "lease 1 is open" in told["said"]
    logs.on_verdict(Fatal("L8", "again", tuple(f"lease {number} is open" for number in range(30))))
    assert kept.records[-1].getMessage().endswith("lease 19 is open\n  and 10 more")


def failed(logs: Logs, code: Code) -> None:
    logs.on_verdict(JobVerdict(1, 1, Ending.FAILED, (), (KVError(code, "store"),)))


def test_a_storm_is_told_once_for_each_code(kept: Kept) -> None:
    rig = Served()
    logs = Logs(rig.kv, burst=2, window=10.0)
    for _ in range(50):
        failed(logs, Code.NO_SPACE)
    failed(logs, Code.BUSY)
    rig.kv.poll()
    assert kept.events() == ["job_failed"] * 3
    rig.clock.advance(10.0)
    rig.kv.poll()
    last = kept.records[-1]
    assert last.getMessage() == "48 more of job_failed NO_SPACE in 10 s were not told one by one"
    assert (last.__dict__["suppressed"], last.__dict__["code"], last.levelname) == (48, "NO_SPACE", "WARNING")
    assert kept.events() == ["job_failed"] * 4, "of the other code nothing was left out"
    failed(logs, Code.NO_SPACE)
    assert len(kept.records) == 5, "a new window"


def test_a_window_that_no_turn_has_closed_is_closed_by_the_next_event_or_by_the_end(kept: Kept) -> None:
    rig = Served()
    logs = Logs(rig.kv, burst=1, window=10.0)
    for _ in range(3):
        failed(logs, Code.NO_SPACE)
    rig.kv.ledger.tick(11.0)
    failed(logs, Code.NO_SPACE)
    failed(logs, Code.NO_SPACE)
    assert [getattr(record, "suppressed", 0) for record in kept.records] == [0, 2, 0]
    logs.close()
    assert kept.records[-1].__dict__["suppressed"] == 1
    logs.close()
    assert len(kept.records) == 4


def test_what_nobody_listens_to_is_not_put_into_words(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger("kvstate").setLevel(logging.ERROR)
    rig = Served()
    logs = Logs(rig.kv)
    failed(logs, Code.NO_SPACE)
    assert kept.records == []
    assert logs._windows == {}


def test_a_handler_or_filter_that_raises_does_not_end_the_loop(kept: Kept) -> None:
    def broken(record: logging.LogRecord) -> bool:
        raise ValueError("a filter of somebody's")

    logger = logging.getLogger("kvstate.jobs")
    logger.addFilter(broken)
    try:
        rig = Served()
        logs = Logs(rig.kv)
        rig.compute(1)
        done = rig.land(failures=[Failure(-1, int(Code.NO_SPACE), "store")])
        assert [job.ending for job in done.jobs] == [Ending.FAILED]
        assert logs.broken == 1
    finally:
        logger.removeFilter(broken)


def test_what_ends_well_says_nothing(kept: Kept) -> None:
    rig = Served()
    Logs(rig.kv)
    lease, _ = rig.compute(1, 2)
    rig.land()
    rig.kv.finish(lease)
    rig.crowd()
    lease, _, _ = rig.fetch(1, 2)
    rig.land()
    rig.land()
    rig.kv.finish(lease)
    lease, _ = rig.compute(3)
    rig.kv.abort(lease)
    rig.land()
    assert not rig.kv.shutdown(1.0)
    assert kept.records == []


def test_a_burst_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a burst of 0 records says nothing; give 1 or more"):
        Logs(Served().kv, burst=0)


def test_a_record_as_json(kept: Kept) -> None:
    rig = Served()
    Logs(rig.kv)
    rig.compute(1)
    rig.land(failures=[Failure(0, int(Code.NO_SPACE), "store")])
    (record,) = kept.records
    record.created, record.msecs = 0.25, 250.0
    line = Formatter().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert (told["time"], told["level"], told["logger"]) == ("1970-01-01T00:00:00.250Z", "WARNING", "kvstate.jobs")
    assert (told["code"], told["token"], told["message"]) == ("NO_SPACE", [1, 1], record.getMessage())
    plain = logging.LogRecord("other", logging.INFO, "", 0, "%s and %s", (1, 2), None)
    assert json.loads(Formatter().format(plain)).keys() == {"time", "level", "logger", "message"}
    try:
        raise ValueError("why")
    except ValueError as error:
        plain.exc_info = (ValueError, error, error.__traceback__)
    assert "ValueError: why" in json.loads(Formatter().format(plain))["exception"]


def test_an_outcome_that_proves_nothing_is_no_failure(kept: Kept) -> None:
    rig = Served()
    Logs(rig.kv)
    rig.compute(1)
    for flight in rig.copier.in_flight():
        rig.copier.deliver(flight.serial, Outcome.TIMEOUT)
    rig.kv.poll()
    assert "fatal" not in kept.events()
    assert {pool.name for pool in POOLS} >= {record.__dict__.get("pool", "host") for record in kept.records}
