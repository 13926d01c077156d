"""Who hears of the rows that fire. Nothing else in a replay knows how the ledger tells of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvstate.machines.ledger import Ledger
from kvstate.machines.ports import Sink


def listen(ledger: Ledger, told: Sink, machines: Iterable[str]) -> None:
    """From here on `told` hears of every row that fires on these machines, after those who listened before it.

    What it is told and what it must not do stands at `Sink`. Errors: `KeyError` for a machine that there is not.
    """
    ports = ledger.core.ports.ports
    for name in machines:
        port = ports[name]
        port.sink = told if port.sink is None else _both(port.sink, told)


def _both(first: Sink, then: Sink) -> Sink:
    def sink(machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:
        first(machine, slots, row, before, after)
        then(machine, slots, row, before, after)

    return sink
