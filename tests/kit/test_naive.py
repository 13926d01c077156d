"""The kit breaks every naive engine, soon and shortly, and tells it in a way that stands by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.naive_engines.tiny import Tiny
from kvstate.testing import LAWS, Adapter, Scope, replay, search, story
from kvstate.testing.kit.hypo import by_hypothesis
from kvstate.testing.kit.story import as_test, read_record, record, write
from tests.kit.engines import FAULTY, NAIVE, Discarding, Forgetful, Poolless, Stepping, Waiting, naive
from tests.long import long_but
from tests.tidy.files import ROOT


@pytest.mark.parametrize("seed", long_but([0], range(2)))
@pytest.mark.parametrize("name", NAIVE)
def test_a_naive_engine_is_broken_in_eight_steps(name: str, seed: int) -> None:
    done = search(naive(name), seed=seed, seconds=10)
    assert done.violation is not None
    assert done.violation.law in NAIVE[name]
    assert len(done.steps) <= 8
    assert all(step[0] != "warm" for step in done.steps), "it is short enough to be told call by call"
    assert done.seconds < 10


@pytest.mark.parametrize("name", NAIVE)
def test_hypothesis_breaks_it_too(name: str) -> None:
    done = by_hypothesis(naive(name), examples=200)
    assert done.violation is not None
    assert done.violation.law in NAIVE[name]


@pytest.mark.parametrize("name", NAIVE)
def test_what_breaks_it_does_not_break_the_engine_that_is_right(name: str) -> None:
    done = search(naive(name), seconds=10)
    assert replay(Tiny, done.steps, done.scope).violation is None


def test_the_engine_that_is_right_is_not_broken() -> None:
    done = search(Tiny, steps=10_000)
    assert done.violation is None, story(done.played) if done.played else ""
    assert min(done.stats.counts[seen] for seen in ("hits", "store", "load", "ends under a copy")) > 100


@pytest.mark.parametrize("law", FAULTY)
def test_every_other_law_is_seen_to_fail(law: str) -> None:
    done = search(FAULTY[law], seconds=10)
    assert done.violation is not None
    assert law in done.laws
    assert len(done.steps) <= 8


@pytest.mark.parametrize("engine", [Waiting, Discarding, Poolless])
def test_what_an_adapter_declares_is_kept_to(engine: type[Adapter]) -> None:
    done = search(engine, steps=6000)
    assert done.violation is None, story(done.played) if done.played else ""
    assert bool(done.stats.counts["store"]) == engine.loads


@pytest.mark.long
def test_a_step_that_still_writes_is_seen() -> None:
    done = search(Stepping, seconds=20)
    assert done.violation is not None
    assert done.laws.keys() <= {"L3.no_reuse", "L9.bytes"}


def test_a_store_that_reads_what_was_given_out_is_thrown_away_or_told() -> None:
    class Undeclared(Discarding):
        discards = False

    done = search(Undeclared, seconds=10)
    assert done.violation is not None
    assert done.violation.law == "L3.no_reuse"


def test_a_verdict_that_never_comes_is_missed() -> None:
    done = search(Forgetful, seconds=10)
    assert done.violation is not None
    assert done.violation.law == "L1.verdict_once"
    assert "nobody was told" in done.violation.sentence


def test_every_law_is_broken_by_something() -> None:
    assert set(LAWS) == set(FAULTY).union(*NAIVE.values())


# -- the counterexample --------------------------------------------------------------------------------------------


def broken(name: str = "failed_load_is_done") -> tuple[str, Any]:
    return f"examples.naive_engines.{name}:Engine", search(naive(name), seconds=10)


def test_the_same_steps_tell_the_same_story() -> None:
    adapter, done = broken()
    text = record(adapter, done.steps, done.scope, done.played)
    assert read_record(text) == (adapter, done.steps, done.scope)
    again = replay(naive("failed_load_is_done"), read_record(text)[1], done.scope)
    assert story(again) == story(done.played)
    assert record(adapter, again.steps, done.scope, again) == text


def test_the_same_seed_finds_the_same() -> None:
    first, second = search(naive("last_future"), seed=7, steps=2000), search(naive("last_future"), seed=7, steps=2000)
    assert first.steps == second.steps
    assert first.stats.counts == second.stats.counts


def test_a_story_has_numbers_and_ends_with_the_law() -> None:
    _, done = broken("pending_for_ever")
    lines = story(done.played).splitlines()
    assert lines[0].startswith(" 1. ")
    assert "   at the end:" in lines
    assert lines[-2].startswith("BROKEN L7.wait: ")
    assert lines[-1].strip() == LAWS["L7.wait"]


def run_test(text: str) -> None:
    space: dict[str, Any] = {}
    exec(compile(text, "counterexample", "exec"), space)  # noqa: S102, the text is the kit's own
    [test] = [thing for name, thing in space.items() if name.startswith("test_")]
    test()


@pytest.mark.parametrize("name", NAIVE)
def test_the_written_test_fails_until_it_is_mended(name: str) -> None:
    adapter, done = broken(name)
    mended = "examples.naive_engines.tiny:Tiny"
    with pytest.raises(AssertionError, match="BROKEN"):
        run_test(as_test(adapter, done.steps, done.scope, done.played, "0"))
    run_test(as_test(mended, done.steps, done.scope, done.played, "0"))
    run_test(as_test(adapter, done.steps, done.scope, done.played, "0", there=True))
    with pytest.raises(AssertionError, match="mended"):
        run_test(as_test(mended, done.steps, done.scope, done.played, "0", there=True))


def test_the_written_test_is_a_file_for_pytest(tmp_path: Path) -> None:
    adapter, done = broken()
    files = write(tmp_path / "made", adapter, done.steps, Scope(), done.played)
    assert [file.suffix for file in files] == [".txt", ".json", ".py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(files[-1])]
    done_by_pytest = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done_by_pytest.returncode == 1
    assert "BROKEN L5.failed" in done_by_pytest.stdout or "BROKEN L9.bytes" in done_by_pytest.stdout


def test_an_engine_that_does_not_do_the_same_twice_is_told_of_all_the_same() -> None:
    built: list[Adapter] = []

    class Moody(Tiny):
        def on_report(self, report: object) -> None:
            if self is built[0]:
                raise KeyError("only the first of its kind")
            super().on_report(report)  # type: ignore[arg-type]

    def build(scope: Scope, copier: Any) -> Adapter:
        built.append(Moody(scope, copier))
        return built[-1]

    done = search(build, seed=1, steps=300)
    assert done.violation is not None
    assert done.violation.law == "L6.total"
