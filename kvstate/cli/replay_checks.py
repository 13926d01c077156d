"""What this machine, and the registry of codes, have to say to options of `kvstate replay`. Errors: `ConfigError`."""

from __future__ import annotations

from importlib.util import find_spec
from shutil import disk_usage
from typing import Any

from kvstate.cli.doctor import memory_bytes
from kvstate.cli.words import did_you_mean
from kvstate.replay.config import ConfigError, ReplayConfig


def check_options(options: dict[str, Any]) -> None:
    """Options that mean nothing without others; those that were not given get their default."""
    if options["disk"] is None:
        for option, what in (("disk_bytes", "says how large a disk is"), ("commits_to", "writes down what a disk has")):
            if options[option] is not None:
                raise ConfigError(f"--{option.replace('_', '-')}", f"{what}, and there is none; give --disk as well.")
    if options["store"] is None and options["store_blocks"] is not None:
        raise ConfigError("--store-blocks", "says how much of a store is known, and there is none; give --store, too.")
    for option in ("disk_bytes", "store_blocks"):
        if options[option] is None:
            options[option] = getattr(ReplayConfig(), option)


def check_machine(config: ReplayConfig) -> None:
    """Codes that there are, memory and disk that are free, folders that files are to go to."""
    _check_codes(config)
    _check_memory(config)
    _check_disk(config)
    _check_store(config)
    if config.report is not None and find_spec("plotly") is None:
        raise ConfigError("--report", "draws with plotly, which is not installed: pip install 'kvstate[report]'.")
    files = {
        "--trace-out": config.trace_out, "--crash-dump": config.crash_dump, "--commits-to": config.commits_to,
        "--report": config.report,
    }  # fmt: skip
    for option, path in files.items():
        if path and not path.parent.is_dir():
            raise ConfigError(option, f"is {path}; there is no folder {path.parent}.")


def _check_disk(config: ReplayConfig) -> None:
    """A disk that is too small would only show as stores that fail."""
    if config.disk is None:
        return
    place = next(folder for folder in (config.disk, *config.disk.absolute().parents) if folder.exists())
    free = disk_usage(place).free
    there = sum(path.stat().st_size for path in config.disk.rglob("*") if path.is_file()) if config.disk.exists() else 0
    if config.disk_bytes > free + there:
        raise ConfigError(
            "--disk-bytes",
            f"is {config.disk_bytes / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free at {place}; make it smaller.",
        )


def _check_store(config: ReplayConfig) -> None:
    """A store that is not there would only show as failures; in the middle of a run it may go and come."""
    if config.store is None:
        return
    if find_spec("obstore") is None:
        raise ConfigError("--store", "needs the package obstore: pip install 'kvstate[objects]'.")
    from kvstate.machines.config import ConfigError as StoreConfigError
    from kvstate.runtime.tiers.objects.bucket import Bucket
    from kvstate.runtime.tiers.objects.settings import StoreConfig

    try:
        sentence = Bucket(StoreConfig(url=config.store, fingerprint="replay", tries=1)).reach("")
    except StoreConfigError as error:
        raise ConfigError("--store", f"can't be used: {error}.") from None
    if sentence:
        raise ConfigError("--store", f"can't be used: {sentence}.")


def _check_codes(config: ReplayConfig) -> None:
    """A code that is not in the registry would fail no part, and nobody would notice."""
    if not config.fail_codes:
        return
    from kvstate.errors.registry import load_errors
    from kvstate.spec import spec_dir

    known = [entry.name for entry in load_errors(spec_dir() / "errors.toml").codes]
    for code, _ in config.fail_codes:
        if code not in known:
            raise ConfigError("--fail", f"names {code}, which is no error code{did_you_mean(code, known)}")


def _check_memory(config: ReplayConfig) -> None:
    available = memory_bytes("MemAvailable")
    if available is not None and config.pool_bytes > available:
        raise ConfigError(
            "--block-bytes",
            f"times all blocks is {config.pool_bytes / 2**30:.1f} GiB, and {available / 2**30:.1f} GiB of memory are "
            "free; make --device-blocks, --host-blocks or --block-bytes smaller.",
        )
