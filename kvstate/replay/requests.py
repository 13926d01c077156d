"""Where a replay has its requests from: a trace, or a generated workload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from kvstate.replay.config import GENERATED_REQUESTS
from kvstate.replay.trace import Request, TraceError, TraceReader, count_lines
from kvstate.replay.workload import generate


def requests_of(
    trace: Path | None,
    limit: int | None,
    seed: int,
    closing: ExitStack,
    *,
    skip_bad: bool = False,
    skipped: Callable[[int], None] = lambda _: None,
) -> tuple[int | None, Iterator[Request]]:
    """The requests, and how many there are if that is known. `closing` closes the trace.

    `skipped` is told how many broken lines were passed over so far. Raises `TraceError` for a trace that can't be
    opened; and, as it is read, for a broken line, unless such are skipped.
    """
    if trace is None:
        count = limit or GENERATED_REQUESTS
        return count, generate(count, seed)
    try:
        stream = closing.enter_context(trace.open("rb"))
    except OSError as error:
        raise TraceError(str(trace), 0, f"could not be opened: {error.strerror or error}") from error
    lines = count_lines(trace)
    reader = TraceReader(stream, str(trace), skip_bad=skip_bad)

    def limited() -> Iterator[Request]:
        for number, request in enumerate(reader, 1):
            skipped(reader.skipped)
            yield request
            if number == limit:
                break
        skipped(reader.skipped)

    return (lines if limit is None or lines is None else min(lines, limit)), limited()
