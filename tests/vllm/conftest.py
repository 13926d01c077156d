"""Engines for the tests; all of them are skipped where there is no vLLM."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.vllm.tiny import ENVIRON, Tiny, model

if find_spec("vllm") is not None:
    os.environ.update(ENVIRON)  # before anybody imports torch


HERE = Path(__file__).parent
REASON = "vLLM is not installed here; `make test-vllm` runs these in an environment of their own"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all tests of this folder where there is no vLLM; they are collected all the same.

    What torch and vLLM warn of while they are imported is no error of ours.
    """
    mark = pytest.mark.filterwarnings("default")
    if find_spec("vllm") is None:
        mark = pytest.mark.skip(reason=REASON)
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(mark)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    pytest.importorskip("vllm")
    return model(tmp_path_factory.mktemp("tiny") / "model")


class Plain:
    """Tokens of an engine without offload, computed once for each prompt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[int, ...], list[int]] = {}

    def learn(self, prompts: list[list[int]], tokens: int) -> None:
        """Run an engine for those that are not known. No other engine may be up."""
        missing = [one for one in prompts if len(self._known.get(tuple(one), ())) < tokens]
        if missing:
            engine = Tiny(self._folder, max_model_len=900)
            try:
                self._known |= {
                    tuple(one): out for one, out in zip(missing, engine.serve(missing, tokens), strict=True)
                }
            finally:
                engine.close()

    def tokens(self, prompt: list[int], count: int) -> list[int]:
        """So many tokens for this prompt."""
        return self._known[tuple(prompt)][:count]


@pytest.fixture(scope="session")
def plain(folder: Path) -> Plain:
    """What an engine without offload answers."""
    return Plain(folder)
