"""One object store, asked by name: put if absent, replace what is still the same, get, look. By obstore.

* **A deadline.** Each try of a request ends after `request_for` seconds, body included, and none begins later than that
  after the first: so a call returns within twice the time.
* **Tries.** Again is asked only what may go well another time: no answer, 429, 500, 502, 503, 504. Nothing else is.
* **Conditions.** `create` and `replace` are one request each, and the store decides: of several writers one wins. A
  store that can't replace on condition (a folder) is asked first and written to then; who comes in between loses his
  object, which is a miss and never wrong bytes.
* A request whose answer was lost may have been carried out all the same, or be so later. `StoreError.doubtful` says so.

Any thread may call any method; each call is one thread's as long as it lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from random import random
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kvstate.errors import Code
from kvstate.machines.config import ConfigError
from kvstate.runtime.tiers.objects.answers import Patience, StoreError, heard
from kvstate.runtime.tiers.objects.settings import Place, StoreConfig, place_of

if TYPE_CHECKING:
    from obstore.store import MemoryStore, ObjectStore

PAUSE: Final = 0.05
"""Seconds before the second try, at most; doubled for each further one, and cut by chance."""
CONNECT_SECONDS: Final = 3.0
"""To reach the other side, at most."""
Answer = TypeVar("Answer")
_in_memory: dict[str, MemoryStore] = {}
_making = Lock()


class Meta(NamedTuple):
    """What a store says of an object without handing it out."""

    size: int
    """Bytes, header included."""
    e_tag: str
    """Which version it is; empty for a store that has no such thing."""


class Got(NamedTuple):
    """An object, or as much of it as was wanted."""

    data: memoryview
    """Its bytes; nothing of one that is larger than wanted."""
    meta: Meta
    """What the store says of it."""


class Bucket:
    """See the module. Errors: `StoreError` from all that asks; `ConfigError` for a store that can't be made."""

    def __init__(self, config: StoreConfig) -> None:
        """Makes no request yet."""
        self.url = config.url
        """Where it is."""
        self.place = place_of(config.url)
        """The same, taken apart."""
        self.requests = 0
        """How many were made, tries counted; for looking."""
        self._seconds = config.request_for
        self._tries = config.tries
        self._patience = Patience()
        try:
            import obstore
        except ImportError:
            raise ConfigError(
                "store: an object store needs the package obstore: pip install 'kvstate[objects]'"
            ) from None
        self._api: Any = obstore
        try:
            self._store = _store(self.place, config.request_for)
        except Exception as problem:
            said = str(problem).partition("\n")[0]
            raise ConfigError(f"store.url: {config.url} can't be used: {said}") from None

    def create(self, name: str, data: memoryview, stage: str) -> str:
        """Put an object where there is none; its e_tag. Errors: `StoreError` with SLOT_CONFLICT where there is one."""
        return self._put(name, data, "create", stage)

    def replace(self, name: str, data: memoryview, e_tag: str, stage: str) -> str:
        """Put an object in the place of that very version; its e_tag. Errors: `StoreError` with SLOT_CONFLICT where it
        is another version by now, or none.
        """
        if self.place.scheme != "file":
            return self._put(name, data, {"e_tag": e_tag}, stage)
        there = self.look(name, stage)
        if there is None or there.e_tag != e_tag:
            raise StoreError.of(Code.SLOT_CONFLICT, stage, f"{name} is another version by now")
        return self._put(name, data, "overwrite", stage)

    def _put(self, name: str, data: memoryview, mode: object, stage: str) -> str:
        # A store in memory keeps the very bytes that it is given, and ours are written over.
        given = data if self.place.scheme != "memory" else bytes(data)
        result = self._ask(stage, lambda: self._api.put(self._store, name, given, mode=mode, use_multipart=False))
        return result["e_tag"] or ""

    def look(self, name: str, stage: str) -> Meta | None:
        """What there is under this name; None for nothing."""
        try:
            return _meta(self._ask(stage, lambda: self._api.head(self._store, name)))
        except StoreError as error:
            if _is_missing(error):
                return None
            raise

    def get(self, name: str, most: int, stage: str) -> Got | None:
        """The object under this name, its bytes if they are `most` at most; None for nothing."""

        def whole() -> Got:
            result = self._api.get(self._store, name)
            meta = _meta(result.meta)
            return Got(memoryview(result.bytes() if meta.size <= most else b""), meta)

        try:
            return self._ask(stage, whole)
        except StoreError as error:
            if _is_missing(error):
                return None
            raise

    def reach(self, prefix: str) -> str:
        """Is it there, and may we read it? Empty if so, else a sentence that says why not."""
        try:
            self._ask("lookup", lambda: next(iter(self._api.list(self._store, prefix, chunk_size=1)), None))
        except StoreError as error:
            return f"{self.url} can't be read: {error.error.code.name}: {error.error.message}"
        return ""

    def _ask(self, stage: str, request: Callable[[], Answer]) -> Answer:
        """Make a request, again where that may help and there is time."""
        start, number, doubtful = time.monotonic(), 0, False
        self._patience.may_ask(start, stage)
        while True:
            number += 1
            self.requests += 1
            try:
                answer = request()
            except Exception as problem:
                error = heard(problem, stage)
            else:
                self._patience.told(time.monotonic(), answered=True)
                return answer
            self._patience.told(time.monotonic(), answered=not error.unanswered)
            error.doubtful = doubtful = doubtful or error.doubtful
            pause = PAUSE * 2 ** (number - 1) * (0.5 + random() / 2)
            late = time.monotonic() + pause - start >= self._seconds
            if not error.transient or late or number == self._tries:
                raise error
            time.sleep(pause)
            if not self._patience.lets_ask(time.monotonic()):
                raise error


def _is_missing(error: StoreError) -> bool:
    """404, of the object and not of the bucket: without a bucket nothing is known."""
    return (error.error.driver, error.error.raw) in _MISSING and not error.error.message.startswith("NoSuchBucket")


_MISSING: Final = (("http", "404"), ("http", "410"), ("python", "builtins.FileNotFoundError"))


def _meta(said: Any) -> Meta:
    return Meta(said["size"], said["e_tag"] or "")


def _store(place: Place, seconds: float) -> ObjectStore:
    from obstore.store import LocalStore, MemoryStore, S3Store

    if place.scheme == "memory":
        with _making:
            return _in_memory.setdefault(place.bucket, MemoryStore())
    if place.scheme == "file":
        return LocalStore(place.bucket, mkdir=True)
    options: dict[str, Any] = dict(place.options)
    return S3Store(
        place.bucket,
        prefix=place.prefix.rstrip("/") or None,
        client_options={
            "timeout": timedelta(seconds=seconds),
            "connect_timeout": timedelta(seconds=min(seconds, CONNECT_SECONDS)),
            "allow_http": options.get("endpoint", "").startswith("http://"),
        },
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=seconds)},
        **options,
    )
