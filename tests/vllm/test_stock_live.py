"""The fault that the kit found by the order of events alone, on a live engine of vLLM's with its own connector."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vllm.tiny import BLOCK, Tiny, prompt


def test_a_second_reset_before_the_next_step_raises_and_the_engine_lives(folder: Path) -> None:
    from tests.vllm.stock_spec import stock

    engine = Tiny(folder, stock())
    try:
        tokens = engine.serve([prompt(1, 3 * BLOCK)])
        name = engine.add(prompt(2, 3 * BLOCK), tokens=1)
        engine.run()  # one step; what it stores has not begun
        assert engine.tokens(name)
        assert engine.core.reset_prefix_cache(reset_connector=True)
        with pytest.raises(AssertionError) as raised:
            engine.core.reset_prefix_cache(reset_connector=True)
        assert raised.traceback[-1].name == "reset_cache"
        engine.step()
        assert engine.core.reset_prefix_cache(reset_connector=True), "after a step it can be reset again"
        assert engine.serve([prompt(1, 3 * BLOCK)]) == tokens
    finally:
        engine.close()
