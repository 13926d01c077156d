"""`python -m bench.gpu_check`: what a machine with a CUDA GPU has to show for the copier that uses it.

It takes less than four minutes.

1. Correctness: requests are computed, stored, loaded, aborted and preempted at random while copies run, in both
   layouts, with and without batched copies, and every byte that comes back is compared with what its key must hold.
2. Bandwidth: stores and loads of scattered blocks of 32 KiB to 4 MiB, block-major and in pieces per layer, each as a
   share of one large copy between the same memories, which is the most that can be had.

It prints ratios, and writes all of it as JSON. Without a CUDA device it says so and ends with status 2; a wrong byte, a
broken law or a leaked block is status 1. `--device cpu` runs the same on threads, to show that the check itself works.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import perf_counter, strftime

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from bench.gpu_chaos import ChaosResult, chaos
from kvstate import __version__
from kvstate.machines.messages import Kind, Outcome, Token, Work
from kvstate.runtime.copiers import Copier
from kvstate.runtime.copiers.choice import make_copier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.pages import host_pool
from kvstate.runtime.tensors import KVPool

RESULTS = Path(__file__).resolve().parent / "results"
BLOCKS = tuple(1 << bits for bits in range(15, 23))
"""Bytes of a block: 32 KiB to 4 MiB."""
LAYERS = 32
"""In the layout per layer: as many tensors, each with keys and values, so 64 pieces a block."""
LAYOUTS = ("block-major", "per layer")
SECONDS = 60.0
"""For the chaos, all variants together; the table takes about as long."""
PART = 16
"""Blocks of a part."""
MOST_PIECES = 1 << 17
"""In a pool: where copies are made one by one, a million of them would take longer than all the rest."""

MakeCopier = Callable[[Memory, Inbox, str], Copier]
"""Makes the copier for a memory, by one of the words of `kvstate.runtime.copiers.choice`."""


def device_pool(layout: str, count: int, block_bytes: int, device: str) -> Pool:
    """A device pool in one of `LAYOUTS`."""
    if layout == "block-major":
        return Pool("device", 0, count, block_bytes, device)
    piece = block_bytes // (2 * LAYERS)
    tensors = [torch.zeros(2, count, piece, dtype=torch.uint8, device=device) for _ in range(LAYERS)]
    return KVPool.from_tensors("device", 0, tensors, block_dim=1)


def parts(kind: Kind, pairs: Sequence[tuple[int, int]], first: int) -> list[Work]:
    """These copies as parts of `PART` blocks, with tokens from `first` on."""
    found: list[Work] = []
    for start in range(0, len(pairs), PART):
        src, dst = zip(*pairs[start : start + PART], strict=True)
        keys = (b"key",) * len(src)
        found.append(Work(Token(1, first + len(found)), kind.value, 0, "cpu", 1, src, dst, keys, 0))
    return found


def timed(copier: Copier, inbox: Inbox, work: Sequence[Work]) -> float:
    """Seconds from the first submit until the copier proves all of it over."""
    begin = perf_counter()
    for part in work:
        copier.submit(part)
    copier.fence()
    seconds = perf_counter() - begin
    assert {report.outcome for report in inbox.drain(len(work) + 1)} == {Outcome.DONE}
    return seconds


def large_copy(memory: Memory, device: str, rounds: int) -> tuple[float, float]:
    """Bytes a second of one copy of a whole pool between the two, down and up: the best of some rounds."""
    host = memory.pools[1].tensor.view(-1)
    there = torch.empty_like(host, device=device)
    best = [0.0, 0.0]
    for _ in range(rounds + 1):
        for place, (dst, src) in enumerate(((host, there), (there, host))):
            _synchronize(device)
            begin = perf_counter()
            dst.copy_(src, non_blocking=True)
            _synchronize(device)
            best[place] = max(best[place], host.numel() / (perf_counter() - begin))
    return best[0], best[1]


def _synchronize(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def ratio(layout: str, block_bytes: int, total: int, device: str, make: MakeCopier, rounds: int) -> dict[str, object]:
    """One line of the table: how near stores and loads of scattered blocks come to one large copy."""
    pieces = 1 if layout == "block-major" else 2 * LAYERS
    count = max(PART, min(total // block_bytes, MOST_PIECES // pieces))
    pool = device_pool(layout, count, block_bytes, device)
    host = host_pool("host", count, count, block_bytes)
    memory, inbox = Memory([pool, host]), Inbox()
    copier = make(memory, inbox, "auto")
    dice, serial = Random(1), 1
    best = {Kind.STORE: 0.0, Kind.FETCH: 0.0}
    for turn in range(rounds + 1):  # the first turn does not count
        src, dst = dice.sample(range(count), count), dice.sample(range(count, 2 * count), count)
        for kind, pairs in ((Kind.STORE, zip(src, dst, strict=True)), (Kind.FETCH, zip(dst, src, strict=True))):
            work = parts(kind, list(pairs), serial)
            serial += len(work)
            rate = count * block_bytes / timed(copier, inbox, work)
            best[kind] = max(best[kind], rate if turn else 0.0)
    left = copier.close(30.0)
    down, up = large_copy(memory, device, rounds)
    memory.close()
    assert not left, left
    return {
        "layout": layout,
        "block_bytes": block_bytes,
        "blocks": count,
        "batched": bool(getattr(copier, "batched", False)),
        "store_ratio": best[Kind.STORE] / down,
        "load_ratio": best[Kind.FETCH] / up,
        "store_gb_s": best[Kind.STORE] / 1e9,
        "load_gb_s": best[Kind.FETCH] / 1e9,
        "large_store_gb_s": down / 1e9,
        "large_load_gb_s": up / 1e9,
    }


def ratios(device: str, make: MakeCopier, *, total: int, rounds: int, blocks: Sequence[int]) -> list[dict[str, object]]:
    """The whole table, `total` bytes in each pool."""
    return [ratio(layout, size, total, device, make, rounds) for layout in LAYOUTS for size in blocks]


def show(lines: Sequence[dict[str, object]]) -> None:
    """The table of ratios."""
    table = Table("layout", "block", "store", "load", "store GB/s", "load GB/s", box=box.SIMPLE_HEAD)
    for line in lines:
        numbers = [f"{line[name]:.2f}" for name in ("store_ratio", "load_ratio", "store_gb_s", "load_gb_s")]
        table.add_row(str(line["layout"]), f"{int(str(line['block_bytes'])) >> 10} KiB", *numbers)
    console = Console(highlight=False)
    batched = "by batches" if all(line["batched"] for line in lines) else "without batches"
    console.print(f"store and load {batched}, as a share of one large copy of page-locked memory; integrity=off", table)


def run_chaos(device: str, make: MakeCopier, seconds: float) -> list[ChaosResult]:
    """Every layout, with the copier as it is and, on a GPU, without batches."""
    settings = ("auto", "cuda-unbatched") if torch.device(device).type == "cuda" else ("auto",)
    variants = [(layout, setting) for layout in LAYOUTS for setting in settings]
    found = []
    for seed, (layout, setting) in enumerate(variants, start=1):
        pool = device_pool(layout, 64, 64 << 10, device)
        memory, inbox = Memory([pool, host_pool("host", 64, 160, pool.block_bytes)]), Inbox()
        copier = make(memory, inbox, setting)
        result = chaos(memory, copier, inbox, seconds=seconds / len(variants), seed=seed)
        memory.close()
        found.append(result._replace(name=f"{layout}, {setting}"))
        print(f"chaos {found[-1].name}: {found[-1].sentence()}")
    return found


def copier_for(memory: Memory, inbox: Inbox, setting: str) -> Copier:
    """The copier that would run here: keys are compared, sums are not taken."""
    return make_copier(memory, inbox, setting=setting, integrity=Integrity.OFF)


def main(args: Sequence[str] | None = None, make: MakeCopier = copier_for) -> int:
    """Run both parts; the status is 0 if all bytes were right, 1 if not, 2 if there is no device."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description="Check the copier for CUDA.")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu to try the check itself")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for the chaos")
    parser.add_argument("--mib", type=int, default=512, help="MiB of each pool in the table of ratios")
    parser.add_argument("--rounds", type=int, default=5, help="of which the best counts")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write it; bench/results/ without")
    chosen = parser.parse_args(args)
    if torch.device(chosen.device).type == "cuda" and not torch.cuda.is_available():
        print(
            f"bench.gpu_check: torch {torch.__version__} sees no CUDA device here; run it where there is one, or try "
            "the check itself with --device cpu",
            file=sys.stderr,
        )
        return 2
    begin = perf_counter()
    results = run_chaos(chosen.device, make, chosen.seconds)
    lines = ratios(chosen.device, make, total=chosen.mib << 20, rounds=chosen.rounds, blocks=BLOCKS)
    show(lines)
    path = chosen.json or RESULTS / f"{strftime('%Y%m%dT%H%M%S')}-gpu.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    named = torch.cuda.get_device_name(chosen.device) if torch.device(chosen.device).type == "cuda" else "cpu"
    data = {
        "format": 1,
        "kvstate": __version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device": named,
        "machine": f"{platform.system()} {platform.machine()}",
        "integrity": "off",
        "seconds": round(perf_counter() - begin, 1),
        "chaos": [result._asdict() for result in results],
        "ratios": lines,
    }
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(f"written to {path}")
    bad = [result for result in results if not result.good]
    for result in bad:
        print(f"bench.gpu_check: {result.name}: {result.sentence()}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
