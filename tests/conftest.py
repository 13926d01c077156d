"""Which tests are traced for the coverage of `kvstate/machines`: those that are there to test it.

To trace the ledger costs several times what it does. A walk of a million steps, a search of all states and a replay
are about other things and reach nothing there that these folders must not reach by themselves.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

TRACED = frozenset({"machines", "scenarios", "spec", "tiering"})
"""Folders beside this file."""


def traced(item: pytest.Item) -> bool:
    """Is coverage measured in this test?"""
    return item.path.relative_to(Path(__file__).parent).parts[0] in TRACED


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """With its fixtures, as `no_cover` of pytest-cov, which makes the switch, is not."""
    plugin = item.config.pluginmanager.getplugin("_cov")
    control = getattr(plugin, "cov_controller", None)
    if control is None or traced(item):
        return (yield)
    control.pause()
    try:
        return (yield)
    finally:
        control.resume()
