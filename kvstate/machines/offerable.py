"""Which blocks may be offered to a peer, and under which names: a look at the ledger, which changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from kvstate.machines.keybook import NONE
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, BlockRefs
from kvstate.machines.tables.block import Event as B
from kvstate.machines.verdicts import Refusal


def names_of(
    ledger: Ledger, lease: int, refs: BlockRefs, keys: Sequence[bytes] | None, group: int | None
) -> list[tuple[str, bytes]] | Refusal:
    """The key space and key of each of these blocks, which are to be sealed: as the ledger names them, or as given."""
    core, books = ledger.core, ledger.books
    held = core.lease(lease)
    space = held if isinstance(held, Refusal) else core.space(held, group) if keys is not None else ""
    if isinstance(space, Refusal):
        return space
    stranger = None if isinstance(held, Refusal) else books.stranger(held, refs)
    if stranger is not None:
        return Refusal(f"block {stranger.block} gen {stranger.generation} does not belong to lease {lease}")
    if keys is not None and len(keys) != len(refs):
        return Refusal(f"{len(refs)} blocks and {len(keys)} keys: an offer has a key for each block")
    names = []
    for place, ref in enumerate(refs):
        problem = _unfit(ledger, ref)
        if problem is not None:
            return problem
        slot = books.keys.block_key[ref.block]
        named = None if slot == NONE else (books.keys.name(slot).namespace, books.keys.name(slot).key)
        given = named if keys is None else (space, keys[place])
        if given is None or named not in (None, given):
            why = "is named by no key; say which is its own" if given is None else "has another key than the one given"
            return Refusal(f"block {ref.block} gen {ref.generation} {why}")
        names.append(given)
    return names


def _unfit(ledger: Ledger, ref: BlockRef) -> Refusal | None:
    """A block that may be written still can't be offered: ask whether it might be stored."""
    port = ledger.core.ports.block
    if port.choose(ref.block, B.STORE):
        return None
    return Refusal(f"block {ref.block} is {port.state_of(ref.block)}; only a sealed block is offered")
