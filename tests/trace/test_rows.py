"""Who listens to the rows of a ledger hears all of them, in order, beside whoever else does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvstate.machines.ports import Sink
from kvstate.machines.tables import TABLES
from kvstate.trace.rows import listen
from tests.runtime.rig import Rig, keys_of

Heard = tuple[str, str, str, tuple[int, ...]]


def ear(heard: list[Heard], who: str) -> Sink:
    """Writes down what it is told, under its name."""

    def told(machine: str, uids: Sequence[int], row: str, before: int, after: int) -> None:
        heard.append((who, machine, row, tuple(uids)))

    return told


def test_all_who_listen_hear_each_row_in_the_order_in_which_they_came() -> None:
    rig = Rig()
    heard: list[Heard] = []
    for who in ("first", "second", "third"):
        listen(rig.ledger, ear(heard, who), ["block"])
    listen(rig.ledger, ear(heard, "other"), ["service"])
    rig.allocate(rig.open(), 2)
    rows = [row for row in heard if row[1] == "block"]
    assert [row[0] for row in rows] == ["first", "second", "third"] * (len(rows) // 3)
    assert [row[1:] for row in rows[::3]] == [row[1:] for row in rows[2::3]]
    assert [uid for row in rows[::3] for uid in row[3]] == [0, 1]
    assert {row[1] for row in heard if row[0] == "other"} == {"service"}


def test_every_row_is_told_that_is_counted() -> None:
    rig = Rig()
    heard: list[str] = []
    before = sum(rig.ledger.fired().values())
    listen(rig.ledger, lambda machine, uids, row, before, after: heard.extend([row] * len(uids)), TABLES)
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, keys_of(1, 2)))
    rig.run()
    rig.ledger.finish(lease)
    assert len(heard) == sum(rig.ledger.fired().values()) - before > 20


def test_a_machine_that_is_not_there_is_told() -> None:
    with pytest.raises(KeyError, match="blocks"):
        listen(Rig().ledger, lambda machine, uids, row, before, after: None, ["blocks"])
