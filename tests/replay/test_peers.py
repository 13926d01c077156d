"""`kvstate replay --peers 2`: two processes, real messages and copies, and everything that goes wrong between them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvstate.cli import run
from kvstate.replay.checks import ConfigError
from kvstate.replay.peers.config import DECODE, PREFILL, PeersConfig
from kvstate.replay.peers.driver import LEASE_SECONDS, judge
from kvstate.replay.peers.result import PeersResult


class Done(NamedTuple):
    """What a command did."""

    exit_code: int
    stdout: str
    stderr: str


Replay = Callable[..., Done]


@pytest.fixture(name="replay")
def _replay(capsys: pytest.CaptureFixture[str]) -> Replay:
    """The command, with what is given."""

    def called(*options: str) -> Done:
        status = run(["replay", "--quiet", *options])
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return called


@pytest.mark.long
def test_two_processes_hand_a_workload_over_while_messages_are_lost_and_both_die(
    replay: Replay, tmp_path: Path
) -> None:
    """The decode loads what the prefill computed; no byte is wrong, no law violated, no block leaked."""
    store = tmp_path / "objects"
    store.mkdir()
    done = replay(
        "--peers", "2", "--limit", "160", "--chaos", "--kill-peers", "2", "--stop-peers", "1", "--seed", "3",
        "--store", f"file://{store}", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["requests"] == 160
    assert sum(result["kills"].values()) == 2
    assert sum(result["stops"].values()) == 1
    for name in ("wrong_bytes", "violations", "leaked_blocks", "quarantined_after_fence"):
        assert result[name] == 0
    assert result["nodes"][DECODE]["hits"], "the decode hit nothing"
    assert result["longest_handoff"] <= LEASE_SECONDS


@pytest.mark.slow
def test_what_was_handed_over_is_not_computed_again(replay: Replay) -> None:
    """Without trouble: what the decode does not have comes from the prefill."""
    done = replay("--peers", "2", "--limit", "40", "--block-bytes", "256", "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    nodes = json.loads(done.stdout)["nodes"]
    assert nodes[DECODE]["loaded"]["peer"] > nodes[DECODE]["computed"]
    assert nodes[PREFILL]["handoffs"]["delivered"] == nodes[DECODE]["handoffs"]["taken"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--workers", "2"), "--workers means nothing with --peers; leave it out."),
        (("--deterministic",), "--deterministic means nothing with --peers"),
        (("--fail", "2%"), "--fail means nothing with --peers"),
        (("--kill-peers", "-1"), "--kill-peers is -1"),
        (("--limit", "0"), "--limit is 0"),
        (("--store", "ftp://x"), "names none of s3, file, memory"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(replay: Replay, options: tuple[str, ...], sentence: str) -> None:
    """And the status is that of a wrong use; no process is started for it."""
    done = replay("--peers", "2", *options)
    assert done.exit_code == 2, done.stdout
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_options_of_peers_need_peers(replay: Replay) -> None:
    """They would do nothing."""
    done = replay("--kill-peers", "2")
    assert done.exit_code == 2
    assert "--kill-peers is about peers, and there are none; give --peers 2 too." in done.stderr


def test_a_trace_that_can_not_be_read_is_a_sentence(replay: Replay, tmp_path: Path) -> None:
    """With the line."""
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"timestamp": 1}\n')
    done = replay("--peers", "2", str(trace))
    assert done.exit_code == 1
    assert "t.jsonl, line 1: input_length is missing" in done.stderr
    assert "Traceback" not in done.stderr


def counted(**more: Any) -> dict[str, Any]:
    """What a process says in the end, if all is well."""
    return {"leaked": 0, "quarantined": 0, "sentences": [], "longest_handoff": 0.1, "hits": {}, **more}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"leaked": 2}, "2 blocks are held at the end by nobody"),
        ({"quarantined": 1}, "1 blocks are in quarantine after the final fence"),
        ({"sentences": ["L8.balance: of 4 blocks 3 are there"]}, "prefill: L8.balance: of 4 blocks 3 are there"),
        ({"longest_handoff": LEASE_SECONDS + 1}, "L7"),
    ],
)
def test_what_a_process_finds_makes_the_run_fail(more: dict[str, object], problem: str) -> None:
    """Each of the things that must be 0."""
    result = PeersResult(requests=5)
    result.nodes = {PREFILL: counted(**more), DECODE: counted()}
    judge(PeersConfig(), result)
    assert any(problem in sentence for sentence in result.problems), result.problems


def test_a_run_that_found_nothing_passes_and_one_without_its_kills_does_not() -> None:
    """And neither does one whose process never answered."""
    result = PeersResult(requests=5)
    result.nodes = {PREFILL: counted(), DECODE: counted()}
    judge(PeersConfig(), result)
    assert result.problems == []
    result.nodes = {PREFILL: counted(), DECODE: counted()}
    judge(PeersConfig(kill_peers=1), result)
    assert result.problems == ["0 of 1 kills came about; replay more requests"]
    silent = PeersResult(requests=5, nodes={PREFILL: counted()})
    judge(PeersConfig(), silent)
    assert silent.problems == ["the decode never said what it counted"]


def test_settings_that_can_not_be_are_refused() -> None:
    """Each names its option."""
    with pytest.raises(ConfigError, match="--block-bytes is 100; it must be a multiple of 8"):
        PeersConfig(block_bytes=100)
    with pytest.raises(ConfigError, match="--transport"):
        PeersConfig(transport="rdma")
