"""The check for machines with a GPU, where there is none: on threads, on a device in software, and with faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bench import gpu_check
from bench.gpu_chaos import ChaosResult, chaos
from kvstate.machines.messages import Kind
from kvstate.runtime import pieces
from kvstate.runtime.copiers import Copier
from kvstate.runtime.copiers.cuda import CudaCopier
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool
from tests.runtime.soft_driver import SoftDriver


def small(layout: str = "block-major") -> Memory:
    device = gpu_check.device_pool(layout, 24, 4096, "cpu")
    return Memory([device, Pool("host", 24, 96, 4096)])


def test_without_a_device_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main([]) == 2
    told = capsys.readouterr().err
    assert told.startswith("bench.gpu_check: torch ")
    assert "sees no CUDA device here; run it where there is one, or try the check itself with --device cpu" in told
    assert told.count("\n") == 1


def test_on_the_cpu_all_of_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = (1 << 15, 1 << 18)
    monkeypatch.setattr(gpu_check, "BLOCKS", blocks)
    path = tmp_path / "deep" / "gpu.json"
    args = ["--device", "cpu", "--seconds", "0.2", "--mib", "1", "--rounds", "1", "--json", str(path)]
    assert gpu_check.main(args) == 0
    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["device"], data["integrity"], len(data["chaos"])) == ("cpu", "off", 2)
    assert [(line["layout"], line["block_bytes"]) for line in data["ratios"]] == [
        (layout, size) for layout in gpu_check.LAYOUTS for size in blocks
    ]
    for line in data["ratios"]:
        assert line["store_ratio"] == pytest.approx(line["store_gb_s"] / line["large_store_gb_s"])
        assert line["load_ratio"] == pytest.approx(line["load_gb_s"] / line["large_load_gb_s"])
    shown = capsys.readouterr().out
    assert "per layer" in shown
    assert "without batches" in shown


def soft(memory: Memory, inbox: Inbox, setting: str) -> Copier:
    return CudaCopier(memory, inbox, SoftDriver(batched=setting == "auto"), name="cpu", integrity=Integrity.OFF)


@pytest.mark.parametrize("layout", gpu_check.LAYOUTS)
@pytest.mark.parametrize("setting", ["auto", "cuda-unbatched"])
def test_chaos_on_a_device_in_software(layout: str, setting: str) -> None:
    memory, inbox = small(layout), Inbox()
    result = chaos(memory, soft(memory, inbox, setting), inbox, seconds=0.2, seed=1)
    assert result.good, result.sentence()
    assert min(result.loaded, result.aborted, result.drained) > 0


def test_the_copier_of_a_gpu_has_its_ratios_taken() -> None:
    (line,) = gpu_check.ratios("cpu", soft, total=1 << 20, rounds=1, blocks=(1 << 16,))[:1]
    assert line["batched"] is True


def test_small_pieces_are_measured_over_fewer_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "MOST_PIECES", 64 * 20)
    lines = gpu_check.ratios("cpu", soft, total=1 << 21, rounds=1, blocks=(1 << 15,))
    assert [line["blocks"] for line in lines] == [64, 20]


def test_parts_have_all_copies_and_a_token_each() -> None:
    work = gpu_check.parts(Kind.STORE, [(number, 100 + number) for number in range(40)], 7)
    assert [part.token.serial for part in work] == [7, 8, 9]
    assert [len(part.src) for part in work] == [16, 16, 8]
    assert work[2].dst[-1] == 139


@pytest.mark.parametrize("kind", [Kind.STORE, Kind.FETCH])
def test_a_copy_that_goes_astray_is_found(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a check that compares nothing would look as good."""
    move = pieces.move

    def astray(piece: pieces.Piece) -> None:
        down = piece.dst.name == "host"
        if down == (kind == Kind.STORE) and isinstance(piece.src_at, slice) and piece.src_at.stop < piece.src.count:
            piece = piece._replace(src_at=slice(piece.src_at.start + 1, piece.src_at.stop + 1))
        move(piece)

    monkeypatch.setattr(pieces, "move", astray)
    monkeypatch.setattr(pieces, "SMALL_BYTES", 0)
    memory, inbox = small(), Inbox()
    result = chaos(memory, ThreadCopier(memory, inbox, 2, integrity=Integrity.OFF), inbox, seconds=0.2, seed=1)
    assert result.wrong > 0
    assert not result.good


def test_a_run_that_compared_nothing_is_not_good() -> None:
    assert not ChaosResult().good
    assert not ChaosResult(checked=1, problems=("load 3 is waiting",)).good
    assert ChaosResult(checked=1).good
    assert ChaosResult(checked=1, wrong=2, problems=("fatal",)).sentence().endswith("2 wrong; fatal")
