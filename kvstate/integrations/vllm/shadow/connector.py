"""The observer in vLLM's hooks. Each calls the stock connector first and returns its very answer, its exceptions too.

Hooks that are not named here are the stock connector's own: what they do is nothing to the observer, or can be seen
elsewhere. The one answer that is added to is that of `get_kv_connector_stats`: what was found goes to vLLM's metrics
beside what the stock connector counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from typing import Any

import vllm
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector

from kvstate.integrations.vllm.settings import TESTED, ConnectorConfigError, check_version
from kvstate.integrations.vllm.shadow.beside import Beside
from kvstate.integrations.vllm.shadow.reading import Heard, PutOff, Raised, Reader, Reset, built
from kvstate.integrations.vllm.shadow.settings import ShadowSettings
from kvstate.integrations.vllm.shadow.stats import ShadowPromMetrics, ShadowStats, with_ours
from kvstate.integrations.vllm.shadow.watch import Watch, log
from kvstate.integrations.vllm.shadow.worker import Tap, Told, WorkerReader

_now = time.monotonic


class ShadowConnector(OffloadingConnector):  # type: ignore[misc]
    """See the module, and `docs/vllm-shadow.md`. Errors: `ConnectorConfigError` when it is made, for settings."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any, **more: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config, **more)
        settings = ShadowSettings.of(vllm_config.kv_transfer_config.kv_connector_extra_config)
        half = "scheduler" if role == KVConnectorRole.SCHEDULER else "worker"
        self.watch = Watch(half, settings, {"vllm": vllm.__version__, "connector": "OffloadingConnector"})
        """The observer of this half."""
        self._matched = super().get_num_new_matched_tokens
        if len(signature(self._matched).parameters) != 2:
            setattr(self, "get_num_new_matched_tokens", self._matched)  # noqa: B010 - another version's: not observed
        self._waiting: set[str] = set()
        try:
            warning = check_version(vllm.__version__, allow_untested=settings.allow_untested)
            if warning:
                log.warning("kvstate shadow (%s): %s", half, warning)
            if half == "scheduler":
                self.watch.reader = _reader(self, self.watch)
            else:
                self.watch.reader = WorkerReader(self.watch.tell, self.watch.ring, deadline=settings.deadline_seconds)
            self.watch.start()
        except ConnectorConfigError:
            self.watch.on = False
            log.warning(
                "kvstate shadow (%s): vLLM %s was not tested (%s was), so nothing is observed; "
                "kvstate_shadow.allow_untested observes it all the same", half, vllm.__version__, ", ".join(TESTED),
            )  # fmt: skip
        except Exception as error:
            self.watch.switch_off(error)

    def _note(self, make: Callable[[], Any]) -> None:
        """Make an event and put it onto the tape, if anybody reads it."""
        watch = self.watch
        if watch.on:
            try:
                watch.note(make())
            except Exception as error:
                watch.switch_off(error)

    def _raised(self, hook: str, error: BaseException) -> None:
        """The stock connector has raised: the engine may be about to die, so it is told here and now."""
        with suppress(Exception):
            self._note(lambda: Raised(_now(), hook, f"{type(error).__name__}: {error}".rstrip(": ")))
            self.watch.drain()

    # -- the scheduler's process ---------------------------------------------------------------------------------------

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> Any:
        """The stock connector's; whether it puts the request off is noted. It is called most, so it is kept short."""
        answer = self._matched(request, num_computed_tokens)
        if answer[0] is None or self._waiting:
            self._note(lambda: self._looked_up(request.request_id, answer[0] is None))
        return answer

    def _looked_up(self, name: str, still: bool) -> PutOff:
        self._waiting.add(name) if still else self._waiting.discard(name)
        if len(self._waiting) > 10_000:  # of requests that ended while they were put off
            self._waiting.clear()
        return PutOff(_now(), name, still)

    def build_connector_meta(self, scheduler_output: Any, **more: Any) -> Any:
        """The stock connector's; what the step does with blocks, and its jobs, are noted."""
        try:
            meta = super().build_connector_meta(scheduler_output, **more)
        except BaseException as error:
            self._raised("build_connector_meta", error)
            raise
        watch = self.watch
        if watch.on:
            try:
                watch.note(built(_now(), scheduler_output, meta))
            except Exception as error:
                watch.switch_off(error)
        return meta

    def update_connector_output(self, connector_output: Any, **more: Any) -> Any:
        """The stock connector's; which jobs the workers report is noted."""
        try:
            answer = super().update_connector_output(connector_output, **more)
        except BaseException as error:
            self._heard(connector_output)
            self._raised("update_connector_output", error)
            raise
        self._heard(connector_output)
        return answer

    def _heard(self, connector_output: Any) -> None:
        watch = self.watch
        if watch.on:
            try:
                meta = connector_output.kv_connector_worker_meta
                if meta is not None and meta.completed_jobs:
                    watch.note(Heard(_now(), meta.completed_jobs))
            except Exception as error:
                watch.switch_off(error)

    def reset_cache(self) -> Any:
        """The stock connector's; that it has forgotten everything is noted."""
        try:
            answer = super().reset_cache()
        except BaseException as error:
            self._raised("reset_cache", error)
            raise
        self._note(lambda: Reset(_now()))
        return answer

    # -- a worker's process --------------------------------------------------------------------------------------------

    def register_kv_caches(self, kv_caches: Any, **more: Any) -> Any:
        """The stock connector's, which makes what copies; from then on that is observed."""
        answer = super().register_kv_caches(kv_caches, **more)
        try:
            self.tap()
        except Exception as error:
            self.watch.switch_off(error)
        return answer

    def tap(self) -> None:
        """Observe what copies below this connector. It may be called again."""
        below = self.connector_worker
        if self.watch.on and below is not None and below.worker is not None and not isinstance(below.worker, Tap):
            below.worker = Tap(below.worker, self._note)

    def handle_preemptions(self, kv_connector_metadata: Any, **more: Any) -> Any:
        """The stock connector's, which submits stores and waits for some."""
        try:
            return super().handle_preemptions(kv_connector_metadata, **more)
        except BaseException as error:
            self._raised("handle_preemptions", error)
            raise

    def start_load_kv(self, forward_context: Any, **more: Any) -> Any:
        """The stock connector's, which submits loads."""
        try:
            return super().start_load_kv(forward_context, **more)
        except BaseException as error:
            self._raised("start_load_kv", error)
            raise

    def get_finished(self, finished_req_ids: Any, **more: Any) -> Any:
        """The stock connector's, which asserts that no copy has failed."""
        try:
            return super().get_finished(finished_req_ids, **more)
        except BaseException as error:
            self._raised("get_finished", error)
            raise

    def build_connector_worker_meta(self) -> Any:
        """The stock connector's; what it tells the scheduler to be completed is noted."""
        meta = super().build_connector_worker_meta()
        if meta is not None:
            self._note(lambda: Told(_now(), meta.completed_jobs))
        return meta

    # -- both ----------------------------------------------------------------------------------------------------------

    def get_kv_connector_stats(self) -> Any:
        """The stock connector's, with what was found beside it; the very same if nothing was."""
        stats = super().get_kv_connector_stats()
        with suppress(Exception):
            fresh = self.watch.take()
            if fresh:
                return with_ours(stats, fresh)
        return stats

    @classmethod
    def build_kv_connector_stats(cls, data: Any = None) -> Any:
        """The same, as it has come to vLLM's front end."""
        return ShadowStats(data=data) if data is not None else ShadowStats()

    @classmethod
    def build_prom_metrics(cls, vllm_config: Any, metric_types: Any, labelnames: Any, per_engine: Any) -> Any:
        """For Prometheus."""
        stock = super().build_prom_metrics(vllm_config, metric_types, labelnames, per_engine)
        try:
            return ShadowPromMetrics(stock, labelnames, per_engine)
        except Exception as error:
            log.error("kvstate shadow: no metrics: %s: %s", type(error).__name__, error)
            return stock

    def shutdown(self) -> Any:
        """The stock connector's; and the report."""
        try:
            return super().shutdown()
        finally:
            with suppress(Exception):
                self.watch.close()


def _reader(connector: Any, watch: Watch) -> Reader:
    """What reads the scheduler's tape: for the groups, ranks and the manager that the stock connector has."""
    half = connector.connector_scheduler
    groups = {group.group_idx: group.tokens_per_block for group in half.config.kv_group_configs if _watched(group)}
    host = type(half.manager).__name__ == "CPUOffloadingManager"
    if len(groups) < len(half.config.kv_group_configs):
        log.warning("kvstate shadow: only blocks of full attention and of sliding windows are observed")
    if not host:
        log.warning("kvstate shadow: host slots are not observed under %s", type(half.manager).__name__)
    blocks = int(getattr(connector._kv_cache_config, "num_blocks", 1 << 20))  # noqa: SLF001
    beside = Beside(watch.tell, watch.ring, deadline=watch.settings.deadline_seconds, blocks=blocks)
    return Reader(beside, groups=groups, ranks=int(half.config.num_workers), host=host)


def _watched(group: Any) -> bool:
    """Does the table of this group name a block of tokens at each place?"""
    return any(word in type(group.kv_cache_spec).__name__ for word in ("FullAttention", "SlidingWindow", "MLA"))
