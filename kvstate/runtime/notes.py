"""What a runtime writes down of itself: the end of its run in memory, a file of it when it breaks, a whole record.

Nothing of it may end the runtime. A file that can't be made is said at the start, where somebody can still mend it; one
that can't be written any more ends there, with a sentence among the troubles of the next poll.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kvstate.machines.config import ConfigError
from kvstate.machines.ledger import Ledger
from kvstate.runtime.answers import Troubles
from kvstate.runtime.settings import RuntimeConfig
from kvstate.trace.observer import Observer
from kvstate.trace.record import Recorder
from kvstate.trace.ring import Crash, Ring

if TYPE_CHECKING:
    from kvstate.runtime.engine import Poll


class Sheet:
    """A file of text that is written to until that fails, and from then on is not.

    Errors: `ConfigError` where it can't be made.
    """

    def __init__(self, setting: str, path: Path) -> None:
        """`setting` is what named the path."""
        self.path = path
        """Where it lies; what was there before is gone."""
        self.trouble = ""
        """Why nothing more is written, in a sentence; empty while all is well."""
        try:
            self._file: TextIO = path.open("w", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{setting}: {path} can't be written: {error.strerror or error}") from None

    def write(self, text: str, /) -> None:
        """Write, or not."""
        if self.trouble or self._file.closed:
            return
        try:
            self._file.write(text)
        except OSError as error:
            self._end(error)

    def flush(self) -> None:
        """Give what was written to the system."""
        if not self.trouble and not self._file.closed:
            try:
                self._file.flush()
            except OSError as error:
                self._end(error)

    def close(self) -> None:
        """Write the rest, and no more after it."""
        self.flush()
        with suppress(OSError):
            self._file.close()

    def _end(self, error: OSError) -> None:
        self.trouble = f"the record in {self.path} ends early: {error.strerror or error}"


class Notes:
    """Ring, crash dump and record of a runtime, as its settings say.

    Errors: `ConfigError` for a crash dump or a record that can't be written.
    """

    def __init__(self, config: RuntimeConfig, ledger: Ledger) -> None:
        """Of a ledger that has had no input yet."""
        self.listeners: list[Observer] = []
        """Who is told of what passes through the engine; others may be added."""
        settings = asdict(config)
        self.ring = Ring(ledger, config.ring_events) if config.ring_events else None
        """The end of the run."""
        self.crash: Crash | None = None
        """What writes it down when the ledger is poisoned."""
        self._sheet: Sheet | None = None
        self._said = False
        if self.ring is not None:
            self.listeners.append(self.ring)
        if self.ring is not None and config.crash_dump is not None:
            _can_be_made("crash_dump", config.crash_dump)
            self.crash = Crash(self.ring, config.crash_dump, settings)
        if config.record is not None:
            self._sheet = Sheet("record", config.record)
            self.listeners.append(Recorder(ledger, self._sheet, settings))

    def tell(self, name: str, answer: object, /, **values: object) -> None:
        """A request was answered: tell all listeners, as `Observer.on_input`."""
        for listener in self.listeners:
            listener.on_input(name, answer, **values)

    def turn(self, done: Poll, troubles: Troubles) -> tuple[str, ...]:
        """A turn of the engine is over: tell what it does not tell by itself. Returns the troubles, ours among them."""
        for loss in done.lost:
            lost = {"rank": loss.rank, "leases": len(loss.leases), "keys": loss.keys, "parts": loss.parts}
            self.tell("rank_lost", loss, **lost)
        if done.fatal is not None and not self._said:
            self._said = True
            if self._sheet is not None:
                self._sheet.flush()
            if self.crash is not None:
                troubles.tell(self.crash.said)
        if self._sheet is not None and self._sheet.trouble:
            troubles.tell(self._sheet.trouble)
        told = troubles.take()
        for sentence in told:
            self.tell("trouble", None, sentence=sentence)
        return told

    def close(self) -> None:
        """Close the record."""
        if self._sheet is not None:
            self._sheet.close()


def _can_be_made(setting: str, path: Path) -> None:
    """Errors: `ConfigError` for a file that could not be made when it is needed."""
    if not path.parent.is_dir():
        raise ConfigError(f"{setting}: there is no folder {path.parent}; make it, or name another")
    if path.is_dir():
        raise ConfigError(f"{setting}: {path} is a folder; name a file in it")
