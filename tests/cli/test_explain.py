"""`kvstate explain` and `kvstate doctor`."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from types import SimpleNamespace

import pytest

from kvstate.cli import doctor, run

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("word", ["CRC_MISMATCH", "crc_mismatch", "2201"])
def test_a_code_by_name_or_number(word: str, capsys: Captured) -> None:
    assert run(["explain", word]) == 0
    out = capsys.readouterr().out
    assert out.startswith("CRC_MISMATCH (2201, ")
    assert "What to do: " in out
    assert "condemns the key" in out


def test_a_raw_code_is_explained_by_what_it_is_translated_to(capsys: Captured) -> None:
    assert run(["explain", "404"]) == 0
    out = capsys.readouterr().out
    assert "404 of the driver http is BLOCK_NOT_FOUND: The tier does not hold the block" in out
    assert "What to do: " in out
    assert run(["explain", "enospc", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["code"] is None
    assert {"driver": "errno", "raw": "ENOSPC", "code": "NO_SPACE", "transient": False} in data["raw"]


def test_a_row_is_explained_by_its_reason(capsys: Captured) -> None:
    assert run(["explain", "b21"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("B21 is a row of block: in open or loading, on release when lost < readers + writers")
    assert "Why: " in out
    assert run(["explain", "B01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["row"]["machine"] == "block"


def test_all_codes(capsys: Captured) -> None:
    assert run(["explain"]) == 0
    out = capsys.readouterr().out
    assert run(["explain", "--json"]) == 0
    codes = json.loads(capsys.readouterr().out)["codes"]
    assert len(codes) >= 16
    assert all(code["name"] in out and str(code["number"]) in out for code in codes)


@pytest.mark.long
def test_every_code_explains_itself(capsys: Captured) -> None:
    run(["explain", "--json"])
    for code in json.loads(capsys.readouterr().out)["codes"]:
        assert run(["explain", code["name"]]) == 0
        assert code["remedy"] in " ".join(capsys.readouterr().out.split())


def test_the_doctor_says_what_is_here(capsys: Captured) -> None:
    pytest.importorskip("torch", reason="without torch the doctor says that a replay can't run")
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert importlib.metadata.version("torch") in out
    assert run(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["ready"] is True
    assert facts["cores"] >= 1
    assert facts["packages"]["click"] == importlib.metadata.version("click")
    assert facts["copier"].startswith("threads")


def test_the_doctor_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(doctor, "_version_of", lambda package: None if package in ("numpy", "torch") else "1.0")
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert run(["doctor"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "none: torch, numpy not installed (pip install 'kvstate[runtime]')" in out
    assert "dot not installed" in out


def test_a_broken_torch_is_told_and_not_raised(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def broken() -> int:
        raise OSError("libcudart.so: not found")

    monkeypatch.setattr(doctor, "_version_of", lambda _: "1.0")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(device_count=broken)))
    assert run(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "OSError: libcudart.so: not found" in out
    assert "can't be imported" in out


def test_a_device_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    cuda = SimpleNamespace(device_count=lambda: 1, get_device_name=lambda _: "A GPU", is_available=lambda: True)
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(cuda="13.0"), get_num_threads=lambda: 4)
    monkeypatch.delenv("KVSTATE_COPIER", raising=False)
    monkeypatch.setattr(doctor, "_version_of", lambda _: "1.0")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr("kvstate.runtime.copiers.batch_call.load_library", lambda: None)
    assert run(["doctor"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "13.0: A GPU" in out
    assert "cuda: the device pool lies on cuda; this driver has no cuMemcpyBatchAsync" in out
    monkeypatch.setattr("kvstate.runtime.copiers.batch_call.load_library", object)
    monkeypatch.setattr("kvstate.runtime.copiers.batch_call.find_batch_call", lambda _: print)
    assert run(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["copier"].endswith("; batched by cuMemcpyBatchAsync")
    monkeypatch.setenv("KVSTATE_COPIER", "threads")
    assert run(["doctor"]) == 0
    assert "threads: as KVSTATE_COPIER says" in capsys.readouterr().out


def test_a_copier_that_was_set_and_can_not_run_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(doctor, "_version_of", lambda _: "1.0")
    monkeypatch.setattr(doctor, "_torch", lambda _: {"cuda": False, "devices": []})
    for setting, words in (("fast", "there is no copier 'fast' (as KVSTATE_COPIER says)"), ("cuda", "needs a device")):
        monkeypatch.setenv("KVSTATE_COPIER", setting)
        assert run(["doctor"]) == 1
        out = " ".join(capsys.readouterr().out.split())
        assert "copier none: " in out
        assert words in out
