"""One event of a generated table against the same event in the package `transitions`.

`transitions` is measured twice: as `to_transitions` exports the machine, guards walked as trees, and as somebody would
write the same rows by hand, guards and changes as plain methods. The second is the quicker, and so the stricter.

The event is *share* and then *release* of a published block (rows B09 and B23): guarded, counting, and back where it
was. *Release* has five rows to choose from.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from random import Random

import transitions

from bench.measure import Line, Size, Timed, scaled, spread, timed, versus
from kvstate.machines import columns
from kvstate.machines.tables.block import BlockTable, Event
from kvstate.spec.loader import load_spec
from kvstate.spec.transitions_export import to_transitions

SLOTS = 256


def table_events(events: int) -> Timed:
    """Share and release, on one block after the other, `events` in all."""
    table = BlockTable()
    table.extend(SLOTS)
    for slot in range(SLOTS):
        for event in (Event.RESERVE, Event.SEAL, Event.PUBLISH):
            assert table.fire(slot, event) >= 0
    slots = [turn % SLOTS for turn in range(events // 2)]
    share, release, fire = int(Event.SHARE), int(Event.RELEASE), table.fire

    def work() -> None:
        for slot in slots:
            fire(slot, share)
            fire(slot, release)

    work()
    assert set(table.owners) == {1}
    return timed(work, 2 * len(slots))


def exported_events(events: int) -> Timed:
    """The same, with the machine that `to_transitions` makes of the data."""
    _, model = to_transitions(load_spec(check=False).machine("block"))
    for event in ("reserve", "seal", "publish"):
        assert model.trigger(event)
    share: Callable[[], bool] = model.share  # type: ignore[attr-defined]
    release: Callable[[], bool] = model.release  # type: ignore[attr-defined]

    def work() -> None:
        for _ in range(events // 2):
            share()
            release()
        model.fired.clear()
        model.effects.clear()

    work()
    assert model.values()["owners"] == 1
    return timed(work, events // 2 * 2)


class ByHand:
    """The rows for *share* and *release* of an active block as methods, the way the package's manual shows."""

    def __init__(self) -> None:
        self.owners, self.readers, self.lost, self.published = 1, 0, 0, True

    def is_published(self) -> bool:
        return self.published

    def has_others(self) -> bool:
        return self.owners > 1

    def is_last_and_named(self) -> bool:
        return self.owners == 1 and self.published

    def is_last_and_untouched(self) -> bool:
        return self.owners == 1 and not self.published and self.readers == 0

    def is_last_and_touched(self) -> bool:
        return self.owners == 1 and not self.published and self.lost < self.readers

    def is_last_and_lost(self) -> bool:
        return self.owners == 1 and not self.published and self.lost > 0 and self.lost == self.readers

    def join(self) -> None:
        self.owners += 1

    def leave(self) -> None:
        self.owners -= 1


def by_hand_events(events: int) -> Timed:
    """The same, written by hand for the package."""
    model = ByHand()
    ends = [
        ("has_others", None),
        ("is_last_and_named", "cached"),
        ("is_last_and_untouched", "free"),
        ("is_last_and_touched", "draining"),
        ("is_last_and_lost", "quarantined"),
    ]
    rows = [{"trigger": "share", "source": "active", "dest": None, "conditions": "is_published", "before": "join"}]
    rows += [
        {"trigger": "release", "source": "active", "dest": to, "conditions": guard, "before": "leave"}
        for guard, to in ends
    ]
    states = ["free", "open", "loading", "active", "cached", "draining", "quarantined"]
    transitions.Machine(model, states=states, initial="active", transitions=rows, auto_transitions=False)
    share: Callable[[], bool] = model.share  # type: ignore[attr-defined]
    release: Callable[[], bool] = model.release  # type: ignore[attr-defined]

    def work() -> None:
        for _ in range(events // 2):
            share()
            release()

    work()
    assert model.owners == 1
    return timed(work, events // 2 * 2)


def column_events(blocks: int, slots: array[int] | range) -> Timed:
    """Share and release over columns, on all of these slots of a table of so many blocks."""
    table = BlockTable()
    table.extend(blocks)
    view = columns.View(table)
    for event in (Event.RESERVE, Event.SEAL, Event.PUBLISH):
        assert columns.fire(view, range(blocks), event) is not None

    def work() -> None:
        assert columns.fire(view, slots, Event.SHARE) is not None
        assert columns.fire(view, slots, Event.RELEASE) is not None

    work()
    assert set(table.owners) == {1}
    return timed(work, 2 * len(slots))


def over_columns(size: Size) -> list[Line]:
    """What an event costs a block where many take it at once: in a run, at random, and in a batch of the usual size."""
    blocks, many = size.memory_blocks, size.memory_blocks // 10
    dice = Random(1)
    scattered = array("q", dice.sample(range(blocks), many))
    runs: list[tuple[str, array[int] | range, float | None]] = [
        (f"columns, {many:,} blocks contiguous, a block", range(many, 2 * many), 5.0),
        (f"columns, {many:,} blocks of {blocks:,} at random, a block", scattered, 25.0),
        ("columns, 256 blocks at random, a block", scattered[:256], None),
        ("columns, 64 blocks at random, a block", scattered[:64], None),
    ]
    result = []
    for name, slots, most in runs:
        timing = column_events(blocks, slots)
        found = spread([timing() for _ in range(size.turns)])
        result.append(Line(name, "ns", found, "" if most is None else "at most", most))
    return result


def lines(size: Size) -> list[Line]:
    """The ratios of one event, and what an event of the table costs."""
    few = size.events // 20
    exported = versus(table_events(size.events), exported_events(few), size.turns)
    by_hand = versus(table_events(size.events), by_hand_events(few), size.turns)
    return [
        Line("one event: transitions (export) / table", "x", exported.ratio, "at least", 40, "the aim is 100"),
        Line("one event: transitions (by hand) / table", "x", by_hand.ratio, note="conditions as plain methods"),
        Line("one event of the table", "ns", by_hand.first),
        Line("one event of transitions (export)", "us", scaled(exported.second, 1e-3)),
        Line("one event of transitions (by hand)", "us", scaled(by_hand.second, 1e-3)),
        *over_columns(size),
    ]
