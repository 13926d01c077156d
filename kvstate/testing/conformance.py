"""The tests that `pytest --kvstate-adapter module:Class` runs; collected by `kvstate.testing.plugin` alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvstate.testing.kit.find import find_adapter
from kvstate.testing.suite import KVStateSuite


class TestConformance(KVStateSuite):
    """The suite on the adapter of the command line."""

    @pytest.fixture(autouse=True)
    def chosen(self, pytestconfig: pytest.Config) -> None:
        """Take adapter, seed, steps and folder from the command line."""
        mine = type(self)
        mine.adapter = find_adapter(pytestconfig.getoption("--kvstate-adapter"))
        mine.seed = pytestconfig.getoption("--kvstate-seed")
        mine.steps = pytestconfig.getoption("--kvstate-steps")
        out = pytestconfig.getoption("--kvstate-out")
        mine.out = None if out is None else Path(out)
