"""docs/embedding.md runs from top to bottom as it stands there."""

from __future__ import annotations

import re

import pytest

from tests.tidy.files import ROOT

PATH = ROOT / "docs" / "embedding.md"
TEXT = PATH.read_text(encoding="utf-8")


def program() -> str:
    """The page's blocks as one program, each line where it stands in the page, so that a failure names it."""
    made: list[str] = []
    inside = False
    for line in TEXT.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
        made.append(line if inside and not line.startswith("```") else "")
    return "\n".join(made)


def test_the_page_runs() -> None:
    pytest.importorskip("torch", reason="the page copies real bytes, and torch is not installed")
    space: dict[str, object] = {"__name__": "embedding"}
    exec(compile(program(), str(PATH), "exec", dont_inherit=True), space)  # noqa: S102  the project's own text
    assert space["step"] == 7, "not every block was run"


def test_it_shows_what_it_promises() -> None:
    code = program()
    for word in ("abort", "preempt", "RECOMPUTE", "reset", "lost", "shutdown", "fence", "left", "ABORTED", "explain"):
        assert re.search(rf"\b{word}\b", code), f"the page has no {word}"
