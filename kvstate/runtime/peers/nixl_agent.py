"""An agent of NIXL over all memory of a process, and its end, which proves that nothing of it is written any more."""

from __future__ import annotations

import logging
import os
import weakref
from contextlib import suppress
from typing import Any

from kvstate.runtime.peers.layout import Layout, Row


class NixlMissingError(ImportError):
    """NIXL is not installed."""


class Agent:
    """An agent of NIXL with all memory of a layout registered, and its end. Errors: `NixlMissingError`."""

    def __init__(self, name: str, layout: Layout, *, serves: bool) -> None:
        """Starts it. One that serves has a thread of its own, so that peers can read while nobody here does anything.

        That thread takes a core, all the time: NIXL has it ask without a pause. One that only reads moves its bytes
        when it is asked how far they are, and does without.
        """
        api = _api()
        self.agent: Any = api.nixl_agent(name, api.nixl_agent_config(enable_prog_thread=serves, backends=["UCX"]))
        """As NIXL has it."""
        self._gone = weakref.ref(self.agent.agent)
        self._registered: list[Any] = []
        for device in sorted({plan.device for plan in layout.plans}):
            areas = [(start, stop - start, max(device, 0), "") for start, stop in _areas(layout, device)]
            self._registered.append(self.agent.register_memory(areas, kind_of(device)))

    def end(self) -> None:
        """Deregister, and take it down; may be called again. Errors: `RuntimeError` if something holds on to it."""
        agent, self.agent = self.agent, None
        if agent is not None:
            for registered in self._registered:
                with suppress(Exception):  # with the agent goes all of it in any case
                    agent.deregister_memory(registered)
            self._registered.clear()
            agent.agent = None
            del agent
        if self._gone() is not None:
            raise RuntimeError("an agent of NIXL that was taken down is still in use somewhere; nothing is proved")


def _areas(layout: Layout, device: int) -> list[tuple[int, int]]:
    """All memory of the pools on this device, as start and stop, without overlaps."""

    def extent(row: Row, count: int) -> tuple[int, int]:
        return row.address, row.address + (count - 1) * row.stride + row.length

    found: list[tuple[int, int]] = []
    for start, stop in sorted(
        extent(row, plan.blocks) for plan in layout.plans if plan.device == device for row in plan.rows
    ):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found


def kind_of(device: int) -> str:
    """How NIXL calls the memory of a device; -1 is the CPU."""
    return "DRAM" if device < 0 else "VRAM"


def _api() -> Any:
    try:
        from nixl_cu12 import _api as api
    except ImportError:
        raise NixlMissingError(
            'NIXL is not installed; pip install "kvstate[nixl]" brings it, or take the transport gloo'
        ) from None
    if "NIXL_LOG_LEVEL" not in os.environ:  # it logs to the standard output, where nobody expects it
        logging.getLogger("nixl").setLevel(logging.WARNING)
    return api
