"""The pytest plugin: `pytest --kvstate-adapter module:Class` runs the conformance kit on that adapter.

Without the option it does nothing. With it and no paths, the kit's tests are all that runs; with paths, they run beside
what is there. Nothing of kvstate is imported without it: other plugins measure what is imported after them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).with_name("conformance.py")
"""The file that pytest is given to collect."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the kit."""
    group = parser.getgroup("kvstate", "the conformance kit of kvstate")
    group.addoption("--kvstate-adapter", metavar="MODULE:CLASS", help="run the conformance kit on this adapter")
    group.addoption("--kvstate-seed", type=int, default=0, metavar="N", help="the seed of its walks (0)")
    group.addoption("--kvstate-steps", type=int, default=5000, metavar="N", help="steps for each mix (5000)")
    group.addoption("--kvstate-out", metavar="DIR", help="write a counterexample there: a sequence, a record, a test")


def pytest_configure(config: pytest.Config) -> None:
    """Find the adapter now, so that a wrong name is one sentence (a `UsageError`); and add the tests."""
    name = config.getoption("--kvstate-adapter")
    if not name:
        return
    from kvstate.testing.kit.find import find_adapter
    from kvstate.testing.kit.laws import AdapterError

    here = str(config.invocation_params.dir)
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        find_adapter(name)
    except AdapterError as error:
        raise pytest.UsageError(f"--kvstate-adapter: {error}") from None
    if str(TESTS) in config.args:
        return
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        config.args.append(str(TESTS))
    else:
        config.args[:] = [str(TESTS)]
