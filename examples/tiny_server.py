"""A small serving engine whose KV blocks are kvstate's; `docs/tiny-server.md` says what it shows.

    python -m examples.tiny_server
    python -m examples.tiny_server --no-faults
    python -m examples.tiny_server --no-verify        what corrupted copies do where nobody looks

It serves prompts that share their beginnings with too little memory and with copies that go wrong, and compares every
token with an undisturbed run of the same prompts. The exit status is 1 if one differs. Reading order: this file, then
`examples.tiny`: `decoder`, `traffic`, `server` (the loop), `pools` (the runtime), `weather` (the faults).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from examples.tiny.traffic import most_blocks

if TYPE_CHECKING:
    from examples.tiny.counts import Counts
    from examples.tiny.decoder import Decoder
    from examples.tiny.traffic import Request

MOST_BLOCKS = 65_536
"""Of a pool: less than a gigabyte."""
MOST_REQUESTS = 100_000
SHUTDOWN_SECONDS = 10.0


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    seed: int
    requests: int
    device_blocks: int
    host_blocks: int
    faults: bool
    verify: bool


@dataclass(frozen=True)
class Result:
    """What came of it."""

    settings: Settings
    counts: Counts
    faults: dict[str, int]
    """How often each fault struck a copy."""
    tokens: int
    """How many were said and compared."""
    wrong: dict[int, int]
    """By the number of a request, the first token that differs, counted from 1."""
    left: tuple[str, ...]
    """What was still under way at the end, a sentence each."""

    @property
    def good(self) -> bool:
        """Is every token the right one, and nothing left behind?"""
        return not self.wrong and not self.left


def run(settings: Settings) -> Result:
    """Serve, and compare. Everything is drawn from the seed."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the products are small: a second thread costs more than it brings
    try:
        return _run(settings)
    finally:
        torch.set_num_threads(threads)


def _run(settings: Settings) -> Result:
    from examples.tiny.decoder import Decoder
    from examples.tiny.pools import make_machine
    from examples.tiny.server import Server
    from examples.tiny.traffic import make_requests

    decoder = Decoder(settings.seed)
    requests = make_requests(settings.seed, settings.requests, decoder.shape.vocabulary)
    cache = decoder.make_cache(settings.device_blocks)
    faults = settings.seed if settings.faults else None
    machine = make_machine(cache, settings.host_blocks, verify=settings.verify, faults=faults)
    with machine.kv as kv:
        server = Server(decoder, machine)
        server.serve(requests)
        left = kv.shutdown(within=SHUTDOWN_SECONDS)
    if not left.tokens:  # else a copy may touch it even now
        machine.memory.close()
    return Result(
        settings,
        server.counts,
        dict(machine.weather.counts) if machine.weather else {},
        sum(len(request.said) for request in requests),
        dict(compare(decoder, requests)),
        left.sentences,
    )


def compare(decoder: Decoder, requests: list[Request]) -> Iterator[tuple[int, int]]:
    """Each request that was not answered as in an undisturbed run, and the first token that differs.

    An aborted one has said less, and all of it has to be right.
    """
    from examples.tiny.decoder import greedy

    for request in requests:
        right = greedy(decoder, request.prompt, len(request.said))
        differ = [place for place, pair in enumerate(zip(request.said, right, strict=True), 1) if pair[0] != pair[1]]
        if differ:
            yield request.number, differ[0]


def lines(result: Result) -> Iterator[str]:
    """The report."""
    settings, counts = result.settings, result.counts
    loads = counts.loads
    yield f"blocks    {settings.device_blocks} on the device, {settings.host_blocks} on the host"
    yield (
        f"requests  {settings.requests}: {counts.finished} finished, {counts.aborted} aborted, "
        f"{counts.aborted_in_load} in the middle of a load"
    )
    yield f"pressure  {counts.preempted} preempted, {counts.readmitted} admitted again with a new lease"
    yield f"waits     {counts.waited} for blocks that were draining, {counts.fences} for a fence"
    yield f"faults    {listed(result.faults) or 'none injected'}"
    yield f"cached    {counts.from_device:,} tokens from the device, {counts.from_host:,} from the host"
    yield f"computed  {counts.computed:,} tokens in {counts.steps:,} steps; {counts.recomputed:,} for loads that failed"
    yield f"stores    {listed(counts.stores) or 'none'}"
    yield f"loads     {loads['proceed']} whole, {loads['recompute']} failed, {loads['aborted']} ended with their lease"
    yield f"failures  {listed(counts.codes) or 'none'}"
    for number, place in list(result.wrong.items())[:5]:
        yield f"WRONG     request {number}, from token {place} on"
    yield from (f"LEFT      {sentence}" for sentence in result.left)
    if result.wrong:
        yield f"tokens    {len(result.wrong)} of {settings.requests} requests differ from an undisturbed run"
    else:
        yield f"tokens    all {result.tokens:,} equal those of an undisturbed run"


def listed(counts: dict[str, int]) -> str:
    """Counts by name, the greatest first."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def as_json(result: Result) -> str:
    """The same as one JSON object on one line."""
    whole = {**vars(result), "settings": asdict(result.settings), "counts": vars(result.counts), "good": result.good}
    return json.dumps(whole, sort_keys=True)


def within(least: int, most: int, why: str = "") -> Callable[[click.Context, click.Parameter, int], int]:
    """A callback of click that wants a number in this range."""

    def callback(context: click.Context, param: click.Parameter, value: int) -> int:
        if least <= value <= most:
            return value
        what = f"too few{why}" if value < least else "too many"
        raise click.BadParameter(f"{value} is {what}; give {least:,} to {most:,}", context, param)

    return callback


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, help="Of weights, prompts and faults.")
@click.option("--requests", type=int, default=100, callback=within(1, MOST_REQUESTS), help="How many are served.")
@click.option(
    "--device-blocks",
    type=int,
    default=40,
    callback=within(most_blocks(), MOST_BLOCKS, f": the longest request needs {most_blocks()} at once"),
    help="Blocks of the decoder's KV cache.",
)
@click.option(
    "--host-blocks",
    type=int,
    default=120,
    callback=within(0, MOST_BLOCKS),
    help="Blocks of the host pool; 0 for none.",
)
@click.option("--no-faults", is_flag=True, help="Threads make the copies, in real time, and nothing is injected.")
@click.option("--no-verify", is_flag=True, help="Take what a load brings as read: corrupted bytes are served.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object.")
def main(**options: Any) -> None:
    """Serve random prompts with a small decoder over kvstate's blocks, and compare all tokens with a run that nothing
    disturbs. Status 1 if one differs.
    """
    try:
        import torch  # noqa: F401 - is it there?
    except ImportError as error:
        raise click.ClickException(f"{error}; the decoder needs it: pip install 'kvstate[runtime]'") from None
    from examples.tiny.server import StopServingError

    settings = Settings(
        options["seed"], options["requests"], options["device_blocks"], options["host_blocks"],
        faults=not options["no_faults"], verify=not options["no_verify"],
    )  # fmt: skip
    try:
        result = run(settings)
    except StopServingError as error:
        raise click.ClickException(f"stopped serving, for an invariant is broken: {error}") from None
    click.echo(as_json(result) if options["as_object"] else "\n".join(lines(result)))
    sys.exit(0 if result.good else 1)


if __name__ == "__main__":
    main()
