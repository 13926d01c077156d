"""A worker of ours: a process for one rank, started by `spawn`, over a pipe, with memory of its own.

Whoever has worker processes already keeps them, and their channel: see `kvstate.runtime.worker`. This one is for those
who have none, and for tests that kill one.

What a process holds ends with it. A worker that dies, however, is noticed when its pipe closes; it is killed and waited
for, and only then said to be lost (`ProcessLink.lost`), which is the proof that nothing it was given touches memory any
more. Another process for the same rank has another incarnation, and begins with empty memory.

The parent never waits for a child: a thread writes into the pipe, another reads from it. So a child that was stopped
holds up nobody but those who wait for its copies. A child whose parent is gone ends by itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from queue import SimpleQueue
from time import monotonic
from typing import Final, NamedTuple

from kvstate.codec import CodecError
from kvstate.machines.messages import Effect, Report, Token
from kvstate.runtime.dispatcher import encoded, fail_to_begin
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.worker import Worker
from kvstate.wire import AskFence, AskProbe, DownItem, Fenced, Found, Probed, Retired, Trouble, decode_up, encode_up

OWN_SECONDS: Final = 1.0
"""So long a process that has closed its pipe may take to end by itself, and with a status that says why."""
KILLED_SECONDS: Final = 0.1
"""So long a turn of the loop waits for a process that it has just killed; if that is not enough, the next turn does."""
KERNEL_SECONDS: Final = 10.0
"""A process that was killed is gone by then, unless the kernel itself keeps it."""
FENCE_SECONDS: Final = 60.0
"""A worker that has not answered a fence by then is not believed to answer at all."""
IDLE_SECONDS: Final = 1.0
"""How long a child sleeps at most; it is woken by whatever comes."""
OURS, THEIRS, QUIT, READY = b"k", b"x", b"q", b"r"
"""What a message on the pipe begins with: whose it is, the end, and the child's first word."""


class Guest(NamedTuple):
    """What runs in a child: a worker, and, if somebody wants, a program of theirs beside it over the same pipe."""

    worker: Worker
    """Of that rank and life."""
    serve: Callable[[bytes], None] | None = None
    """Takes a message that was sent with `ProcessLink.tell`, in the order among effects in which it was sent."""
    answers: Callable[[], list[bytes]] | None = None
    """What the program has to say; asked after the reports were taken, and sent before them."""


Build = Callable[[int, int], Guest]
"""Makes what runs in a child, given rank and incarnation. A function of a module, or a `partial` of one: it is sent."""


class ProcessLink:
    """The way to one worker process, as a `Link`, and the process itself. Methods are for the thread that owns it."""

    def __init__(self, build: Build, rank: int, incarnation: int, inbox: Inbox) -> None:
        """Starts the process. It is ready when `ready` says so; what it is given before that waits in the pipe.

        What `build` raises in the child ends it, and is the end of this link.
        """
        self.rank = rank
        """Which worker it is."""
        self.incarnation = incarnation
        """Which life of it."""
        self.troubles: list[str] = []
        """What could not be read, on either side, and what the child could not do; a sentence each."""
        self.answers: deque[bytes] = deque()
        """What the program beside the worker has said, oldest first. Each stands here before any later report is in
        the inbox."""
        self.probed: deque[Probed] = deque()
        """Answers to probes, oldest first."""
        self.found: deque[Found] = deque()
        """What the child found in durable pools, as it said it."""
        self._inbox = inbox
        self._fences: dict[int, Fenced] = {}
        self._fenced = threading.Condition()
        self._asked = 0
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._ended_at = 0.0
        self._lost = ""
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        name = f"kvstate-rank-{rank}"
        self.process = context.Process(target=_child, args=(build, rank, incarnation, child), name=name, daemon=True)
        """To look at; it is ended by `stop` or `kill`."""
        self.process.start()
        child.close()
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._read, name=f"{name}-read", daemon=True),
            threading.Thread(target=self._write, name=f"{name}-write", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    # -- as a link -----------------------------------------------------------------------------------------------------

    @property
    def lost(self) -> str:
        """As `Link.lost`. A pipe that has closed proves nothing yet: the process ends by itself, or is ended."""
        if not self._lost and self._ended.is_set():
            if self.process.exitcode is None and monotonic() > self._ended_at + OWN_SECONDS:
                self.process.kill()
                self.process.join(KILLED_SECONDS)
            code = self.process.exitcode
            if code is not None:
                how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
                self._lost = f"the worker of rank {self.rank} (life {self.incarnation}) {how}"
        return self._lost

    def give(self, effects: Iterable[Effect]) -> None:
        """As `Link.give`; work that can't be sent any more fails at once."""
        effects = list(effects)
        if self._ended.is_set():
            fail_to_begin(effects, self._inbox, self.rank)
        else:
            self._send(effects)

    def step_retired(self, step: int) -> None:
        """As `Link.step_retired`."""
        self._send([Retired(step)])

    def probe(self, token: Token) -> None:
        """As `Link.probe`; the answer comes into `probed`, if it comes."""
        self._send([AskProbe(token)])

    def take_found(self) -> list[Found]:
        """As `Link.take_found`."""
        return [self.found.popleft() for _ in range(len(self.found))]

    def fence(self, within: float = FENCE_SECONDS) -> Iterator[tuple[str, int]]:
        """As `Link.fence`; a worker that is gone proves nothing here: `lost` does. Errors: `TimeoutError`."""
        self._asked += 1
        number = self._asked
        self._send([AskFence(number)])
        with self._fenced:
            done = self._fenced.wait_for(lambda: number in self._fences or self._ended.is_set(), within)
            answer = self._fences.pop(number, None)
        if not done:
            raise TimeoutError(f"rank {self.rank} has not answered a fence within {within:g} s; nothing is proved")
        yield from answer.proved if answer is not None else ()

    # -- the process ---------------------------------------------------------------------------------------------------

    def tell(self, message: bytes) -> None:
        """Send a message to the program beside the worker; it takes it after all that was sent before."""
        self._queue.put(THEIRS + message)

    def ready(self, within: float) -> bool:
        """Wait until the child has made its memory and copiers; False if it has not, or is gone."""
        end = monotonic() + within
        while not self._ready.wait(min(0.05, max(0.0, end - monotonic()))):
            if self._ended.is_set() or monotonic() >= end:
                break
        return self._ready.is_set() and not self._ended.is_set()

    def kill(self) -> None:
        """End the process in the middle of whatever it does (SIGKILL). Noticed like any other death."""
        self.process.kill()

    def stop(self, within: float) -> bool:
        """Let the child close its copiers and end, and end it if it has not by then. True if it ended by itself.

        May be called again, and of a child that is gone.
        """
        self._queue.put(QUIT + str(within / 2).encode())
        self.process.join(within)
        clean = self.process.exitcode == 0
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join(KERNEL_SECONDS)
        self._queue.put(None)
        for thread in self._threads:
            thread.join(KERNEL_SECONDS)
        self._pipe.close()
        return clean

    # -- the pipe ------------------------------------------------------------------------------------------------------

    def _send(self, items: Sequence[DownItem]) -> None:
        messages, trouble = encoded(self.rank, self.incarnation, items, self._inbox)
        self.troubles += [trouble] if trouble else []
        for message in messages:
            self._queue.put(OURS + message)

    def _write(self) -> None:
        while (message := self._queue.get()) is not None:
            try:
                self._pipe.send_bytes(message)
            except (OSError, ValueError):
                return  # the reader sees the end as well, and says so

    def _read(self) -> None:
        try:
            while True:
                message = self._pipe.recv_bytes()
                if message[:1] == OURS:
                    self._hear(message[1:])
                elif message[:1] == THEIRS:
                    self.answers.append(message[1:])
                    self._inbox.wake()
                else:
                    self._ready.set()
        except (OSError, EOFError):
            pass
        finally:
            self._ended_at = monotonic()
            self._ended.set()
            with self._fenced:
                self._fenced.notify_all()
            self._inbox.wake()

    def _hear(self, message: bytes) -> None:
        try:
            up = decode_up(message)
        except CodecError as problem:  # a child of ours never says such a thing
            self.troubles.append(f"rank {self.rank} sent what is no message: {problem}")
            return
        for item in up.items:
            match item:
                case Report():
                    self._inbox.put(item)
                case Fenced():
                    with self._fenced:
                        self._fences[item.number] = item
                        self._fenced.notify_all()
                case Trouble():
                    self.troubles.append(item.sentence)
                case Probed():
                    self.probed.append(item)
                    self._inbox.wake()
                case Found():
                    self.found.append(item)
                    self._inbox.wake()


def _child(build: Build, rank: int, incarnation: int, pipe: Connection) -> None:
    """The life of a worker process. What the terminal says to all of its processes is for the parent to hear."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        guest = build(rank, incarnation)
    except Exception as error:
        why = Trouble(f"the worker of rank {rank} could not begin: {type(error).__name__}: {error}")
        traceback.print_exc()
        pipe.send_bytes(OURS + encode_up(rank, incarnation, [why]))
        os._exit(1)
    worker, came = guest.worker, deque[bytes]()

    def read() -> None:
        try:
            while True:
                came.append(pipe.recv_bytes())
                worker.inbox.wake()
        except (OSError, EOFError):
            came.append(QUIT)  # nobody is left to work for
            worker.inbox.wake()

    threading.Thread(target=read, name="kvstate-read", daemon=True).start()
    pipe.send_bytes(READY)
    going, within = True, 0.0
    while going:
        worker.inbox.wait(IDLE_SECONDS, lambda: bool(came) or worker.waiting)
        while came and going:
            message = came.popleft()
            if message[:1] == OURS:
                worker.feed(memoryview(message)[1:])
            elif message[:1] == THEIRS and guest.serve is not None:
                guest.serve(message[1:])
            else:
                going, within = False, float(message[1:] or 0.0)
        going = _answer(guest, pipe) and going
    worker.close(within)
    _answer(guest, pipe)
    os._exit(0)  # threads of copiers may be anywhere, and nothing here is worth waiting for


def _answer(guest: Guest, pipe: Connection) -> bool:
    """Send up what there is; False if nobody listens any more."""
    reports = guest.worker.take_reports()
    answers = guest.answers() if guest.answers is not None else []
    try:
        for answer in answers:
            pipe.send_bytes(THEIRS + answer)
        if reports:
            pipe.send_bytes(OURS + reports)
    except (OSError, ValueError):
        return False
    return True
