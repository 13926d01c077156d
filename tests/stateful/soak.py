"""The long form: walks of every world, scope and mix until the time is up. `make soak`, or

    python -m tests.stateful.soak --minutes 10 --seed 7
    python -m tests.stateful.soak --faults         for each planted fault, the seed that finds it soonest

The version and the seed are printed first. A walk that breaks a law is made short and written into the folder that
`--out` names, to be kept in `tests/stateful/walks`. The status is 1 if one was found, or if a row fired that is said to
be out of reach.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from kvstate import __version__
from tests.stateful import durable_faults, foreign_faults, groups_faults, shared_faults  # noqa: F401  they list their own
from tests.stateful.faults import FAULTS
from tests.stateful.runtime_faults import UNSEEN
from tests.stateful.search import WORLDS, Failed, shortest, walked
from tests.stateful.seen import Seen
from tests.stateful.world import MIXES

LIKELY = {"ledger": 3, "runtime": 2, "threads": 1, "groups": 1, "ranks": 1, "durable": 2, "shared": 2}
"""How often each world is walked."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stateful.soak", description="Walk until the time is up.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long; 10 where nothing is said")
    parser.add_argument("--seed", type=int, default=None, help="of the first choice; the clock's where nothing is said")
    parser.add_argument("--out", type=Path, default=Path("build/soak"), help="where a walk that fails is written")
    parser.add_argument("--world", action="append", choices=LIKELY, help="walk this one alone; may be said again")
    parser.add_argument("--faults", action="store_true", help="look for the seeds of the planted faults, and stop")
    given = parser.parse_args(arguments)
    if given.faults:
        return look_for_seeds()
    seed = int(time.time()) if given.seed is None else given.seed
    print(f"kvstate {__version__}, seed {seed}, {given.minutes:g} minutes", flush=True)
    return soak(seed, given.minutes * 60.0, given.out, given.world or list(LIKELY))


def soak(seed: int, seconds: float, out: Path, kinds: Sequence[str]) -> int:
    """Walk, and say now and then how far it got."""
    random, seen = Random(seed), Seen()
    start = said = time.monotonic()
    walks, moves = 0, Counter[str]()
    weights = [LIKELY[kind] for kind in kinds]
    with seen.listening():
        while time.monotonic() - start < seconds:
            (kind,) = random.choices(kinds, weights)
            scope, mix = random.choice(list(WORLDS[kind][1])), random.choice(list(MIXES))
            world = walked(kind, scope, mix, random.randrange(2**31), rounds=random.choice((3, 6, 20)))
            if isinstance(world, Failed):
                return report(kind, scope, world, out)
            seen.add(world)
            walks += 1
            moves[kind] += len(world.log)
            if time.monotonic() - said > 30.0:
                said = time.monotonic()
                print(
                    f"{said - start:7.0f} s, {walks} walks, {moves.total()} moves, not seen yet: {seen.missing()}",
                    flush=True,
                )
    where = ", ".join(f"{count} of {kind}" for kind, count in sorted(moves.items()))
    print(f"{walks} walks, {moves.total()} moves ({where}), no law was broken; not seen: {seen.missing()}")
    if seen.surprises():
        print(f"FAILED: these can't be reached, it was said: {seen.surprises()}")
    return 1 if seen.surprises() else 0


def report(kind: str, scope: str, failed: Failed, out: Path) -> int:
    """A walk has failed: make it short, and write it down."""
    print(
        f"BROKEN {failed.sentence}\n  in {kind}, {scope}, after {len(failed.walk)} moves; it is made short", flush=True
    )
    short = shortest(kind, scope, failed)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{short.law.lower().replace('.', '-')}.txt"
    path.write_text("\n".join([f"# {short.sentence}", f"{kind} / {scope}", *short.walk, ""]), encoding="utf-8")
    print("\n".join(short.walk))
    print(f"BROKEN {short.sentence}\nwritten: {path}")
    return 1


def look_for_seeds(most: int = 200, seconds: float = 20.0) -> int:
    """For each fault, the seed whose walk finds it with the least effort."""
    missed = 0
    for fault in FAULTS:
        best: tuple[float, int, str] | None = None
        laws: dict[str, int] = {}
        with pytest.MonkeyPatch.context() as mp:
            options, start = fault.plant(mp) or {}, time.monotonic()
            for seed in range(most):
                begun = time.monotonic()
                world = walked(fault.world, fault.scope, fault.mix, seed, moves=fault.moves, **options)
                spent = time.monotonic() - begun
                if isinstance(world, Failed):
                    laws[world.law] = laws.get(world.law, 0) + 1
                    if world.law in fault.laws and (best is None or spent < best[0]):
                        best = (spent, seed, world.law)
                if time.monotonic() - start > seconds or sum(laws.values()) >= 20:
                    break
        missed += best is None
        print(f"{fault.name}: {'not found' if best is None else f'seed {best[1]}, {best[2]}'}; all: {laws}", flush=True)
    print(f"{len(FAULTS)} faults, {missed} not found; {len(UNSEEN)} more that nothing can notice")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
