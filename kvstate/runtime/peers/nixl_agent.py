"""An agent of NIXL over all memory of a process, and its end, which proves that nothing of it is written any more."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from contextlib import suppress
from typing import Any, Final

from kvstate.runtime.peers.layout import Layout, Row

NAP_SECONDS: Final = 5e-4
"""Between two looks at what peers want to read."""
JOIN_SECONDS: Final = 1.0
"""So long the end of an agent waits for the last look."""


class NixlMissingError(ImportError):
    """NIXL is not installed."""


class Agent:
    """An agent of NIXL with all memory of a layout registered, and its end. Errors: `NixlMissingError`."""

    def __init__(self, name: str, layout: Layout, *, serves: bool) -> None:
        """Starts it. One that serves is looked after by a thread, so that peers can read while nobody here does
        anything; one that only reads moves its bytes when it is asked how far they are.

        NIXL has a thread for that as well, which looks without a pause and so takes a core for as long as the agent
        lives. What is read in place needs nobody's help, and over TCP a look in `NAP_SECONDS` was as fast.
        """
        api = bindings()
        self.agent: Any = api.nixl_agent(name, api.nixl_agent_config(enable_prog_thread=False, backends=["UCX"]))
        """As NIXL has it."""
        self._gone = weakref.ref(self.agent.agent)
        self._registered: list[Any] = []
        for device in sorted({plan.device for plan in layout.plans}):
            areas = [(start, stop - start, max(device, 0), "") for start, stop in _areas(layout, device)]
            self._registered.append(self.agent.register_memory(areas, kind_of(device)))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"kvstate-{name}", daemon=True)
        if serves:
            self._thread.start()

    def _look(self) -> None:
        """See what peers want, now and again: with its messages, of which there are none, NIXL moves what is asked."""
        while not self._over.wait(NAP_SECONDS):
            with suppress(Exception):  # of a peer that has gone, whose reads are its own affair
                self.agent.get_new_notifs()

    def end(self) -> None:
        """Deregister, and take it down; may be called again. Errors: `RuntimeError` if something holds on to it."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)
            if self._thread.is_alive():
                raise RuntimeError("the thread that looks after an agent of NIXL does not end; nothing is proved")
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


def bindings() -> Any:
    """NIXL's own module. Errors: `NixlMissingError`."""
    try:
        from nixl_cu12 import _api as api
    except ImportError:
        raise NixlMissingError(
            'NIXL is not installed; pip install "kvstate[nixl]" brings it, or take the transport gloo'
        ) from None
    if "NIXL_LOG_LEVEL" not in os.environ:  # it logs to the standard output, where nobody expects it
        logging.getLogger("nixl").setLevel(logging.WARNING)
    return api
