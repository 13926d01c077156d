# Generated from spec/peers/ by `make tables`; do not edit.
"""The tables of all machines, by the name of the machine."""

from __future__ import annotations

from kvstate.machines.table import Table
from kvstate.peers.tables.borrow import BorrowTable
from kvstate.peers.tables.check import CheckTable
from kvstate.peers.tables.lend import LendTable
from kvstate.peers.tables.link import LinkTable

SPEC_VERSION = "0.1.0"
"""The version of the data that these tables were printed from."""

TABLES: dict[str, type[Table]] = {
    "borrow": BorrowTable,
    "check": CheckTable,
    "lend": LendTable,
    "link": LinkTable,
}
"""For each machine, by name: the class that keeps all of its records."""
