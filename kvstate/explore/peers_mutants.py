"""Every fault of the spec of handoffs, and what finds it: the rules, the prover, or a search of two parties.

A fault that all of them leave alone is a survivor. A search finds it when a law is broken, when a party breaks, or when
a scope has another number of states or moves than it had: then something does something else, and a pin of the tests
moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kvstate.explore.peers_scopes import PEER_SCOPES
from kvstate.explore.peers_search import PeersExplored, explore_peers
from kvstate.machines.interpreted import interpreted
from kvstate.machines.table import Table
from kvstate.peers.rules import Rules
from kvstate.peers.tables import TABLES

FASTEST: Final = ("strange", "handoff", "producer", "consumer", "reborn", "renew", "bye")
"""The scopes that are searched for a fault, in this order."""
MAX_STATES: Final = 8000
"""A fault that makes a scope larger than this has made it another one."""


class Killed(NamedTuple):
    """What found a fault, and how."""

    by: str
    """`rules`, `prover`, `law`, `break` or `pin`; empty for a survivor."""
    where: str
    """The scope, or nothing."""
    said: str
    """The law with its sentence, or the counts."""


Pins = Mapping[str, tuple[int, int]]
"""By scope: the states and the moves of the spec without a fault."""


def pins_of(names: Iterable[str] = FASTEST) -> dict[str, tuple[int, int]]:
    """What the scopes have without a fault."""
    found = {name: explore_peers(PEER_SCOPES[name]) for name in names}
    return {name: (one.states, one.transitions) for name, one in found.items()}


def hunt(rules: Rules, pins: Pins, scopes: Sequence[str] = FASTEST) -> Killed:
    """Search the scopes with these rules until something is wrong."""
    for name in scopes:
        try:
            found = explore_peers(PEER_SCOPES[name], rules, max_states=MAX_STATES)
        except Exception as error:
            return Killed("break", name, f"{type(error).__name__}: {error}")
        if found.law:
            return Killed("law", name, f"{found.law}: {found.sentence}")
        if differs := _other(found, pins[name]):
            return Killed("pin", name, differs)
    return Killed("", "", "")


def _other(found: PeersExplored, pin: tuple[int, int]) -> str:
    now = (found.states, found.transitions)
    return "" if now == pin else f"{now[0]} states and {now[1]} moves, and it was {pin[0]} and {pin[1]}"


def rules_of(changed: Mapping[str, type[Table]], kept: Callable[[str], bool] = lambda _: True) -> Rules:
    """The rules with these tables in place of the own ones, and only the lines that are kept, by id."""
    own = Rules()
    couplings = [line for line in own.couplings if kept(line[0])]
    return Rules({**TABLES, **changed}, couplings, [line for line in own.acts if kept(line[0])])


def tables_of(machines: Iterable[object]) -> Iterator[tuple[str, type[Table]]]:
    """Tables that interpret these machines of a spec."""
    for machine in machines:
        table = interpreted(machine)  # type: ignore[arg-type]  # the layer of the search knows no specs
        yield table.name, table
