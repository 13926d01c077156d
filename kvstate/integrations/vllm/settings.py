"""What the connector is told: `kv_connector_extra_config` of vLLM's `--kv-transfer-config`, checked when it is read.

Which versions of vLLM were tested stands here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from kvstate.runtime.tiers.settings import MOST_THREADS, Sync, room_of

T = TypeVar("T")
_PLACE: Final = "kv_connector_extra_config"
TESTED: Final = ("0.32.0",)
"""Versions of vLLM with which the tests pass."""


class ConnectorConfigError(ValueError):
    """A configuration that can't work, or a vLLM that was not tested; one sentence with the place and the remedy."""


@dataclass(frozen=True, slots=True)
class DiskSettings:
    """A disk below the host pool: `disk` of the extra configuration. Errors: `ConnectorConfigError`."""

    path: str = ""
    """A folder of this host; each rank has one of its own in it. Needed."""
    bytes: int = 0
    """What blocks may take there, of all ranks together. This or `blocks` is needed."""
    blocks: int = 0
    """The same, counted in blocks of vLLM's block size."""
    write: str = "through"
    """`through`: a block goes to the disk as soon as the host has it. `back`: before the host would evict it."""
    promote: bool = True
    """What was loaded from the disk is stored in the host pool again."""
    sync: str = "data"
    """What a store survives: `none` the death of the process, `data` and `full` a power cut, too."""
    secret_file: str = ""
    """A file with a secret of 32 bytes, with which files are sealed against whoever else may write there."""
    threads: int = 2
    """Of each rank, for the disk alone."""
    fingerprint: str = ""
    """What else the bytes depend on and vLLM can't know: which weights lie at the path of the model, say."""
    recover_seconds: float = 10.0
    """So long the first requests wait for what the disk holds from before; then it is a miss until it is known."""

    @classmethod
    def of(cls, extra: object) -> DiskSettings:
        """The settings in this mapping of plain values."""
        place = f"{_PLACE}.disk"
        if not isinstance(extra, Mapping):
            raise ConnectorConfigError(f"{place}: {extra!r} is no table; give one with path and bytes")
        settings = _read(cls, extra, place)
        if not settings.path:
            raise ConnectorConfigError(f"{place}.path: is missing; give a folder of this host")
        if bool(settings.bytes) == bool(settings.blocks):
            raise ConnectorConfigError(f"{place}: give either bytes (of all ranks together) or blocks, as its bound")
        _one_of(place, "write", settings.write, ("through", "back"))
        _one_of(place, "sync", settings.sync, tuple(Sync))
        if not 1 <= settings.threads <= MOST_THREADS:
            raise ConnectorConfigError(f"{place}.threads: {settings.threads} is out of range; give 1 to {MOST_THREADS}")
        return settings

    def blocks_of(self, block_bytes: int, ranks: int) -> int:
        """How many blocks lie there at most; `block_bytes` is one rank's piece of a block."""
        blocks = self.blocks or self.bytes // (room_of(block_bytes) * ranks)
        if blocks < 1:
            raise ConnectorConfigError(
                f"{_PLACE}.disk.bytes: {self.bytes} bytes hold no block; a file of one takes {room_of(block_bytes)} "
                f"bytes on each of {ranks} ranks"
            )
        return blocks


@dataclass(frozen=True, slots=True)
class Settings:
    """The extra configuration of the connector. Errors: `ConnectorConfigError`."""

    host_bytes: int = 0
    """Bytes of host memory for offloaded blocks, of all ranks together. This or `host_blocks` is needed."""
    host_blocks: int = 0
    """The same, counted in blocks of vLLM's block size."""
    load_seconds: float = 5.0
    """So long a request waits for a load; then it is told how far that came, and the rest is computed."""
    store_seconds: float = 30.0
    """So long a store may take until it is given up."""
    grace_seconds: float = 1.0
    """From the end of such a wait until a copy that has not answered is given up, its memory still held."""
    cool_seconds: float = 1.0
    """For so long a key whose load failed for no fault of its bytes is a miss."""
    pending_seconds: float = 1.0
    """For so long a request waits for a block that another request is loading; then that is a miss."""
    wait_seconds: float = 0.1
    """Where vLLM is short of blocks, it waits so long for those that copies hold; then it preempts others. The held
    ones stay held either way."""
    attempts: int = 2
    """How often a copy is tried in all."""
    threads: int = 2
    """Of the copier of each rank, where threads copy."""
    integrity: str = "host"
    """`host`: each block is summed when it is stored and compared when it is loaded; `boundary` or `off`: it is not."""
    allow_untested: bool = False
    """Run with a version of vLLM that was not tested, and warn."""
    disk: DiskSettings | None = None
    """A disk below the host pool; what lies there outlives the process."""

    @classmethod
    def of(cls, extra: Mapping[str, Any] | None) -> Settings:
        """The settings in this mapping of plain values."""
        settings = _read(cls, extra or {}, _PLACE)
        if bool(settings.host_bytes) == bool(settings.host_blocks):
            raise ConnectorConfigError(
                f"{_PLACE}: give either host_bytes (of all ranks together) or host_blocks, so that there is a host pool"
            )
        _one_of(_PLACE, "integrity", settings.integrity, ("host", "boundary", "off"))
        return settings

    def blocks(self, block_bytes: int, ranks: int) -> int:
        """How many blocks the host pool has; `block_bytes` is one rank's piece of a block."""
        blocks = self.host_blocks or self.host_bytes // (block_bytes * ranks)
        if blocks < 1:
            raise ConnectorConfigError(
                f"{_PLACE}.host_bytes: {self.host_bytes} bytes hold no block; a block has {block_bytes} bytes on each "
                f"of {ranks} ranks"
            )
        return blocks


def check_version(version: str, *, allow_untested: bool) -> str:
    """A warning for a version that was not tested and is allowed, else an empty text.

    Errors: `ConnectorConfigError` for one that is not allowed. A local part (`+cpu`) does not matter.
    """
    if version.partition("+")[0] in TESTED:
        return ""
    what = f"vLLM {version} was not tested with this connector ({', '.join(TESTED)} was)"
    if allow_untested:
        return f"{what}; its connector API is marked experimental and changes"
    raise ConnectorConfigError(f"{what}; install that, or set {_PLACE}.allow_untested to true and run your own tests")


def _read(kind: type[T], extra: Mapping[str, Any], place: str) -> T:
    """`extra`, which stands at `place`, as settings of that kind."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for name, value in extra.items():
        if name not in known:
            raise ConnectorConfigError(f"{place}.{name}: there is no such setting{_meant(name, list(known))}")
        where, default = f"{place}.{name}", known[name].default
        given[name] = DiskSettings.of(value) if default is None else _checked(where, value, type(default))
    return kind(**given)


def _checked(place: str, value: Any, kind: type) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ConnectorConfigError(f"{place}: {value!r} is of type {type(value).__name__}, not {kind.__name__}")
    if isinstance(value, int | float) and not 0 <= value < float("inf"):
        raise ConnectorConfigError(f"{place}: {value} is out of range; give 0 or more")
    return value


def _one_of(place: str, name: str, value: str, words: tuple[str, ...]) -> None:
    if value not in words:
        raise ConnectorConfigError(f"{place}.{name}: {value!r} is none of {', '.join(words)}")


def _meant(word: str, known: list[str]) -> str:
    close = get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"
