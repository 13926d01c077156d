"""The bench of both connectors' hooks measures what it says: each prefix is stored, forgotten, found and loaded."""

from __future__ import annotations

import pytest

vllm = pytest.importorskip("vllm")


@pytest.mark.parametrize("name", ["OffloadingConnector", "KVStateConnector"])
def test_a_turn_is_a_store_and_a_load(name: str) -> None:
    from bench.vllm_hooks import HOOKS, TOKENS, Engine

    engine = Engine(name, 4)
    assert [engine.turn(first) > 0 for first in range(3)] == [True] * 3
    assert engine.found == 4 * TOKENS
    assert engine.spent["build_connector_meta"] > 0
    assert set(engine.spent) <= set(HOOKS)
    assert engine.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 2 * 4 + 8
