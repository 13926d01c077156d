"""Many mutants at once: processes that each climb the ladder for one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from kvstate.explore.scopes import QUICK, SCOPES
from kvstate.mutation import checkout, unfired
from kvstate.mutation.baseline import Say, read
from kvstate.mutation.kills import Kill, Result
from kvstate.mutation.ladder import SAME_GRAPH, Ladder
from kvstate.mutation.lockstep import differing
from kvstate.mutation.mutants import Mutant, mutants
from kvstate.spec.loader import load_spec

BASELINE = Path("build/mutation/baseline.json")
"""Where the baseline is kept, from the root of a checkout."""
Progress = Callable[[Result], None]
"""Told of each result as it comes."""


@dataclass(frozen=True)
class Task:
    """A mutant by `name`; whether `every` killer is wanted; `hint`, the check that has killed it before.

    One that was `harmless` before is only held against what ships, once more; in these `scopes`, or in all if there are
    none.
    """

    name: str
    every: bool = False
    hint: Kill | None = None
    harmless: bool = False
    scopes: tuple[str, ...] = ()


@contextmanager
def processes(jobs: int) -> Iterator[Executor]:
    """That many processes, each begun anew, so that nothing of this one is in them. They end with the block."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def judge(
    executor: Executor, tasks: Sequence[Task], base: Callable[[], Path], progress: Progress, say: Say = lambda _: None
) -> None:
    """Tell `progress` what becomes of each, as it comes. Errors: those of a worker, as they were raised.

    What the data alone shows, or the check that killed it before, needs no baseline; so `base`, which makes sure of one
    and says in which file it is, is called only if there is a mutant that this does not kill. What the ladder does not
    kill is held against what ships, scope by scope.
    """
    left = _through(executor, tasks, None, progress)
    known = [task for task in left if task.harmless and not task.every]
    fresh = [task for task in left if task not in known]
    file = base() if fresh else None
    left = [*(_through(executor, fresh, file, progress) if fresh else []), *known]
    names = [task.name for task in left]
    asked = {
        scope.name: [task.name for task in left if not task.scopes or scope.name in task.scopes] for scope in QUICK
    }
    found = {scope: executor.submit(_differing, file, scope, those) for scope, those in asked.items() if those}
    seen: dict[str, dict[str, int]] = {name: {} for name in names}
    for scope, future in found.items():
        say(f"{len(asked[scope])} in lockstep in the scope {scope}")
        for name, states in future.result().items():
            seen[name][scope] = states
    for finished in as_completed([executor.submit(_finish, file, name, scopes) for name, scopes in seen.items()]):
        progress(finished.result())


def _through(executor: Executor, tasks: Sequence[Task], base: Path | None, progress: Progress) -> list[Task]:
    """Those that could not be judged."""
    futures = {executor.submit(_judge, base, task): task for task in tasks}
    left = []
    for future in as_completed(futures):
        result = future.result()
        if result is None:
            left.append(futures[future])
        else:
            progress(result)
    return left


def _differing(base: Path | None, scope: str, names: Sequence[str]) -> dict[str, int]:
    """What lockstep says of these mutants in this scope; in a worker."""
    ladder, those = _ladder(base), _mutants()
    asked = [one for name in names if (one := ladder.asked(those[name], scope)) is not None]
    return differing(ladder.spec, SCOPES[scope], asked) if asked else {}


def _finish(base: Path | None, name: str, seen: Mapping[str, int]) -> Result:
    return _ladder(base).finish(_mutants()[name], seen)


@cache
def _ladder(base: Path | None) -> Ladder:
    """What a process keeps from one mutant to the next."""
    return Ladder(load_spec(check=False), None if base is None else read(base), checkout.here())


@cache
def _mutants() -> Mapping[str, Mutant]:
    return {mutant.name: mutant for mutant in mutants(_ladder(None).spec)}


def _judge(base: Path | None, task: Task) -> Result | None:
    mutant, ladder = _mutants()[task.name], _ladder(base)
    if base is not None:
        return ladder.judge(mutant, every=task.every)
    if task.harmless and not task.every and (reason := unfired.why(ladder.spec, mutant)):
        return Result.of(mutant, (), "harmless", reason)
    return None if task.every else ladder.at_once(mutant, task.hint)


def fired_in(note: str) -> tuple[str, ...]:
    """The scopes that the note of a harmless mutant names: those that fire its row. None for another note."""
    scopes = tuple(note.removeprefix(SAME_GRAPH).split(", ")) if note.startswith(SAME_GRAPH) else ()
    return scopes if set(scopes) <= {scope.name for scope in QUICK} else ()


def sample(names: Sequence[str], seed: int, count: int, always: Iterable[str]) -> list[str]:
    """So many of the names, the same for the same seed, and all of `always`; in the order of the names."""
    chosen = {*random.Random(seed).sample(names, min(count, len(names))), *always}
    return [name for name in names if name in chosen]
