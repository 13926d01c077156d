"""What a ledger may be told at its birth, and what it says of the rest."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from kvstate.machines.config import ENGINE, MAX_BLOCKS, ConfigError, GroupConfig, LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from tests.machines.rig import Rig

DEVICE = PoolConfig("device", 4)
COUNTS = ("tokens_per_block", "ranks", "attempts", "part_blocks", "batch_blocks", "max_jobs", "incarnation")
SECONDS = ("grace", "retry_delay", "cool_for", "pending_for", "offload_for", "step_for")


def test_every_field_is_checked_here() -> None:
    assert {field.name for field in fields(LedgerConfig)} == {"pools", "groups", *COUNTS, *SECONDS}


@pytest.mark.parametrize(
    ("pools", "sentence"),
    [
        ((), "pools: a ledger needs at least one pool; the first one is the device"),
        ((DEVICE, PoolConfig("", 1)), "pools: the name '' is empty or taken twice; give each pool its own"),
        ((DEVICE, DEVICE), "pools: the name 'device' is empty or taken twice"),
        ((DEVICE, PoolConfig("host", -1)), f"pools: host has -1 blocks; it must be 0 to {MAX_BLOCKS}"),
        ((PoolConfig("device", MAX_BLOCKS + 1),), f"pools: device has {MAX_BLOCKS + 1} blocks; it must be 0 to"),
        ((DEVICE, PoolConfig("host", 1, copier=ENGINE)), "pools: no copier may be called 'engine'"),
    ],
)
def test_pools_that_can_t_work(pools: tuple[PoolConfig, ...], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        LedgerConfig(pools)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1])
def test_a_count_is_at_least_one(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{name}: {value} is too small; it must be at least 1"):
        LedgerConfig((DEVICE,), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SECONDS)
@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), float("inf"), float("-inf")])
def test_seconds_are_neither_less_than_none_nor_without_end(name: str, value: float) -> None:
    """A whole number is as good as any, and as bad."""
    with pytest.raises(ConfigError, match=f"{name}: {value} is not a number of seconds"):
        LedgerConfig((DEVICE,), **{name: value})  # type: ignore[arg-type]


def test_the_smallest_of_everything_works() -> None:
    least: dict[str, Any] = {**dict.fromkeys(COUNTS, 1), **dict.fromkeys(SECONDS, 0)}
    rig = Rig(1, 1, durable=True, verify=True, **least)
    rig.below(1)
    lease = rig.open()
    load, _ = rig.load(lease, rig.lookup(lease, 1))
    rig.finish_all()
    verdict = rig.verdict()
    assert (verdict.load, verdict.ending, verdict.tokens) == (load, "proceed", 1)
    rig.check()


def test_a_ledger_may_have_no_blocks_and_no_tier_below() -> None:
    ledger = Ledger(LedgerConfig((PoolConfig("device", 0),)))
    lease = ledger.open("a")
    assert isinstance(lease, int)
    assert ledger.allocate(lease, 1) == (1, 0, 0, 0)
    assert "there is no pool 1 below the device" in str(ledger.offload(lease, []))
    assert ledger.explain(block=0) == "there is no block 0; there are 0, numbered from 0."
    assert ledger.finish(lease)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("ranks", True, "ranks: True is no whole number"),
        ("attempts", 1.5, "attempts: 1.5 is no whole number"),
        ("part_blocks", "x", "part_blocks: 'x' is no whole number"),
        ("attempts", 33, "attempts: 33 is too large; the wait doubles with each, at most 32"),
        ("grace", "soon", "grace: 'soon' is not a number of seconds"),
        ("grace", True, "grace: True is not a number of seconds"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_in_a_sentence(field: str, value: Any, said: str) -> None:
    settings: dict[str, Any] = {"pools": (PoolConfig("device", 4),), field: value}
    with pytest.raises(ConfigError, match=re.escape(said)):
        LedgerConfig(**settings)


@pytest.mark.parametrize("blocks", [True, 1.5, "3"])
def test_a_pool_has_a_whole_number_of_blocks(blocks: Any) -> None:
    with pytest.raises(ConfigError, match=r"device has .* blocks; give a whole number"):
        LedgerConfig((PoolConfig("device", blocks),))


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([("", 1)], "groups: the name '' is empty, taken twice or has an @; give each group its own"),
        ([("a@b", 1)], "groups: the name 'a@b' is empty, taken twice or has an @"),
        ([("a", 1), ("a", 2)], "groups: the name 'a' is empty, taken twice or has an @"),
        ([(7, 1)], "groups: the name 7 is empty, taken twice or has an @"),
        ([("a", 0)], "groups: a has 0 tokens in a block; give a whole number, 1 at least"),
        ([("a", 1.5)], "groups: a has 1.5 tokens in a block"),
        ([("a", 1, "half")], "groups: a is 'half'; there are full, sliding, mla"),
        ([("a", 1, "full", 4)], "groups: a is full and has a window; only a sliding group has one"),
        ([("a", 1, "mla", 4)], "groups: a is mla and has a window; only a sliding group has one"),
        ([("a", 1, "sliding")], "groups: a is sliding over None tokens; give a window of 1 token at least"),
        ([("a", 1, "sliding", 0)], "groups: a is sliding over 0 tokens; give a window of 1 token at least"),
        ([("a", 1, "sliding", True)], "groups: a is sliding over True tokens"),
    ],
)
def test_groups_that_can_t_work(groups: list[tuple[Any, ...]], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        LedgerConfig((DEVICE,), groups=tuple(GroupConfig(*group) for group in groups))


def test_what_are_no_groups() -> None:
    with pytest.raises(ConfigError, match=r"groups: 7 is no GroupConfig; give a tuple of them"):
        LedgerConfig((DEVICE,), groups=(7,))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"groups: 'full' is no GroupConfig; give a tuple of them"):
        LedgerConfig((DEVICE,), groups="full")  # type: ignore[arg-type]
