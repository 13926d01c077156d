"""A connection that is driven by a thread of its own: what `gloo` and `nixl` have in common.

The thread makes the connection, begins pulls in their order, waits for them, and tears down: when it breaks, or when
somebody wants it quiet. Transfers are told after that, so that what they are told is proof.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from kvstate.machines.messages import Failure
from kvstate.runtime.peers.transport import Told, Transfer, cancelled, lost

POKE_SECONDS: Final = 0.05
"""How often a thread that is to be quiet is reminded of it."""


class Line(ABC):
    """A `Connection` in a thread. Subclasses say how; all that begins with an underscore runs in that thread."""

    def __init__(self, peer: str) -> None:
        """To whom, for messages; `start` starts it."""
        self.peer = peer
        """As `Connection.peer`."""
        self.broken: Failure | None = None
        """As `Connection.broken`."""
        self.progress = 0
        """As `Connection.progress`."""
        self._ready = threading.Condition(threading.Lock())
        self._waiting: deque[Transfer] = deque()
        """Pulls that nothing was done for."""
        self._running: deque[Transfer] = deque()
        """Pulls under way, oldest first. The thread's alone."""
        self._began = False
        """Was anything of any pull begun?"""
        self._wish = ""
        """Why it is to be quiet; empty while it is not."""
        self._over = threading.Event()
        """Torn down: nothing is written any more."""
        self._thread = threading.Thread(target=self._run, name=f"kvstate-{peer}", daemon=True)

    def start(self) -> None:
        """Begin; called once, when all of it is made."""
        self._thread.start()

    def pull(self, remote: Sequence[int], local: Sequence[int], told: Told | None = None) -> Transfer:
        """As `Connection.pull`."""
        transfer = Transfer(remote, local, told, self._drop)
        wrong = self.check(transfer)
        with self._ready:
            wrong = wrong or self.broken
            if wrong is None:
                self._waiting.append(transfer)
                self._ready.notify()
        if wrong is not None:
            transfer.end(wrong)
        else:
            self.poke()
        return transfer

    def quiet(self, within: float) -> None:
        """As `Connection.quiet`. Errors: `TimeoutError`."""
        self.hush(f"the connection to {self.peer} was torn down")
        with self._ready:
            unbegun, began = list(self._waiting), self._began
            self._waiting.clear()
        for transfer in unbegun:
            transfer.end(lost(self.peer, self._wish))
        if not began:  # nor will anything be, now that it is to be quiet
            return
        end = monotonic() + within
        while not self._over.is_set():
            self.poke()
            if self._over.wait(min(POKE_SECONDS, max(end - monotonic(), 0.001))) or self._again():
                break
            if monotonic() >= end:
                raise TimeoutError(
                    f"the connection to {self.peer} is not torn down after {within:g} s; nothing is proved"
                )

    def _again(self) -> bool:
        """Try once more what the thread could not prove, after its end."""
        if self._thread.is_alive():
            return False
        with suppress(Exception):
            self._tear_down()
            self._over.set()
        return self._over.is_set()

    def hush(self, why: str) -> None:
        """Ask the thread to tear down, and do not wait for it."""
        with self._ready:
            self._wish = self._wish or why
            self._ready.notify()
        self.poke()

    @property
    def is_quiet(self) -> bool:
        """Is it torn down, for sure?"""
        return self._over.is_set()

    @abstractmethod
    def check(self, transfer: Transfer) -> Failure | None:
        """What is wrong with a pull, before it is begun: blocks that are not there."""

    @abstractmethod
    def poke(self) -> None:
        """Wake the thread from what it waits for: there is a pull, or a wish. Called by others, and again if it does
        not help.
        """

    @abstractmethod
    def _open(self) -> None:
        """Make the connection. Raises if that is not to be."""

    @abstractmethod
    def _begin(self, transfer: Transfer) -> None:
        """Begin a pull; more may be under way. Raises if the connection broke."""

    @abstractmethod
    def _advance(self) -> None:
        """Wait a moment for what is under way; `_land` what is over. Raises if the connection broke."""

    @abstractmethod
    def _room(self) -> bool:
        """May another pull be begun now?"""

    @abstractmethod
    def _tear_down(self) -> None:
        """Take down all that could write. When it returns, nothing does; raises where that can't be said."""

    def _drop(self, transfer: Transfer) -> None:
        """Call a pull off that nothing was done for. Any thread may ask."""
        with self._ready:
            waits = transfer in self._waiting
            if waits:
                self._waiting.remove(transfer)
        if waits:
            transfer.end(cancelled())

    def _land(self, transfer: Transfer) -> None:
        """All bytes of the oldest pull under way have come."""
        self._running.remove(transfer)
        transfer.end()

    def _run(self) -> None:
        why: Failure | None = None
        try:
            if not self._wish:
                self._open()
            while not self._wish:
                self._turn()
        except Exception as error:  # whatever a driver raises, the connection is over and its pulls are told
            why = lost(self.peer, error)
        with self._ready:
            self.broken = why if why is not None and not self._wish else lost(self.peer, self._wish)
        self._finish(self.broken)

    def _turn(self) -> None:
        with self._ready:
            while not (self._waiting or self._running or self._wish):
                self._ready.wait()
            fresh = self._waiting.popleft() if self._waiting and not self._wish and self._room() else None
            self._began = self._began or fresh is not None
        if fresh is not None:
            self._running.append(fresh)
            self._begin(fresh)
        elif self._running and not self._wish:
            self._advance()

    def _finish(self, why: Failure) -> None:
        """Tear down, then tell. Where tearing down fails, what was under way is told without proof."""
        proved = True
        try:
            self._tear_down()
        except Exception as error:
            proved = False
            why = lost(self.peer, error)
        with self._ready:
            waiting, self._waiting = list(self._waiting), deque()
        for transfer in self._running:
            transfer.end(why, proved=proved)
        for transfer in waiting:
            transfer.end(why)
        self._running.clear()
        if proved:
            self._over.set()
