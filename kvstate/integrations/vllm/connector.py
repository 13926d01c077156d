"""The connector that vLLM loads: its hooks, each passed on to the half that has it. No logic, and no patch to vLLM.

One is made in the scheduler's process and one in each worker's. Hooks take keywords that they do not know: vLLM's
connector API is marked experimental, and grows.
"""

from __future__ import annotations

import logging
from typing import Any

import vllm
from vllm.distributed.kv_transfer.kv_connector.v1 import base

from kvstate.integrations.vllm.layout import layout_of, unstable_hashes
from kvstate.integrations.vllm.scheduler import SchedulerHalf
from kvstate.integrations.vllm.settings import ConnectorConfigError, Settings, check_version
from kvstate.integrations.vllm.stats import KVStatePromMetrics, KVStateStats
from kvstate.integrations.vllm.worker import WorkerHalf

_log = logging.getLogger("vllm.kvstate")


class KVStateConnector(base.KVConnectorBase_V1, base.SupportsHMA):  # type: ignore[misc]
    """See the module, and `docs/vllm.md`. Errors: `ConnectorConfigError` when it is made, and nothing after that."""

    _cache_hit_source = getattr(getattr(base, "CacheHitSource", None), "HOST", None)  # for vLLM's own metrics

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None, **more: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config, **more)
        settings = Settings.of(vllm_config.kv_transfer_config.kv_connector_extra_config)
        warning = check_version(vllm.__version__, allow_untested=settings.allow_untested)
        missing = [name for name in _NEEDED if not hasattr(base, name) and not hasattr(base.KVConnectorBase_V1, name)]
        if missing:
            raise ConnectorConfigError(f"this vLLM ({vllm.__version__}) has no {', '.join(missing)} for connectors")
        layout = layout_of(vllm_config, kv_cache_config, settings)
        self.scheduler: SchedulerHalf | None = None
        """There in the scheduler's process."""
        self.worker: WorkerHalf | None = None
        """There in a worker's process."""
        if role == base.KVConnectorRole.SCHEDULER:
            self.scheduler = SchedulerHalf(settings, layout)
            for sentence in filter(None, (warning, unstable_hashes(vllm_config))):
                _log.warning("kvstate: %s", sentence)
        else:
            self.worker = WorkerHalf(settings, layout, int(vllm_config.parallel_config.rank))

    @property
    def requires_kv_delivery(self) -> bool:
        """No: a store that is lost is a miss later on."""
        return False

    # -- the scheduler's process ---------------------------------------------------------------------------------------

    def bind_kv_cache_manager(self, kv_cache_manager: Any) -> None:
        """vLLM's own blocks, so that they can be pinned."""
        super().bind_kv_cache_manager(kv_cache_manager)
        if self.scheduler is not None:
            self.scheduler.bind(kv_cache_manager)

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int, **_more: Any
    ) -> tuple[int | None, bool]:
        """As `SchedulerHalf.matched`."""
        return self._scheduler.matched(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int, **_more: Any) -> None:
        """As `SchedulerHalf.allocated`."""
        self._scheduler.allocated(request, blocks.get_block_ids(), num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        """As `SchedulerHalf.built`."""
        return self._scheduler.built(scheduler_output)

    def update_connector_output(self, connector_output: Any) -> None:
        """As `SchedulerHalf.heard`."""
        self._scheduler.heard(connector_output.kv_connector_worker_meta, connector_output)

    def request_finished(self, request: Any, block_ids: Any, **_more: Any) -> tuple[bool, dict[str, Any] | None]:
        """As `SchedulerHalf.finished`. Never asks vLLM to free later: what is touched is pinned."""
        return False, self._scheduler.finished(request, (block_ids,))

    def request_finished_all_groups(
        self, request: Any, block_ids: Any, **_more: Any
    ) -> tuple[bool, dict[str, Any] | None]:
        """The same, of a model with any number of KV cache groups."""
        return False, self._scheduler.finished(request, block_ids)

    def has_pending_push_work(self) -> bool:
        """Keeps vLLM stepping while copies are under way, so that their blocks come back at rest, too."""
        return self.scheduler is not None and self.scheduler.is_busy

    def has_pending_block_frees(self) -> bool:
        """Keeps vLLM, for a moment, from preempting others for blocks that come back by themselves."""
        return self.scheduler is not None and self.scheduler.frees_soon()

    def reset_cache(self) -> bool | None:
        """As `SchedulerHalf.reset`."""
        return self._scheduler.reset()

    def get_kv_connector_stats(self) -> Any:
        """What was counted since the last time, in the scheduler's process."""
        fresh = self.scheduler.counts.take() if self.scheduler is not None else {}
        return KVStateStats(fresh) if fresh else None

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> Any:
        """The same, as it has come to vLLM's front end."""
        return KVStateStats(data or {})

    @classmethod
    def build_prom_metrics(cls, *args: Any, **kwargs: Any) -> Any:
        """For Prometheus."""
        return KVStatePromMetrics(*args, **kwargs)

    # -- a worker's process --------------------------------------------------------------------------------------------

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        """As `WorkerHalf.register`."""
        self._worker.register(kv_caches)

    def bind_connector_metadata(self, connector_metadata: Any) -> None:
        """As `WorkerHalf.bind`."""
        super().bind_connector_metadata(connector_metadata)
        self._worker.bind(connector_metadata)

    def start_load_kv(self, forward_context: Any, **_more: Any) -> None:
        """Nothing: loads began when the step's message came, and requests that wait for one are not in the step."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing, likewise."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **_more: Any) -> None:
        """Nothing: blocks are stored whole, after the step."""

    def wait_for_save(self) -> None:
        """As `WorkerHalf.forward_over`. Waits for nothing: what is being stored is pinned."""
        self._worker.forward_over()

    def get_transfer_results(self, finished_req_ids: set[str], **_more: Any) -> Any:  # noqa: ARG002 - vLLM's
        """The loads that the scheduler's half has told to have failed; those that went well it tells vLLM itself."""
        failed = self._worker.take_failed()
        names = {one.request for one in failed}
        self._invalid = {block for one in failed for block in one.blocks}
        return base.KVConnectorTransferResults(
            finished_recving=names, failed_recving={one.request for one in failed if not one.blocks}
        )

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Of these, the blocks that were not loaded, where what is in front of them is kept."""
        invalid, self._invalid = self._invalid, set()
        return invalid

    _invalid: set[int] = set()  # noqa: RUF012 - never changed in place

    def build_connector_worker_meta(self) -> Any:
        """As `WorkerHalf.report`."""
        return self._worker.report()

    # -- both ----------------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Ends the half that is here."""
        if self.scheduler is not None:
            self.scheduler.close()
        if self.worker is not None:
            self.worker.close()

    @property
    def _scheduler(self) -> SchedulerHalf:
        assert self.scheduler is not None, "a hook of the scheduler's was called in a worker"
        return self.scheduler

    @property
    def _worker(self) -> WorkerHalf:
        assert self.worker is not None, "a hook of a worker's was called in the scheduler"
        return self.worker


_NEEDED = ("bind_kv_cache_manager", "get_transfer_results", "build_connector_worker_meta", "KVConnectorTransferResults")
"""What the base of vLLM's connectors must have."""
