"""What a ledger did, in the words of the spec: rows as they fired, effects that went down, verdicts that went up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kvstate.errors import KVError
from kvstate.machines.books import Books
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Adopt, Cancel, Effect, Hold, Sweep, Undo, Unhold, Work
from kvstate.machines.verdicts import JobVerdict, LoadVerdict, Settlement, Verdict
from kvstate.testing.groups import length
from kvstate.testing.names import Names

SILENT = {"S01"}
"""Rows that only answer a question; every request asks it."""


class Recorder:
    """Writes down every row that fires, with what it changed."""

    def __init__(self, ledger: Ledger, names: Names, fired: Counter[str]) -> None:
        self.books: Books = ledger.books
        self.names = names
        self.fired = fired
        self.lines: list[str] = []
        self.known: dict[tuple[str, int], tuple[int, ...]] = {}
        """The variables of each record after its last row."""
        for port in ledger.core.ports.ports.values():
            port.sink = self.saw

    def saw(self, machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:
        """The sink of every port."""
        self.fired[row] += len(slots)
        if row in SILENT:
            return
        table = self.books.tables[machine]
        moved = f"{table.STATES[before]} -> {table.STATES[after]}" if before != after else table.STATES[after]
        for slot in slots:
            uid = self.books.uid(machine, slot)
            changes = "".join(f", {change}" for change in self._changes(machine, slot, uid))
            self.lines.append(f"{self.names.record(machine, uid)}: {moved}{changes} ({row})")

    def _changes(self, machine: str, slot: int, uid: int) -> Iterator[str]:
        table: Any = self.books.tables[machine]
        now = tuple(self.books.column(machine, var)[slot] for var in table.VARS)
        first = zip(table.VARS, now, table.FIRST[1:], strict=True)
        born = tuple(value if var in table.GIVEN else initial for var, value, initial in first)
        old = self.known.get((machine, uid), born)
        self.known[machine, uid] = now
        for var, was, value in zip(table.VARS, old, now, strict=True):
            flag = self.books.column(machine, var).typecode == "B"
            if was != value:
                yield (var if value else f"not {var}") if flag else f"{var} {was} -> {value}"


def effect_line(names: Names, effect: Effect) -> str:
    """`send t1: fetch h3@0 -> b7@2 as K1`, as a worker would read it."""
    if isinstance(effect, Hold | Unhold):
        asked = "keep" if isinstance(effect, Hold) else "done with"
        return f"ask the engine: {asked} {names.block(effect.ref.block)}@{effect.ref.generation}"
    if isinstance(effect, Sweep):
        return f"send: remove {'all objects' if effect.everything else 'the objects that no block holds'}"
    if isinstance(effect, Adopt):
        lines = zip(effect.blocks, effect.spaces, effect.keys, strict=True)
        return "send: adopt " + " ".join(f"{names.block(block)} as {names.key(of, key)}" for block, of, key in lines)
    token = names.token(effect.token)
    if isinstance(effect, Cancel):
        return f"send {token}: cancel"
    space = space_of(names, effect)
    keys = " ".join(names.key(space, key) for key in effect.keys)
    if isinstance(effect, Undo):
        return f"send {token}: undo, remove {keys} from {' '.join(map(names.block, effect.src))}"
    if effect.kind == "seek":
        return f"send {token}: seek {' '.join(names.key(effect.space(0), key) for key in effect.keys)}" + _on(
            names, effect
        )
    way = f"{names.now(effect.src)} -> {names.now(effect.dst)}" if effect.dst else names.now(effect.src)
    if effect.kind == "verify":
        way = f"{names.now(effect.dst)} against {names.now(effect.src)}"
    more = _on(names, effect)
    more += f", attempt {effect.attempt}" if effect.attempt > 1 else ""
    more += f", after step {effect.after_step}" if effect.after_step else ""
    return f"send {token}: {effect.kind} {way} as {keys}{more}"


def _on(names: Names, work: Work) -> str:
    return f", rank {work.rank}" if names.books.config.ranks > 1 else ""


def space_of(names: Names, effect: Work | Undo) -> str:
    """The namespace of the keys of some work: that of the lease that began it. It is remembered for an undo."""
    books, serial = names.books, effect.token.serial
    slot = books.tokens.get(serial)
    owner = books.parts[slot].owner if slot is not None else None
    if owner is not None:
        machine, number = owner
        lease = books.jobs[number].lease if machine == "offload" else books.loads[books.batches[number].load].lease
        names.spaces[serial] = names.leases[lease].space if lease in names.leases else ""
    return names.spaces.get(serial, "")


def verdict_lines(names: Names, verdict: Verdict) -> list[str]:
    """What the scheduler hears; errors one a line below it, the first cause first."""
    if isinstance(verdict, LoadVerdict):
        blocks = f"{verdict.blocks} block{'' if verdict.blocks == 1 else 's'}"
        line = f"tell {names.load(verdict.load)} of {names.lease(verdict.lease)}: {verdict.ending.value}"
        line += f", {length(names, verdict) if verdict.groups else f'{verdict.tokens} tokens in {blocks}'}"
        if verdict.kept:
            line += f"; kept {names.now(verdict.kept)}"
        if verdict.left:
            line += "; left " + " ".join(map(names.block, verdict.left))
        return [line, *(f"  because {error_line(names, error)}" for error in verdict.errors)]
    if isinstance(verdict, JobVerdict):
        line = f"tell {names.job(verdict.job)} of {names.lease(verdict.lease)}: {verdict.ending.value}"
        if verdict.keys:
            line += " " + " ".join(key.decode() for key in verdict.keys)
        return [line, *(f"  because {error_line(names, error)}" for error in verdict.errors)]
    if isinstance(verdict, Settlement):
        return [f"tell {names.load(verdict.load)}: settled"]
    return [f"FATAL {verdict.law}: {names.text(verdict.sentence)}"]


def error_line(names: Names, error: KVError) -> str:
    """All that law L10 asks for: code, stage, part, attempt, block, may it be retried, and the driver's own words."""
    where = [f"{error.code.name} at {error.stage}"]
    if error.token is not None:
        where.append(f"{names.token(error.token)} attempt {error.attempt}")
    if error.block >= 0:
        where.append(f"{names.block(error.block)}@{error.generation}")
    where.append("retryable" if error.retryable else "not retryable")
    raw = f"{error.driver} {error.raw}".strip() if error.raw else ""
    words = [word for word in (raw, error.type, error.message) if word]
    return ", ".join(where) + (f" [{': '.join(words)}]" if words else "")
