"""Events that matter, for the standard `logging`: one record each, with fields that have stable names.

    Logs(kv)                                      attaches itself; logger `kvstate`, with a child for each kind
    logging.getLogger("kvstate").setLevel(...)    and the rest is as everywhere

What is logged: jobs that failed, loads that fell, retries, blocks that go into quarantine and come out, ranks that are
lost, troubles, and a broken invariant. The fields stand in the record (`extra`), and their names are in `FIELDS`.

A storm is told once: of one kind of event with one code, `BURST` records in `WINDOW` seconds at most, and then one that
says how many there were besides. Handlers run in the thread of the loop; where one may block, put
`logging.handlers.QueueHandler` in front of it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from time import gmtime, strftime
from typing import Any, Final

from kvstate.errors import KVError
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Effect, Kind, Work
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Ending, Fatal, JobVerdict, LoadVerdict, Verdict
from kvstate.observe.counts import Watched
from kvstate.trace.observer import Observer
from kvstate.trace.rows import listen

LOGGER: Final = "kvstate"
"""The parent of all: `kvstate.jobs`, `kvstate.loads`, `kvstate.blocks`, `kvstate.ranks`, `kvstate.runtime`."""
FIELDS: Final = (
    "event code code_number stage block generation token attempt retryable driver raw job load lease pool rank outcome "
    "tokens errors seconds law suppressed handoff side peer"
).split()
"""What a record may carry. `event` says what happened, in one word; `seconds` is the ledger's time."""
BURST: Final = 10
"""Records of one kind and code in one window."""
WINDOW: Final = 10.0
"""Seconds of the ledger's time."""
MOST_LINES: Final = 20
"""Of what was under way when an invariant broke; all of it is in the verdict, and in the crash dump."""
MOST_BLOCKS: Final = 1_000
"""Blocks that enter or leave quarantine in one turn and are looked at one by one; of more only the count is told."""

FREE, QUARANTINED = int(B.FREE), int(B.QUARANTINED)
"""States as plain numbers: every row of a block is compared with them."""

logging.getLogger(LOGGER).addHandler(logging.NullHandler())


class _Window:
    """One kind of event with one code: since when, and how many."""

    __slots__ = ("begun", "level", "name", "seen")

    def __init__(self, begun: float, level: int, name: str) -> None:
        self.begun, self.level, self.name, self.seen = begun, level, name, 0


class Logs(Observer):
    """See the module. It belongs to the thread that owns the ledger.

    Errors: `ValueError` for a burst below 1, which would say nothing.
    """

    def __init__(self, watched: Watched, *, burst: int = BURST, window: float = WINDOW) -> None:
        """Attach itself to `watched.listeners`; `burst` and `window` as `BURST` and `WINDOW`."""
        if burst < 1:
            raise ValueError(f"a burst of {burst} records says nothing; give 1 or more")
        self.ledger: Ledger = watched.ledger
        """Whose events they are."""
        self.broken = 0
        """Records that a filter or handler raised on; the loop goes on."""
        self._burst, self._span = burst, window
        self._windows: dict[tuple[str, str], _Window] = {}
        self._loggers = {name: logging.getLogger(f"{LOGGER}.{name}") for name in _CHILDREN}
        self._pools = [pool.name for pool in self.ledger.config.pools]
        self._moved: list[tuple[int, int, bool]] = []
        """Blocks that went into quarantine (true) or came out in this turn, and their generation."""
        self._more = 0
        self._listen()
        watched.listeners.append(self)

    # -- what is told --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Hear of blocks that go into quarantine or come out; only written down, and logged when the input is over."""

        def sink(_machine: str, slots: Sequence[int], _row: str, before: int, after: int) -> None:
            if before != after and (before == QUARANTINED or after == QUARANTINED):
                self._move(slots, after)

        listen(self.ledger, sink, ["block"])

    def _move(self, slots: Sequence[int], after: int) -> None:
        room, came = max(MOST_BLOCKS - len(self._moved), 0), after == QUARANTINED
        generation = self.ledger.books.generation
        # A block that has come out for good has begun another life already; the one that it was held in is meant.
        self._moved += [(block, generation[block] - (after == FREE), came) for block in slots[:room]]
        self._more += max(len(slots) - room, 0)

    def on_input(self, name: str, answer: object = None, /, **values: Any) -> None:
        """Ranks that are lost, handoffs that came to nothing, and troubles."""
        if name == "rank_lost":
            error = getattr(answer, "error", None)
            told = {"rank": values["rank"], **(_of_error(error) if isinstance(error, KVError) else {})}
            said = f"rank {values['rank']} is lost, with {values['leases']} leases and {values['keys']} keys"
            self._log("ranks", logging.ERROR, "rank_lost", f"{said}{f': {error}' if error else ''}", **told)
        elif name == "handoff" and values["end"] in ("expired", "lost", "withdrawn"):
            doubt = "; the peer may have taken it" if values["vouched"] and values["side"] == "lend" else ""
            said = f"handoff {values['handoff']} with {values['peer']}: {values['end']} ({values['code']}){doubt}"
            told = {name: values[name] for name in ("handoff", "side", "peer", "code")}
            self._log("handoffs", logging.WARNING, "handoff", said, outcome=values["end"], **told)
        elif name == "trouble":
            self._log("runtime", logging.WARNING, "trouble", str(values["sentence"]))

    def on_effect(self, effect: Effect) -> None:
        """Copies that are tried again."""
        if isinstance(effect, Work) and effect.attempt > 1 and effect.kind in (Kind.STORE, Kind.FETCH):
            books = self.ledger.books
            slot = books.tokens.get(effect.token.serial)
            owner = books.parts[slot].owner if slot is not None else None
            child, told = "jobs" if effect.kind == Kind.STORE else "loads", dict[str, Any]()
            if owner is not None and owner[0] == "offload":
                told = {"job": books.jobs[owner[1]].id, "lease": books.jobs[owner[1]].lease}
            elif owner is not None:
                load = books.loads[books.batches[owner[1]].load]
                told = {"load": load.id, "lease": load.lease}
            what = " of " + ", ".join(f"{name} {number}" for name, number in told.items()) if told else ""
            said = f"{effect.kind} of {len(effect.keys)} blocks{what} begins its attempt {effect.attempt}"
            self._log(child, logging.INFO, "retry", said, token=list(effect.token), attempt=effect.attempt,
                      rank=effect.rank, **told)  # fmt: skip

    def on_verdict(self, verdict: Verdict) -> None:
        """Jobs that failed, loads that fell, and the end of everything."""
        match verdict:
            case JobVerdict(ending=Ending.FAILED):
                said = f"job {verdict.job} of lease {verdict.lease} failed"
                self._fell("jobs", "job_failed", said, verdict.errors, job=verdict.job, lease=verdict.lease)
            case LoadVerdict(ending=Ending.RECOMPUTE):
                said = f"load {verdict.load} of lease {verdict.lease} fell; {verdict.tokens} tokens are there"
                self._fell("loads", "load_fell", said, verdict.errors, load=verdict.load, lease=verdict.lease,
                           tokens=verdict.tokens)  # fmt: skip
            case Fatal():
                left = len(verdict.dump) - MOST_LINES
                more = [f"and {left} more"] if left > 0 else []
                dump = "".join(f"\n  {sentence}" for sentence in (*verdict.dump[:MOST_LINES], *more))
                self._log("runtime", logging.CRITICAL, "fatal",
                          f"an invariant is broken, nothing is served from here on: {verdict.law}: {verdict.sentence}"
                          f"{dump}", law=verdict.law)  # fmt: skip
            case _:
                pass

    def on_turn(self) -> None:
        """What has happened to blocks, and storms that are over."""
        if self._moved or self._more:
            moved, self._moved, more, self._more = self._moved, [], self._more, 0
            for block, generation, came in moved:
                self._quarantine(block, generation, came)
            if more:
                self._log("blocks", logging.WARNING, "quarantine", f"{more} more blocks went into quarantine or out")
        if self._windows:
            now = self.ledger.books.now
            for key, window in list(self._windows.items()):
                if now - window.begun >= self._span:
                    del self._windows[key]
                    self._close(key, window)

    def close(self) -> None:
        """Tell how many records of storms were left out. For the end of a run."""
        windows, self._windows = self._windows, {}
        for key, window in windows.items():
            self._close(key, window)

    # -- records -------------------------------------------------------------------------------------------------------

    def _quarantine(self, block: int, generation: int, came: bool) -> None:
        pool = self._pools[self.ledger.books.pool_of[block]]
        told = {"block": block, "generation": generation, "pool": pool}
        if came:
            self._log("blocks", logging.WARNING, "quarantined", lambda: self.ledger.explain(block=block), **told)
        else:
            said = f"block {block} ({pool}, gen {generation}) is out of quarantine"
            self._log("blocks", logging.INFO, "unquarantined", said, **told)

    def _fell(self, child: str, event: str, said: str, errors: Sequence[KVError], **told: Any) -> None:
        first = errors[0] if errors else None
        also = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        if first is not None:
            told |= {**_of_error(first), "errors": len(errors)}
        self._log(child, logging.WARNING, event, f"{said}: {first or 'no reason is known'}{also}", **told)

    def _log(self, child: str, level: int, event: str, said: Any, **fields: Any) -> None:
        """One record, unless there were too many of its kind; `said` may be a function, asked only then."""
        logger, now = self._loggers[child], self.ledger.books.now
        if not logger.isEnabledFor(level):
            return
        key = (event, str(fields.get("code", "")))
        window = self._windows.get(key)
        if window is None or now - window.begun >= self._span:
            if window is not None:
                self._close(key, window)
            window = self._windows[key] = _Window(now, level, child)
        window.seen += 1
        if window.seen <= self._burst or level >= logging.CRITICAL:
            self._emit(logger, level, said() if callable(said) else said, event=event, seconds=now, **fields)

    def _close(self, key: tuple[str, str], window: _Window) -> None:
        left = window.seen - self._burst
        if left > 0:
            event, code = key
            said = f"{left} more of {event}{f' {code}' if code else ''} in {self._span:g} s were not told one by one"
            fields = {"code": code} if code else {}
            self._emit(self._loggers[window.name], window.level, said, event=event, suppressed=left,
                       seconds=self.ledger.books.now, **fields)  # fmt: skip

    def _emit(self, logger: logging.Logger, level: int, said: str, **fields: Any) -> None:
        try:
            logger.log(level, "%s", said, extra=fields)
        except Exception:  # a filter or handler of somebody else's must not end the loop
            self.broken += 1


_CHILDREN: Final = ("jobs", "loads", "blocks", "ranks", "handoffs", "runtime")


def _of_error(error: KVError) -> dict[str, Any]:
    """What a record says of an error."""
    token = None if error.token is None else list(error.token)
    return {
        "code": error.code.name, "code_number": int(error.code), "stage": error.stage, "block": error.block,
        "generation": error.generation, "token": token, "attempt": error.attempt, "retryable": error.retryable,
        "driver": error.driver, "raw": error.raw,
    }  # fmt: skip


class JSONFormatter(logging.Formatter):
    """A record as one JSON object on one line: `time` (UTC), `level`, `logger`, `message`, and the fields it has."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its newline."""
        time = f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(record.created))}.{int(record.msecs):03}Z"
        said = {"time": time, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        said |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)
