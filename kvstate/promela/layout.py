"""The state vector: the arrays whose values are a state of the model, in the order in which they are declared.

The model declares them, and `vector` gives the same arrays for a state of the ledger. What is declared here is
compared; whatever else the model has is empty between two inputs, or is no part of Spin's state (`hidden`).
"""

from __future__ import annotations

from typing import NamedTuple

from kvstate.promela.shape import LIVING, Shape


class Array(NamedTuple):
    """One array of the vector."""

    name: str
    size: int
    """So many numbers of 16 bits; 0 for a single one that is no array."""
    machine: str = ""
    """The machine whose records the array has an entry for, or one for each line of each."""


RECORDS = {
    "part": "kind owner source checked fills name key out asked silent",
    "offload": "queued *src *dst *key",
    "transfer": "load index live current *src *dst *name *key *leaves",
    "load": "run turn hole told",
}
"""The links of a record beside its state and variables; those with a star have an entry for each line."""


OF_STEPS = {"part": " after lease *held *writes *content", "offload": " after"}
"""More of them in a scope with compute steps."""


def layout(shape: Shape) -> tuple[Array, ...]:
    """All arrays of the vector."""
    arrays: list[Array] = []
    for machine in shape.machines:
        count = shape.count[machine.name]
        columns = ["state", *(var.name for var in machine.vars if var.name != LIVING)]
        arrays += [Array(f"{machine.name}_{name}", count, machine.name) for name in columns]
        words = RECORDS.get(machine.name, "") + (OF_STEPS.get(machine.name, "") if shape.steps else "")
        for word in words.split():
            size = count * (shape.lines if word[0] == "*" else 1)
            arrays.append(Array(f"{machine.name}_{word.lstrip('*')}", size, machine.name))
    blocks, keys, requests, lines = shape.count["block"], len(shape.keys), len(shape.scope.requests), shape.lines
    sizes = {
        "block_content free_at cached_at": blocks,
        "n_free n_cached": 2,
        "key_block key_writer": 2 * keys,
        "loading pending": keys,
        "run_open run_lives run_at run_load lease_current n_own n_pin": requests,
        "run_ref hit_at own_at pin_at": requests * lines,
        "timer_in timer_event timer_who": shape.timers,
    }
    arrays += [Array(name, size) for names, size in sizes.items() for name in names.split()]
    single = ["n_timer", "resets_left", "cancels_left", "corrupt_left", "drains_left"]
    single += [f"n_{machine}" for machine in RECORDS if machine in shape.count]
    return (*arrays, *(Array(name, 0) for name in single))
