"""Nothing in the runtime decides: what the ledger sent once makes the same copies again, without a ledger.

A run is recorded: its effects as the bytes that a worker gets, the steps that retired, what the model wrote, and when
the world let bytes land. The stream of these is fed to a `Dispatcher` over fresh memory. If anything that moves bytes
looked at more than what it was given, the two memories would differ.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kvstate.codec import decode_effects, encode_effects
from kvstate.machines.messages import Effect, Kind, Token, Work
from kvstate.replay.chaos import Chaos
from kvstate.runtime.copiers import Copier
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.dispatcher import Dispatcher
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from tests.runtime.serving import Entry, Given, Heard, Landed, Retired, Serving, Wrote, fresh_memory
from tests.tidy.files import PACKAGE, imports, parsed, python_files, shown

STORMY = Chaos(fail=0.1, late=0.05, duplicate=0.05, lost=0.02, delay=(0.0, 0.02), seed=5)
"""All but flipped bits, which no effect speaks of."""
CALM = Chaos(delay=(0.0, 0.02), seed=5)


@cache
def stormy() -> Serving:
    serving = Serving(11, STORMY, aborts=True)
    serving.run(2500)
    return serving


@cache
def calm() -> Serving:
    serving = Serving(12, CALM, aborts=False)
    serving.run(800)
    return serving


class Replay:
    """A dispatcher over fresh memory, and one of three worlds around it."""

    def __init__(self, make: type[HandCopier] | type[ThreadCopier] = HandCopier) -> None:
        self.memory = fresh_memory()
        self.inbox = Inbox()
        self.copier: Copier = make(self.memory, self.inbox, integrity=Integrity.HOST)
        self.dispatcher = Dispatcher({"cpu": self.copier}, self.inbox)
        self.heard: set[Token] = set()

    def feed(self, tape: Iterable[Entry]) -> Memory:
        for entry in tape:
            match entry:
                case Given(message):
                    self.dispatcher.give(decode_effects(message))
                case Retired(step):
                    self.dispatcher.step_retired(step)
                case Wrote(block, data):
                    self.memory.bytes_of(block)[:] = np.frombuffer(data, np.uint8)
                case Landed(token, lines):
                    self.land(token, lines)
                case Heard(token):
                    self.hear(token)
        return self.memory

    def land(self, token: Token, lines: int) -> None:
        """Bytes land when they did."""
        assert isinstance(self.copier, HandCopier)
        self.copier.land(token, lines)

    def hear(self, token: Token) -> None:
        """When a report was heard is nothing that memory knows of."""


class AtOnce(Replay):
    """A world in which a copy is over as soon as it is submitted."""

    def __init__(self) -> None:
        class Quick(HandCopier):
            def submit(self, work: Work) -> None:
                super().submit(work)
                self.land(work.token)

        super().__init__(Quick)

    def land(self, token: Token, lines: int) -> None:
        pass


class InThreads(Replay):
    """Two threads copy in whatever order; what waited for a report then waits for the same one now."""

    def __init__(self) -> None:
        super().__init__(ThreadCopier)

    def land(self, token: Token, lines: int) -> None:
        pass

    def hear(self, token: Token) -> None:
        while token not in self.heard:
            assert self.inbox.wait(20.0), f"part {token.serial} was never reported"
            self.heard |= {report.token for report in self.inbox.drain(512)}


def same(one: Memory, other: Memory) -> bool:
    """Every byte, and what was sealed."""
    return all(
        np.array_equal(a.array, b.array)
        and (a.seals.keys, a.seals.marks, a.seals.sums) == (b.seals.keys, b.seals.marks, b.seals.sums)
        for a, b in zip(one.pools, other.pools, strict=True)
    )


# ---- The same stream, the same bytes ---------------------------------------------------------------------------------


def test_the_recorded_runs_have_something_to_show() -> None:
    kinds = Counter(work.kind for work in stormy().works)
    assert min(kinds[kind] for kind in (Kind.STORE, Kind.FETCH, Kind.VERIFY)) > 40, kinds
    assert sum(work.after_step > 0 for work in stormy().works) > 60
    assert sum(work.attempt > 1 for work in stormy().works) > 3
    counts = stormy().copier.counts
    assert min(counts.failed, counts.cancelled, counts.lost, counts.late_landings, counts.duplicates) > 3, counts
    for serving in (stormy(), calm()):
        overwritten = Counter(block for work in serving.works if work.kind == Kind.STORE for block in work.dst)
        assert max(overwritten.values()) > 3  # slots lived several lives


def test_a_stormy_run_is_made_again_copy_by_copy() -> None:
    assert same(Replay().feed(stormy().tape), stormy().memory)


def test_and_a_calm_one_whenever_its_copies_land() -> None:
    """Neither when bytes land nor who moves them is in the stream, and neither can be seen in the memory."""
    assert same(Replay().feed(calm().tape), calm().memory)
    assert same(AtOnce().feed(calm().tape), calm().memory)
    threads = InThreads()
    try:
        assert same(threads.feed(calm().tape), calm().memory)
    finally:
        assert threads.copier.close(5.0) == ()


def test_messages_may_be_cut_and_joined() -> None:
    """The stream is the effects, not how many of them one message holds."""
    tape: list[Entry] = []
    joined: list[Effect] = []
    for entry in calm().tape:
        if isinstance(entry, Given):
            joined.extend(decode_effects(entry.message))
        else:
            if joined:
                tape.append(Given(encode_effects(joined)))
                joined = []
            tape.append(entry)
    assert len(tape) < len(calm().tape)
    assert same(Replay().feed(tape), calm().memory)


# ---- The check can fail ----------------------------------------------------------------------------------------------


def effects_of(tape: Iterable[Entry]) -> list[tuple[int, Work]]:
    """The works of a tape with their places in it."""
    found = []
    for place, entry in enumerate(tape):
        if isinstance(entry, Given):
            found += [(place, effect) for effect in decode_effects(entry.message) if isinstance(effect, Work)]
    return found


@cache
def last_stores() -> dict[int, tuple[Work, set[int]]]:
    """The stores of the calm tape that were the last to write some slots: their places, and the sources of those."""
    last: dict[int, tuple[int, int]] = {}
    works = dict(effects_of(calm().tape))
    for place, work in works.items():
        if work.kind == Kind.STORE:
            last.update({dst: (place, src) for src, dst in zip(work.src, work.dst, strict=True)})
    return {
        place: (works[place], {src for at, src in last.values() if at == place})
        for place in sorted({place for place, _ in last.values()})
    }


def test_a_store_that_is_dropped_is_missed() -> None:
    tape = calm().tape
    assert len(last_stores()) > 10
    for place in last_stores():
        assert not same(AtOnce().feed(tape[:place] + tape[place + 1 :]), calm().memory), place


def test_a_store_that_comes_too_late_reads_the_next_owners_bytes() -> None:
    """The effect is moved behind the writing of somebody who got the block afterwards."""
    tape = calm().tape
    moved = 0
    for place, (work, sources) in last_stores().items():
        for later in range(place, len(tape)):
            entry = tape[later]
            if isinstance(entry, Wrote) and entry.block in sources and work.after_step <= step_at(later):
                moved += 1
                swapped = [*tape[:place], *tape[place + 1 : later + 1], tape[place], *tape[later + 1 :]]
                assert not same(AtOnce().feed(swapped), calm().memory), place
                break
    assert moved > 10


def step_at(place: int) -> int:
    """The last step that had retired before this entry of the calm tape."""
    return next((entry.step for entry in reversed(calm().tape[:place]) if isinstance(entry, Retired)), 0)


def test_a_store_that_does_not_wait_for_its_step_reads_what_was_there_before() -> None:
    def hasty(entry: Entry) -> Entry:
        if not isinstance(entry, Given):
            return entry
        effects = decode_effects(entry.message)
        return Given(encode_effects([e._replace(after_step=0) if isinstance(e, Work) else e for e in effects]))

    assert not same(AtOnce().feed(map(hasty, calm().tape)), calm().memory)


# ---- Nothing else is looked at ---------------------------------------------------------------------------------------

MESSAGES = "kvstate.machines.messages"
LEDGER = {MESSAGES, *(f"kvstate.machines.{name}" for name in ("ledger", "verdicts", "config", "ranks"))}
MAY_KNOW = {f"{name}.py": LEDGER for name in ("engine", "kv", "guarded", "answers", "settings")}
"""What of the machines a file of the runtime may import; where nothing stands here, the messages alone."""
MAY_KNOW |= {
    f"{name}.py": {MESSAGES, "kvstate.machines.config"}
    for name in ("standard", "tiers/settings", "tiers/copier", "peers/made", "peers/settings")
}
MAY_KNOW |= {
    f"tiers/objects/{name}.py": {MESSAGES, "kvstate.machines.config"} for name in ("bucket", "copier", "settings")
}
MAY_KNOW |= dict.fromkeys(("recovery.py", "notes.py", "handoffs.py", "hints.py"), LEDGER)
MAY_KNOW["offers.py"] = LEDGER | {"kvstate.machines.offerable"}
MAY_KNOW["guarded.py"] = LEDGER | {f"kvstate.machines.{name}" for name in ("adaptive", "books", "policy")}
"""For the policies that a setting chooses from."""
MAY_KNOW["answers.py"] = LEDGER | {"kvstate.machines.records"}
"""For the name of a type, and not when it runs."""
MAY_KNOW["tiers/sealed.py"] = {"kvstate.machines.tables"}
"""For the version of the spec, which stands in every header."""


@pytest.mark.parametrize("path", python_files("kvstate/runtime"), ids=shown)
def test_the_runtime_knows_no_states(path: Path) -> None:
    allowed = MAY_KNOW.get(path.relative_to(PACKAGE / "runtime").as_posix(), {MESSAGES})
    known = {module for module, _ in imports(path) if module.startswith(("kvstate.machines", "kvstate.spec"))}
    assert known <= allowed


def test_only_the_engine_class_holds_a_ledger() -> None:
    """A `Dispatcher` is made without one, and nothing in it says the word."""
    tree = parsed(PACKAGE / "runtime" / "dispatcher.py")
    (dispatcher,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Dispatcher")
    words = {node.id for node in ast.walk(dispatcher) if isinstance(node, ast.Name)}
    words |= {node.attr for node in ast.walk(dispatcher) if isinstance(node, ast.Attribute)}
    assert "submit" in words
    assert not words & {"Ledger", "ledger", "books", "fired", "state", "report"}
