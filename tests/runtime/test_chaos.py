"""Fates: dealt by serial, at the rates that were asked for, and never against the rules of what a copy can do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kvstate.errors import Code, from_exception, translate
from kvstate.machines.messages import Kind
from kvstate.replay.chaos import EXCEPTIONS, WAYS, Chaos, Fate
from kvstate.runtime.stages import STAGES

KINDS = [Kind.STORE, Kind.FETCH, Kind.VERIFY, Kind.PERSIST]
PARTS = 8000
WILD = Chaos(
    fail=0.1, late=0.1, duplicate=0.1, lost=0.05, corrupt=0.1, obey=0.5, delay=(0.001, 0.02), late_by=(1.0, 2.0), seed=3
)


def fates(chaos: Chaos, kind: Kind = Kind.STORE, parts: int = PARTS) -> list[Fate]:
    return [chaos.fate(serial, kind) for serial in range(parts)]


def share(of: list[bool]) -> float:
    return sum(of) / len(of)


@pytest.mark.parametrize(
    "wrong",
    [
        {"fail": 1.1},
        {"late": -0.1},
        {"duplicate": float("nan")},
        {"lost": True},
        {"corrupt": "5%"},
        {"fail_codes": (("KV_OOM", 2.0),)},
        {"fail_codes": (("NO_SUCH_CODE", 0.1),)},
        {"fail": 0.6, "fail_codes": (("KV_OOM", 0.5),)},
        {"delay": (2.0, 1.0)},
        {"late_by": (-1.0, 1.0)},
        {"delay": (0.0, float("inf"))},
    ],
)
def test_rates_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="chaos: "):
        Chaos(**wrong)


def test_no_chaos_is_a_copy_that_lands_at_once_and_says_so() -> None:
    calm = Chaos(obey=0.0)
    for kind in KINDS:
        fate = calm.fate(1, kind)
        assert fate == Fate(land=0.0, report=0.0, tie=fate.tie)


def test_a_fate_belongs_to_seed_serial_and_kind() -> None:
    assert fates(WILD, parts=200) == [WILD.fate(serial, "store") for serial in reversed(range(200))][::-1]
    others = [Chaos(delay=(0.0, 1.0), seed=4), Chaos(delay=(0.0, 1.0), seed=5)]
    dealt = {chaos.fate(serial, kind).land for chaos in others for serial in range(20) for kind in KINDS}
    assert len(dealt) == 2 * 20 * 4


def test_one_rate_leaves_the_other_decisions_as_they_were() -> None:
    one, two = Chaos(duplicate=0.3, corrupt=0.2, seed=9), Chaos(duplicate=0.3, corrupt=0.2, late=0.9, seed=9)
    before, after = fates(one, parts=500), fates(two, parts=500)
    assert [fate.duplicate for fate in before] == [fate.duplicate for fate in after]
    assert [fate.blemish for fate in before] == [fate.blemish for fate in after]


def test_rates_are_what_was_asked_for() -> None:
    dealt = fates(WILD)
    sure = [fate for fate in dealt if not fate.proves_nothing]
    assert share([fate.fault is not None for fate in dealt]) == pytest.approx(0.1, abs=0.015)
    assert share([fate.duplicate is not None for fate in dealt]) == pytest.approx(0.1, abs=0.015)
    assert share([fate.lost for fate in dealt]) == pytest.approx(0.05, abs=0.01)
    assert share([fate.blemish is not None for fate in dealt]) == pytest.approx(0.09, abs=0.015)
    assert share([fate.obeys for fate in dealt]) == pytest.approx(0.5, abs=0.02)
    assert share([fate.late_report > 0 for fate in sure]) == pytest.approx(0.05, abs=0.01)
    assert share([fate.late_landing > 0 for fate in sure]) == pytest.approx(0.075, abs=0.012), "half of late and lost"
    assert all(0.001 <= fate.land <= 0.02 and 0.001 <= fate.report <= 0.02 for fate in dealt)
    assert all(late == 0 or 1 <= late <= 2 for fate in dealt for late in (fate.late_landing, fate.late_report))


@pytest.mark.parametrize("kind", KINDS)
def test_each_code_is_as_frequent_as_the_others(kind: Kind) -> None:
    faults = [fate.fault for fate in fates(Chaos(fail=1.0, seed=1), kind)]
    seen = Counter(fault.code for fault in faults if fault is not None)
    assert set(seen) == set(WAYS[kind])
    assert all(count / PARTS == pytest.approx(1 / len(seen), abs=0.02) for count in seen.values())
    assert {fault.way for fault in faults if fault} == {way for ways in WAYS[kind].values() for way in ways}
    assert share([fault is not None and fault.half_way for fault in faults]) == pytest.approx(0.5, abs=0.03)


def test_every_way_shows_as_the_code_that_it_stands_for() -> None:
    for kind in KINDS:
        for code, ways in WAYS[kind].items():
            for driver, raw in ways:
                if driver == "exception":
                    failure = from_exception(EXCEPTIONS[raw]("chaos"), stage=STAGES[kind])
                else:
                    failure = translate(driver, raw, stage=STAGES[kind])
                assert Code(failure.code).name == code, (kind, driver, raw)


def test_a_timeout_always_leaves_the_bytes_to_land_later() -> None:
    dealt = fates(Chaos(fail_codes=(("LOAD_TIMEOUT", 0.5), ("PEER_LOST", 0.5))), parts=200)
    assert all(fate.proves_nothing and fate.late_landing >= 0.5 for fate in dealt)


def test_a_code_may_be_asked_for_by_name_where_it_can_happen() -> None:
    chaos = Chaos(fail=0.2, fail_codes=(("NO_SPACE", 0.3), ("DEVICE_ERROR", 0.1)), seed=2)
    stores = Counter(fate.fault.code for fate in fates(chaos) if fate.fault and not fate.fault.way.driver)
    assert stores["NO_SPACE"] / PARTS == pytest.approx(0.3, abs=0.02)
    assert stores["DEVICE_ERROR"] / PARTS == pytest.approx(0.1, abs=0.015)
    reads = Counter(fate.fault.code for fate in fates(chaos, Kind.FETCH) if fate.fault)
    assert reads["NO_SPACE"] == 0
    assert reads["DEVICE_ERROR"] > 0


def test_only_copies_are_corrupted() -> None:
    chaos = Chaos(corrupt=1.0)
    assert [chaos.fate(1, kind).blemish is not None for kind in KINDS] == [True, True, False, False]
