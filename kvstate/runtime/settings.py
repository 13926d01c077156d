"""What a `KVRuntime` is told: one frozen value, made in code or read from a TOML file, checked when it is made.

A file has the same names as the classes, a table for a class:

    block_bytes = 2097152
    workers = "processes"

    [ledger]
    ranks = 2

    [[ledger.pools]]
    name = "device"
    blocks = 1000

Each mistake is one sentence that says where it is and what to do instead.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from kvstate.machines.config import ConfigError, LedgerConfig
from kvstate.runtime.peers.settings import PeerConfig, check_peers
from kvstate.runtime.tiers.objects.settings import StoreConfig, check_store
from kvstate.runtime.tiers.settings import DiskConfig, check_disk
from kvstate.tiering import TierConfig, check_tiers
from kvstate.trace.ring import EVENTS

MAX_BLOCK_BYTES: Final = 1 << 34
"""Far more than a block of any model; a larger number is a mistake."""
MAX_THREADS: Final = 256
"""Of one copier."""
MAX_EVENTS: Final = 10_000_000
"""Of a ring; some hundred bytes each."""


class Workers(StrEnum):
    """Where the copies of a rank are made."""

    THREADS = "threads"
    """By threads of this process, or by streams of a GPU that it has."""
    PROCESSES = "processes"
    """In a process for each rank, which the runtime starts, and starts again when it has died."""
    OWN = "own"
    """In processes of the embedder's, over a channel of the embedder's; see `kvstate.runtime.worker`."""


class CopierChoice(StrEnum):
    """Which copier runs, where the runtime makes it: the words of `kvstate.runtime.copiers.choice`, without torch."""

    AUTO = "auto"
    """What fits the memory: streams where a pool lies on a GPU, else threads."""
    THREADS = "threads"
    CUDA = "cuda"
    CUDA_UNBATCHED = "cuda-unbatched"
    """CUDA, without batched copies of the driver."""


class IntegrityChoice(StrEnum):
    """Which copies are summed and verified: the words of `kvstate.runtime.copy.Integrity`, which brings torch."""

    OFF = "off"
    BOUNDARY = "boundary"
    HOST = "host"


class PolicyChoice(StrEnum):
    """Which cached blocks leave first."""

    ADAPTIVE = "adaptive"
    """Those that were never asked for again, as `kvstate.machines.adaptive` says."""
    LRU = "lru"
    """Those that were given back longest ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """The settings of one runtime. Words may stand for members of enums.

    Errors: `ConfigError` (a `ValueError`), one sentence with the place, the value and the remedy.
    """

    ledger: LedgerConfig
    """Pools, ranks, groups, sizes of parts and batches, deadlines."""
    block_bytes: int
    """Bytes of one rank's piece of a block."""
    workers: Workers = Workers.THREADS
    """Where copies are made."""
    threads: int = 2
    """Of each copier."""
    copier: CopierChoice = CopierChoice.AUTO
    """Which copier runs, unless the embedder brings its own."""
    integrity: IntegrityChoice = IntegrityChoice.BOUNDARY
    """Which copies are summed; `host` wants `verify` in the pool that is to be compared."""
    namespaces: tuple[str, ...] = ()
    """Only these may be opened; empty: any that is not empty. A namespace says all that the bytes depend on."""
    load_for: float = 0.5
    """Seconds until a load that was given no deadline is told how far it came."""
    restarts: int = 16
    """How often a rank's process is started again; a worker that dies for the same reason each time would never stop.
    """
    policy: PolicyChoice = PolicyChoice.ADAPTIVE
    """Which cached blocks leave first, in every pool."""
    tiers: tuple[TierConfig, ...] = ()
    """What is stored in each tier below the device, and when; a tier that is not named is the embedder's to feed."""
    disk: DiskConfig | None = None
    """Where the durable pool lies, if the ledger has one and the runtime makes its copier."""
    store: StoreConfig | None = None
    """Which object store the pool stands for that is durable and shared, likewise."""
    peers: PeerConfig | None = None
    """Who this process is to others that it hands blocks to, or takes them from; None is nobody."""
    ring_events: int = EVENTS
    """So many events of the end of the run are kept in memory, at least; 0 keeps nothing."""
    crash_dump: Path | None = None
    """Where the end of the run is written when the ledger is poisoned, in the format of a record; None is nowhere."""
    record: Path | None = None
    """Where the whole record of the run is written, from the start; None is nowhere. It grows by some hundred bytes for
    each row that fires. A disk that is full ends the record and not the runtime."""

    def __post_init__(self) -> None:
        kinds = {"workers": Workers, "copier": CopierChoice, "integrity": IntegrityChoice, "policy": PolicyChoice}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value not in tuple(kind):
                raise ConfigError(f"{name}: {value!r} is none of {', '.join(kind)}{_meant(value, list(kind))}")
            object.__setattr__(self, name, kind(value))
        if not isinstance(self.ledger, LedgerConfig):
            raise ConfigError(f"ledger: {type(self.ledger).__name__} is no LedgerConfig; give one with the pools")
        _whole("block_bytes", self.block_bytes, 1, MAX_BLOCK_BYTES)
        _whole("threads", self.threads, 1, MAX_THREADS)
        _whole("restarts", self.restarts, 0, 1 << 31)
        _whole("ring_events", self.ring_events, 0, MAX_EVENTS)
        _seconds("load_for", self.load_for)
        _names("namespaces", self.namespaces)
        if not isinstance(self.tiers, tuple):
            raise ConfigError(f"tiers: {self.tiers!r} is no tuple; give one, of a TierConfig for each tier")
        check_tiers(self.tiers, self.ledger)
        for name in ("crash_dump", "record"):
            object.__setattr__(self, name, _path(name, getattr(self, name)))
        if self.crash_dump is not None and not self.ring_events:
            raise ConfigError("crash_dump: there is nothing to write, since ring_events is 0; keep some events")
        if self.crash_dump is not None and self.crash_dump == self.record:
            raise ConfigError(f"crash_dump: {self.record} is where the record goes; give it a file of its own")
        check_disk(self.disk, self.ledger, self.block_bytes)
        check_store(self.store, self.ledger, self.block_bytes)
        check_peers(self.peers, self.ledger, own_copiers=self.workers is Workers.THREADS)
        if self.integrity is IntegrityChoice.HOST and not any(pool.verify for pool in self.ledger.pools[1:]):
            raise ConfigError(
                "integrity: host sums blocks that nobody compares; set verify in a pool below the device, or take "
                "boundary"
            )

    @classmethod
    def from_toml(cls, path: Path | str) -> RuntimeConfig:
        """The settings in this file. `ConfigError` names the file, and the place in it."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{path}: could not be read: {error.strerror or error}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: is no TOML: {error}") from None
        try:
            return cls.of(data)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> RuntimeConfig:
        """The settings in these plain values: tables for classes, lists for tuples. Errors: `ConfigError`."""
        made = _made(cls, data, "")
        assert isinstance(made, cls)
        return made


def _made(kind: Any, value: Any, place: str) -> Any:
    """`value`, which stands at `place`, as a value of that type."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        options = [one for one in get_args(kind) if one is not type(None)]
        return _made(options[0], value, place)
    if is_dataclass(kind):
        return _class(kind, value, place)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{place}: {value!r} is no list; give one, with [ and ] or as [[{place}]]")
        item = get_args(kind)[0]
        return tuple(_made(item, one, f"{place}[{number}]") for number, one in enumerate(value))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    base = str if isinstance(kind, type) and issubclass(kind, StrEnum | Path) else kind
    if type(value) is not base:
        raise ConfigError(f"{place}: {value!r} is of type {type(value).__name__}; give {_WORDS.get(base, str(base))}")
    if issubclass(kind, StrEnum) and value not in tuple(kind):
        raise ConfigError(f"{place}: {value!r} is none of {', '.join(kind)}{_meant(value, list(kind))}")
    return kind(value)


def _class(kind: Any, value: Any, place: str) -> Any:
    """A table as a value of a dataclass."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place}: {value!r} is no table; give one, as [{place}]")
    known = {field.name: field for field in fields(kind)}
    prefix = f"{place}." if place else ""
    for name in value:
        if name not in known:
            raise ConfigError(f"{prefix}{name}: there is no such setting{_meant(name, list(known))}")
    for name, field in known.items():
        if name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{prefix}{name}: is missing; it has no default")
    hints = get_type_hints(kind)
    given = {name: _made(hints[name], one, prefix + name) for name, one in value.items()}
    try:
        return kind(**given)
    except ConfigError as error:
        raise ConfigError(f"{prefix}{error}") from None


_WORDS: Final[dict[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
}


def _meant(word: object, known: list[str]) -> str:
    close = get_close_matches(str(word), [str(one) for one in known], 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(map(str, known))}"


def _whole(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int:
        raise ConfigError(f"{name}: {value!r} is no whole number; give one from {least} to {most}")
    if not least <= value <= most:
        raise ConfigError(f"{name}: {value} is out of range; give {least} to {most}")


def _seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError(f"{name}: {value!r} is no time to wait; give seconds, more than 0")


def _path(name: str, value: object) -> Path | None:
    if value is None or (isinstance(value, str | Path) and str(value) not in ("", ".")):
        return None if value is None else Path(value)
    raise ConfigError(f"{name}: {value!r} is no path of a file; give one, as a text or a Path")


def _names(name: str, value: object) -> None:
    if not isinstance(value, tuple) or not all(isinstance(one, str) and one for one in value):
        raise ConfigError(f"{name}: {value!r} is no tuple of names; give texts that are not empty")
