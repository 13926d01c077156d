"""The half in the scheduler process by itself, on a clock that a test moves: what depends on when vLLM steps."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from kvstate.runtime.clock import VirtualClock

pytest.importorskip("vllm")

BLOCKS = 4


def half(clock: VirtualClock, **extra: Any) -> Any:
    """A half of the connector with a worker that answers at once."""
    from bench.vllm_cost import Half

    return Half(BLOCKS, clock=clock, host=64, **extra)


def keys() -> list[bytes]:
    return [os.urandom(32) for _ in range(BLOCKS)]


def test_what_is_stored_is_loaded_and_nothing_is_left() -> None:
    rig, prefix = half(VirtualClock()), keys()
    assert [rig.serve(prefix) for _ in range(3)] == [0, BLOCKS, BLOCKS]
    assert rig.half.kv.rest() == []
    assert all(rig.pool.blocks[block].ref_cnt == 1 for block in rig.ids), "nothing of ours is pinned"


def test_hours_without_a_step_cost_nobody_a_load_or_a_store() -> None:
    """vLLM makes no steps while it is idle, so the ledger hears no time: its deadlines must not count from there."""
    clock = VirtualClock()
    rig, prefix = half(clock), keys()
    assert rig.serve(prefix) == 0
    clock.advance(3600.0)
    assert rig.serve(prefix) == BLOCKS
    clock.advance(3600.0)
    assert rig.serve(keys()) == 0
    counts = rig.half.counts.total
    assert counts["loads"] == 1
    assert counts["stores"] == 2
    assert not counts["loads_failed"] + counts["stores_failed"]


def started(rig: Any) -> Any:
    """A request whose blocks are being stored, and no worker hears of it."""
    request = rig.request(keys())
    rig.half.matched(request, 0)
    rig.half.allocated(request, (rig.ids,), 0)
    rig.half.built(SimpleNamespace(preempted_req_ids=None, num_scheduled_tokens={request.request_id: 32 * BLOCKS}))
    return request


def test_the_wait_for_blocks_that_copies_hold_is_bounded_and_they_stay_pinned() -> None:
    clock = VirtualClock()
    rig = half(clock, wait_seconds=0.5)
    request = started(rig)
    rig.pool.free_blocks([rig.pool.blocks[block] for block in rig.ids])  # the request is preempted
    rig.half.finished(request, (rig.ids,))
    assert rig.half.frees_soon()
    clock.advance(0.4)
    assert rig.half.frees_soon()
    clock.advance(0.2)
    assert not rig.half.frees_soon(), "from here on vLLM preempts as it always does"
    assert all(rig.pool.blocks[block].ref_cnt == 1 for block in rig.ids), "and nobody gets a block under a copy"


def test_a_step_with_nothing_to_copy_is_not_told_to_anybody() -> None:
    rig = half(VirtualClock())
    for _ in range(5):
        rig.step()
    assert rig.half.kv.take_effects() == {}
    assert rig.half.kv.ledger.books.last_step == 0
    rig.serve(keys())
    assert rig.half.kv.ledger.books.last_step > 0


def test_a_store_waits_for_the_step_that_fills_its_blocks_and_no_load_overtakes_one() -> None:
    from kvstate.machines.messages import Work
    from kvstate.wire import decode_down

    rig, prefix = half(VirtualClock()), keys()
    rig.step()
    request = rig.request(prefix)
    rig.half.matched(request, 0)
    rig.half.allocated(request, (rig.ids,), 0)
    scheduled = {request.request_id: 32 * BLOCKS}
    message = rig.half.built(SimpleNamespace(preempted_req_ids=None, num_scheduled_tokens=scheduled))
    (work,) = [item for item in decode_down(message.messages[0]).items if isinstance(item, Work)]
    assert (message.step, work.after_step) == (2, 2)


@pytest.mark.parametrize(
    ("specs", "sentence"),
    [
        ([("FullAttentionSpec", 32), ("SlidingWindowSpec", 64)], "groups of the model have blocks of 32, 64 tokens"),
        ([("MambaSpec", 32)], "a KV cache group of the model is of kind MambaSpec"),
    ],
)
def test_groups_that_it_can_not_do_are_refused_in_a_sentence(specs: list[tuple[str, int]], sentence: str) -> None:
    from kvstate.integrations.vllm.layout import layout_of
    from kvstate.integrations.vllm.settings import ConnectorConfigError, Settings

    groups = [SimpleNamespace(kv_cache_spec=type(name, (), {"block_size": size})()) for name, size in specs]
    config = SimpleNamespace(parallel_config=SimpleNamespace(pipeline_parallel_size=1))
    with pytest.raises(ConnectorConfigError, match=sentence) as caught:
        layout_of(config, SimpleNamespace(kv_cache_groups=groups), Settings(host_blocks=1))
    assert "--disable-hybrid-kv-cache-manager" in str(caught.value)


@pytest.mark.parametrize(
    ("disk", "sentence"),
    [
        ([], "kv_connector_extra_config.disk: .* is no table"),
        ({"blocks": 1}, "disk.path: is missing"),
        ({"path": "/x"}, "disk: give either bytes .* or blocks"),
        ({"path": "/x", "blocks": 1, "bytes": 1}, "disk: give either bytes"),
        ({"path": "/x", "blocks": 1, "sinc": "data"}, "disk.sinc: there is no such setting; did you mean sync"),
        ({"path": "/x", "blocks": 1, "sync": "often"}, "disk.sync: 'often' is none of none, data, full"),
        ({"path": "/x", "blocks": 1, "write": "off"}, "disk.write: 'off' is none of through, back"),
        ({"path": "/x", "blocks": 1, "threads": 0}, "disk.threads: 0 is out of range"),
        ({"path": 1, "blocks": 1}, "disk.path: 1 is of type int, not str"),
    ],
)
def test_a_mistake_in_the_disks_settings_is_told(disk: Any, sentence: str) -> None:
    from kvstate.integrations.vllm.settings import ConnectorConfigError, Settings

    with pytest.raises(ConnectorConfigError, match=sentence):
        Settings.of({"host_blocks": 1, "disk": disk})


def test_the_bytes_of_a_disk_are_those_of_whole_files() -> None:
    from kvstate.integrations.vllm.settings import ConnectorConfigError, DiskSettings

    assert DiskSettings(path="/x", bytes=2 * 2**20).blocks_of(2**18 - 4096, 2) == 4
    with pytest.raises(ConnectorConfigError, match="4096 bytes hold no block"):
        DiskSettings(path="/x", bytes=4096).blocks_of(2**18, 2)
