"""Which cases of a test are for every run, and which only for `make test-long`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def long_but(quick: Collection[Any], values: Iterable[Any], *, whole: bool = False) -> list[Any]:
    """These values for `parametrize`: the quick ones as they are, all others marked `long`.

    A tuple is a value for each of several arguments; with `whole`, it is one. Errors: `ValueError` for a quick one that
    is none of the values.
    """
    found = list(values)
    several = not whole and any(isinstance(one, tuple) for one in found)
    unknown = [one for one in quick if one not in found]
    if unknown:
        raise ValueError(f"{unknown} are none of the cases")
    return [
        one if one in quick else pytest.param(*(one if several else (one,)), marks=pytest.mark.long) for one in found
    ]


def checkered(rows: Iterable[str], columns: Iterable[str]) -> list[Any]:
    """All pairs of these for `parametrize`, every second one marked `long`, so that each row and column has others."""
    found, across = list(rows), list(columns)
    every = [(row, column) for row in found for column in across]
    quick = [(row, column) for row, column in every if (found.index(row) + across.index(column)) % 2 == 0]
    return long_but(quick, every)
