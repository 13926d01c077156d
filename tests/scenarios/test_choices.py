"""What no law says and a reader of verdicts and records goes by all the same, pinned by a scenario each.

A fault in these rows breaks no law: something is found out later, or told with less. Only the answers here are others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvstate.testing import check
from tests.scenarios.spec_mutants import changed

FILES = sorted((Path(__file__).parent / "choices").glob("*.txt"))
LATE_WORD = FILES[0]


@pytest.mark.parametrize("change", [{"to": state} for state in ("landed", "failed", "stopped", "gone")], ids=str)
def test_what_a_late_witness_says_is_written_down(change: dict[str, Any]) -> None:
    assert check(LATE_WORD, machines=changed("P16", **change)) != ""
