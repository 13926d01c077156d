"""The copier of a rank for what peers have, as the settings of a runtime say."""

from __future__ import annotations

from kvstate.machines.config import ConfigError, LedgerConfig
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from kvstate.runtime.peers.copier import PeerCopier
from kvstate.runtime.peers.settings import PeerConfig, TransportChoice, address_of, peer_pool
from kvstate.runtime.peers.transport import Transport

NOBODYS = "peer"
"""The name of the copier where no pool has one: it serves what others pull."""


def make_peer_copier(
    peers: PeerConfig, ledger: LedgerConfig, memory: Memory, inbox: Inbox, rank: int, integrity: Integrity
) -> PeerCopier:
    """Errors: `ConfigError` for a transport that is not installed."""
    here = peer_pool(ledger)
    number, name, count = (len(ledger.pools), NOBODYS, 0) if here is None else (here[0], here[1].copier, here[1].blocks)
    base = sum(pool.blocks for pool in ledger.pools[:number])
    transport = _transport(peers, memory, rank)
    return PeerCopier(transport, memory, inbox, base=base, count=count, name=name, integrity=integrity)


def _transport(peers: PeerConfig, memory: Memory, rank: int) -> Transport:
    if peers.transport is TransportChoice.GLOO:
        from kvstate.runtime.peers.gloo import GlooTransport

        return GlooTransport(
            memory, host=address_of("listen", peers.listen)[0], secret=peers.secret(), serves=peers.serves
        )
    try:
        from kvstate.runtime.peers.nixl import NixlTransport

        return NixlTransport(memory, f"{peers.name}/{rank}", serves=peers.serves)
    except ImportError as error:
        raise ConfigError(
            f"transport: nixl is not installed ({error}); install nixl-cu12 with --no-deps, or take gloo"
        ) from None
