"""A disk below the host pool: a new engine over the same folder hits what the last one stored, and no wrong byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.vllm.conftest import Plain
from tests.vllm.restarted import MARK, PROMPTS, SHARED, TOKENS, disk, serve
from tests.vllm.tiny import BLOCK, ENVIRON, Tiny, ours

pytest.importorskip("vllm")

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM and what it imports

LOADED = len(SHARED) // BLOCK * BLOCK
"""So many tokens of what is shared are in full blocks."""


def files(path: Path) -> list[Path]:
    """The blocks on the disk."""
    return [one for one in path.glob("rank-*/objects/*/*/*") if one.is_file()]


def spoil(path: Path) -> None:
    """Bits flip at the end of each file, where the bytes of the block are."""
    for one in files(path):
        data = bytearray(one.read_bytes())
        data[-1000] ^= 0x40
        one.write_bytes(data)


class Lives:
    """Two lives of an engine over one disk, and a third one whose files went bad before it began."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.path = path
        self.first = self._life(folder)
        self.stored = len(files(path))
        self.second = self._life(folder)
        spoil(path)
        self.third = self._life(folder)

    def _life(self, folder: Path) -> dict[str, Any]:
        """One life of a process: what it found, and what it logged."""
        command = [sys.executable, "-m", "tests.vllm.restarted", str(folder), str(self.path)]
        environ = os.environ | ENVIRON
        ended = subprocess.run(
            command, cwd=Path.cwd(), env=environ, capture_output=True, text=True, timeout=900, check=False
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        (line,) = [line for line in ended.stdout.splitlines() if line.startswith(MARK)]
        found: dict[str, Any] = json.loads(line.removeprefix(MARK))
        return found | {"said": ended.stdout + ended.stderr}


@pytest.fixture(scope="module")
def right(plain: Plain) -> list[list[int]]:
    plain.learn(PROMPTS, TOKENS)
    return [plain.tokens(one, TOKENS) for one in PROMPTS]


@pytest.fixture(scope="module")
def lives(folder: Path, right: list[list[int]], tmp_path_factory: pytest.TempPathFactory) -> Lives:
    return Lives(folder, tmp_path_factory.mktemp("disk"))


def test_what_is_stored_in_the_host_goes_to_the_disk(lives: Lives, right: list[list[int]]) -> None:
    assert lives.first["tokens"] == right
    assert lives.first["cached"] == [0, LOADED, LOADED]
    assert lives.first["on_disk"] == lives.stored == lives.first["counts"]["tier_blocks_stored"] > 0
    assert lives.first["recovered"] == 0


def test_a_new_process_hits_what_the_last_one_stored(lives: Lives, right: list[list[int]]) -> None:
    assert lives.second["tokens"] == right
    assert lives.second["recovered"] == lives.stored
    assert all(cached >= 0.9 * len(SHARED) for cached in lives.second["cached"])
    assert lives.second["counts"]["blocks_promoted"] == LOADED // BLOCK, "the next ones find them in the host"
    assert "PYTHONHASHSEED" not in lives.second["said"]


def test_bytes_that_went_bad_on_the_disk_are_caught(lives: Lives, right: list[list[int]]) -> None:
    assert lives.third["recovered"] > 0
    assert lives.third["tokens"] == right
    assert lives.third["counts"]["load_errors.CRC_MISMATCH"] > 0
    assert lives.third["params"][0]["kvstate"]["load_errors"][0] == "CRC_MISMATCH"
    assert "CRC_MISMATCH at fetch" in lives.third["said"]
    assert lives.third["cached"] == [0, LOADED, LOADED], "what was bad is computed, and stored anew"


@pytest.mark.parametrize("life", ["first", "second", "third"])
def test_nothing_is_left_at_rest(lives: Lives, life: str) -> None:
    found = getattr(lives, life)
    assert (found["used"], found["rest"]) == (0, [])


def test_another_fingerprint_finds_nothing_and_a_reset_takes_its_own_away(
    lives: Lives, folder: Path, right: list[list[int]]
) -> None:
    """Written back, with a host pool that is too small for the prompts."""
    there, more = set(files(lives.path)), {"write": "back", "promote": False, "fingerprint": "weights of another day"}
    engine = Tiny(folder, ours("recompute", **disk(lives.path, **more) | {"host_blocks": 8}))
    try:
        found = [serve(engine) for _ in range(2)][-1]
        assert found["recovered"] == 0
        assert found["tokens"][-3:] == right
        assert found["on_disk"] > 0
        assert "blocks_promoted" not in found["counts"]
        assert (found["used"], found["rest"]) == (0, [])
        assert set(files(lives.path)) > there
        engine.llm.reset_prefix_cache(reset_connector=True)
        engine.step(3)
        assert set(files(lives.path)) == there, "of another fingerprint nothing is removed"
    finally:
        engine.close()


# -- without an engine -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"secret_file": "/nowhere/secret"}, r"disk\.secret_file: /nowhere/secret could not be read"),
        ({"path": "/proc/nothing"}, r"disk\.path: /proc/nothing can't be used"),
    ],
)
def test_a_disk_that_can_not_be_used_is_told_at_the_start(tmp_path: Path, more: dict[str, str], sentence: str) -> None:
    import torch

    from kvstate.integrations.vllm.layout import Layout
    from kvstate.integrations.vllm.settings import ConnectorConfigError, Settings
    from kvstate.integrations.vllm.worker import WorkerHalf

    settings = Settings.of({"host_blocks": 4} | disk(Path(more.pop("path", tmp_path)), **more))
    half = WorkerHalf(settings, Layout(8, 4, 512, 32, 1, "f", disk_blocks=64), 0)
    with pytest.raises(ConnectorConfigError, match=sentence):
        half.register({"layer": torch.zeros(8, 2, 64)})


def test_the_form_of_a_block_is_in_the_fingerprint_and_the_number_of_blocks_is_not() -> None:
    import torch

    from kvstate.integrations.vllm.worker import by_block, forms_of

    def form(tensor: Any, blocks: int) -> str:
        return forms_of(by_block({"layer": tensor}, blocks))

    plain = form(torch.zeros(2, 8, 32, 2, 4), 8)
    assert form(torch.zeros(2, 9, 32, 2, 4), 9) == plain
    assert form(torch.zeros(2, 8, 2, 32, 4).transpose(2, 3), 8) != plain
    assert form(torch.zeros(2, 8, 32, 2, 4, dtype=torch.float16), 8) != plain


@pytest.mark.parametrize(
    ("seed", "algorithm", "warns"),
    [(None, "xxhash", True), ("random", "xxhash", True), ("0", "xxhash", False), (None, "sha256", False)],
)
def test_hashes_that_begin_with_a_random_value_are_told(
    monkeypatch: pytest.MonkeyPatch, seed: str | None, algorithm: str, warns: bool
) -> None:
    """With a cryptographic hash this vLLM has a fixed root."""
    from kvstate.integrations.vllm.layout import unstable_hashes

    if seed is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    config = SimpleNamespace(cache_config=SimpleNamespace(prefix_caching_hash_algo=algorithm))
    assert ("set PYTHONHASHSEED to a fixed number" in unstable_hashes(config)) == warns
