"""What a user of `kvstate replay` can put right, as one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def put_right(remedy: str) -> Iterator[None]:
    """Around the import of a driver and its run. `remedy` is for a trace that can't be read.

    Raises `click.ClickException` for a package that is missing, a setting that can't be used, and such a trace.
    """
    from kvstate.machines.config import ConfigError
    from kvstate.replay.trace import TraceError

    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "numpy", "xxhash"):
            raise
        raise click.ClickException(
            f"a replay copies real bytes and needs {error.name}: pip install 'kvstate[runtime]'."
        ) from None
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    except TraceError as error:
        raise click.ClickException(f"{error}. {remedy}") from None
