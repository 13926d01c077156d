"""A small good spec (`door`, `bell` and what couples them) to break on purpose."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = ("door.toml", "bell.toml", "coupling.toml")

Break = Callable[[str, str, str], Path]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A directory with the good spec, to be changed at will."""
    directory = tmp_path / "spec"
    directory.mkdir()
    for name in FILES:
        shutil.copy(HERE / name, directory / name)
    (directory / "VERSION").write_text("1\n", encoding="utf-8")
    return directory


@pytest.fixture
def break_(good: Path) -> Break:
    """Replace one passage of one file, which must be there exactly once, and return the file's path."""

    def edit(file: str, old: str, new: str) -> Path:
        path = good / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file}"
        path.write_text(text.replace(old, new), encoding="utf-8")
        return path

    return edit
