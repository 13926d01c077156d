"""What an object store tier is told. Brings neither torch nor obstore: settings are read where nothing is copied, too.

    s3://BUCKET/PREFIX?endpoint=http://127.0.0.1:8333&region=eu-west-1
    file:///var/lib/engine/objects
    memory://NAME

Credentials are no part of a URL, which stands in logs and records. They come from the environment, as obstore takes
them (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, ...).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.runtime.tiers.settings import read_secret

MOST_REQUESTS: Final = 256
"""At once, of each rank and direction."""
MOST_SECONDS: Final = 3600.0
"""An hour: a request that takes longer is a mistake."""
MOST_TRIES: Final = 32
"""The wait doubles with each."""
SCHEMES: Final = ("s3", "file", "memory")
"""Kinds of stores."""
OPTIONS: Final = (
    "endpoint", "region", "virtual_hosted_style_request", "unsigned_payload", "skip_signature", "request_payer",
    "server_side_encryption", "sse_kms_key_id", "sse_bucket_key_enabled", "checksum_algorithm", "s3_express",
)  # fmt: skip
"""What may stand behind the question mark of an s3 URL: settings of obstore's `S3Store` that are no secrets."""
_SECRETS: Final = re.compile(r"key_id|secret|token|password|credential", re.IGNORECASE)
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


class Place(NamedTuple):
    """Where a store is, taken apart."""

    scheme: str
    """One of `SCHEMES`."""
    bucket: str
    """The bucket; the folder of a file store, or the name of one in memory."""
    prefix: str
    """What the names of all objects begin with, ending with a slash if it is not empty."""
    options: tuple[tuple[str, str], ...]
    """Name and value of each of `OPTIONS` that is given."""


def place_of(url: str) -> Place:
    """What this URL says. Errors: `ConfigError`, one sentence, for one that says nothing of use."""
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError as error:
        raise ConfigError(f"url: {url!r} is no URL ({error}); give one such as s3://bucket/prefix") from None
    if parts.scheme not in SCHEMES:
        raise ConfigError(
            f"url: {url!r} names none of {', '.join(SCHEMES)}; give s3://bucket/prefix, file:///folder or memory://name"
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigError("url: it holds credentials; take them out, and give them in the environment")
    if parts.fragment:
        raise ConfigError(f"url: {url!r} has a #, which means nothing here; leave it out")
    if parts.scheme != "s3":
        if pairs:
            raise ConfigError(f"url: {url!r} has settings, and a store of {parts.scheme} has none; leave out the ?")
        return _local(url, parts.scheme, parts.netloc, unquote(parts.path))
    if not _BUCKET.fullmatch(parts.netloc):
        raise ConfigError(f"url: {url!r} names no bucket; give s3://bucket or s3://bucket/prefix")
    prefix = unquote(parts.path).strip("/")
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        raise ConfigError(f"url: the prefix {prefix!r} has an empty part or dots; give names with slashes between")
    _check_options(url, pairs)
    return Place("s3", parts.netloc, f"{prefix}/" if prefix else "", tuple(pairs))


def _local(url: str, scheme: str, host: str, path: str) -> Place:
    if scheme == "memory":
        if path.strip("/"):
            raise ConfigError(f"url: {url!r} has a path, and memory has none; give memory:// or memory://name")
        return Place(scheme, host, "", ())
    if host not in ("", "localhost") or not path.strip("/"):
        raise ConfigError(f"url: {url!r} names no folder; give file:// and its whole path, as file:///var/lib/objects")
    return Place(scheme, path, "", ())


def _check_options(url: str, pairs: list[tuple[str, str]]) -> None:
    for name, value in pairs:
        if name not in OPTIONS:
            if _SECRETS.search(name):
                raise ConfigError(f"url: {name} is no setting of a URL; give credentials in the environment")
            close = get_close_matches(name, OPTIONS, 1)
            meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(OPTIONS)}"
            raise ConfigError(f"url: {url!r} sets {name}, and there is no such setting; {meant}")
        if not value or [one for one, _ in pairs].count(name) > 1:
            raise ConfigError(f"url: {name} is empty or set twice in {url!r}; set it once")
        if name == "endpoint" and urlsplit(value).scheme not in ("http", "https"):
            raise ConfigError(f"url: the endpoint {value!r} is no address; give one such as http://127.0.0.1:8333")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Where the pool lies that is durable and shared, and under which promises. Its number of blocks stands at the
    pool: so many of the store's objects may be known at once.

    Errors: `ConfigError`, one sentence with the field, the value and the remedy.
    """

    url: str
    """Which store; see the module."""
    fingerprint: str
    """Says all that must be equal for stored bytes to mean the same, as in `DiskConfig`. Whoever gives another one
    shares nothing, and is not in the way either."""
    secret_file: Path | None = None
    """A file with a secret of 32 bytes, or 64 hexadecimal digits, with which all is summed and named (see
    `docs/object-store.md`)."""
    concurrency: int = 8
    """So many requests at once, of each rank: as many that read, and as many that write."""
    request_for: float = 5.0
    """Seconds that one request may take. With all its tries it takes less than twice as long."""
    tries: int = 3
    """How often a request is made in all, where what went wrong is transient."""
    staging_bytes: int = 256 << 20
    """Memory of each rank for blocks that are on their way into the store."""

    def __post_init__(self) -> None:
        if not isinstance(self.url, str):
            raise ConfigError(f"url: {self.url!r} is no text; give one such as s3://bucket/prefix")
        place_of(self.url)
        fingerprint: object = self.fingerprint
        if not isinstance(fingerprint, str) or not fingerprint:
            raise ConfigError(
                f"fingerprint: {self.fingerprint!r} says nothing; name model, revision, layout and dtype at least, or "
                "bytes of one model are served to another"
            )
        secret: object = self.secret_file
        if secret is not None:
            if not isinstance(secret, str | Path) or not str(secret):
                raise ConfigError(f"secret_file: {secret!r} is no path; give one, as a text or a Path")
            object.__setattr__(self, "secret_file", Path(secret))
        for name, most in (("concurrency", MOST_REQUESTS), ("tries", MOST_TRIES), ("staging_bytes", 1 << 50)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise ConfigError(f"{name}: {value!r} is out of range; give a whole number from 1 to {most}")
        seconds: object = self.request_for
        if type(seconds) not in (int, float) or not 0 < self.request_for <= MOST_SECONDS:
            raise ConfigError(f"request_for: {seconds!r} is no time to wait; give seconds, up to {MOST_SECONDS:.0f}")

    def secret(self) -> bytes | None:
        """The secret, if there is a file of it. Errors: `ConfigError` for one that can't be read or is none."""
        return read_secret(self.secret_file)


def store_pool(ledger: LedgerConfig) -> PoolConfig | None:
    """The pool that stands for an object store, if there is one."""
    return next((pool for pool in ledger.pools if pool.durable and pool.shared), None)


def check_store(store: StoreConfig | None, ledger: LedgerConfig, block_bytes: int) -> None:
    """Do store and pools go together? Errors: `ConfigError`."""
    if store is None:
        return
    if not isinstance(store, StoreConfig):
        raise ConfigError(f"store: {type(store).__name__} is no StoreConfig; give one with url and fingerprint")
    pools = [pool for pool in ledger.pools if pool.durable and pool.shared]
    if len(pools) != 1:
        names = ", ".join(pool.name for pool in pools) or "none"
        raise ConfigError(
            f"store: it keeps the pool of the ledger that is durable and shared, of which there are {len(pools)} "
            f"({names})"
        )
    (pool,) = pools
    others = [other.name for other in ledger.pools[1:] if other is not pool and other.copier == pool.copier]
    if others:
        raise ConfigError(
            f"ledger.pools: {pool.name} has the copier {pool.copier!r} of {others[0]}, which asks no store; give it "
            'another, such as copier = "store"'
        )
    if store.staging_bytes < 2 * block_bytes:
        raise ConfigError(
            f"store.staging_bytes: {store.staging_bytes} has no room for two blocks of {block_bytes} bytes; give it "
            "more"
        )
