"""`pytest tests/scenarios --rewrite-scenarios` puts the machine's answers into the files."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-scenarios", action="store_true", help="replace the answers in tests/scenarios/*.txt by the machine's"
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """False, too, where this file was read too late to add the option: in a run that did not name this folder."""
    return bool(request.config.getoption("--rewrite-scenarios", default=False))
