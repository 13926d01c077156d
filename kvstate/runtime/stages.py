"""At which stage of a block's way each kind of part fails. In a file of its own: whoever asks may have no torch."""

from __future__ import annotations

from typing import Final

from kvstate.machines.messages import Kind

STAGES: Final[dict[str, str]] = {
    Kind.STORE: "write",
    Kind.PERSIST: "commit",
    Kind.FETCH: "fetch",
    Kind.VERIFY: "verify",
    Kind.SEEK: "lookup",
}
"""Stages of `errors.toml`, by kind."""
