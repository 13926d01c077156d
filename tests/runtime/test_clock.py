"""Clocks go forward."""

from __future__ import annotations

import pytest

from kvstate.runtime.clock import Clock, RealClock, VirtualClock


def test_a_real_clock_starts_at_zero_and_goes_on() -> None:
    clock: Clock = RealClock()
    first = clock.now()
    assert 0 <= first < 5
    assert clock.now() >= first


def test_a_virtual_clock_goes_when_it_is_told() -> None:
    clock = VirtualClock()
    assert clock.advance(1.5) == 1.5
    assert clock.advance_to(4.0) == 4.0
    assert clock.advance(0) == clock.now() == 4.0
    for wrong in (3.9, float("nan")):
        with pytest.raises(ValueError, match="does not run backwards"):
            clock.advance_to(wrong)
