# Generated from spec/ by `make tables`; do not edit.
"""The tables of all machines, by the name of the machine."""

from __future__ import annotations

from kvstate.machines.table import Table
from kvstate.machines.tables.block import BlockTable
from kvstate.machines.tables.foreign import ForeignTable
from kvstate.machines.tables.key import KeyTable
from kvstate.machines.tables.load import LoadTable
from kvstate.machines.tables.offload import OffloadTable
from kvstate.machines.tables.part import PartTable
from kvstate.machines.tables.service import ServiceTable
from kvstate.machines.tables.transfer import TransferTable

SPEC_VERSION = "0.3.0"
"""The version of the data that these tables were printed from."""

TABLES: dict[str, type[Table]] = {
    "block": BlockTable,
    "foreign": ForeignTable,
    "key": KeyTable,
    "load": LoadTable,
    "offload": OffloadTable,
    "part": PartTable,
    "service": ServiceTable,
    "transfer": TransferTable,
}
"""For each machine, by name: the class that keeps all of its records."""
