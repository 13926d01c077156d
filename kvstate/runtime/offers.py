"""The requests of a `KVRuntime` about blocks that go to other processes, or come from there; see `docs/handoff.md`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvstate.errors import Code, code_of
from kvstate.machines.messages import BlockRef, BlockRefs
from kvstate.machines.offerable import names_of
from kvstate.machines.verdicts import Closed, Refusal
from kvstate.runtime.hints import Hints, size
from kvstate.runtime.peers.news import News
from kvstate.runtime.peers.settings import address_of, peer_pool

if TYPE_CHECKING:
    from kvstate.runtime.engine import Engine
    from kvstate.runtime.handoffs import Handoffs
    from kvstate.runtime.kv import KVRuntime
    from kvstate.runtime.peers.link import Link

NOT_HERE = Refusal("this runtime has no peers; say in peers who it is to others")
"""What is answered where the settings name no peers."""
NOT_SERVED = Refusal("this runtime serves nobody, and so has nothing to offer; set serves in peers")
"""What is answered to an offer where the settings say so."""


class Offers(Hints):
    """A part of `Requests`: who may call, and who is told, is as there."""

    engine: Engine
    handoffs: Handoffs | None = None
    """What joins the runtime to its peers; None where the settings name none."""
    _link: Link | None = None

    @property
    def listens_at(self) -> str:
        """Where the messages of peers arrive, as host:port; empty where the runtime has none."""
        return "" if self._link is None else "{}:{}".format(*self._link.address)

    def greet(self, peer: str, address: str = "") -> bool | Refusal:
        """Look for a peer, at `host:port`, or where the settings say; whether it answers is told in `Done.peers`.

        False if it is looked for already. Errors: `ConfigError` (a `ValueError`) for what is no address.
        """
        self._enter("greet")
        if self.handoffs is None or self._link is None:
            return NOT_HERE
        if address:
            self._link.meet(peer, address_of("address", address))
        return self._told("greet", self.handoffs.party.greet(peer), peer=peer)

    def offer(
        self,
        lease: int,
        blocks: Sequence[BlockRef],
        *,
        to: str,
        request: bytes,
        tokens: int = 0,
        keys: Sequence[bytes] | None = None,
        group: int | None = None,
    ) -> int | Refusal:
        """Offer these sealed blocks of the lease to a peer that is met; the number of the handoff.

        They stay as they are until its verdict, also when the lease has long ended. `request` is what the peer knows
        the request by, `tokens` the length of the prompt that they are for. `keys` has one for each (of one `group`),
        where the ledger does not name them itself.
        """
        self._enter("offer")
        if self.handoffs is None:
            return NOT_HERE
        if not self.handoffs.serves:
            return self._told("offer", NOT_SERVED, lease=lease, blocks=size(blocks), peer=to)
        refs = BlockRefs.of(blocks)
        names = names_of(self.ledger, lease, refs, keys, group)
        number: int | Refusal
        if type(request) is not bytes or type(tokens) is not int or tokens < 0:
            number = Refusal(f"request is bytes, and tokens a number from 0 up; these are {request!r} and {tokens!r}")
        elif isinstance(names, Refusal):
            number = names
        else:
            number = self.handoffs.offer(to, lease, refs, names, request, tokens)
        return self._told("offer", number, lease=lease, blocks=size(blocks), peer=to)

    def withdraw(self, number: int) -> bool | Refusal:
        """Call an offer of ours off: the request is not wanted any more. False if it is over, or none of ours."""
        self._enter("withdraw")
        if self.handoffs is None:
            return NOT_HERE
        return self._told("withdraw", self.handoffs.withdraw(number, int(Code.CANCELLED)), handoff=number)

    def close_offer(self, number: int, *, taken: bool) -> bool | Refusal:
        """What was done with a peer's offer is over, its loads have their verdicts; `taken`: something of it was
        committed. Then the peer may let go of its blocks. False if it has ended already.

        Refused where something is said to be taken and nothing was vouched for.
        """
        self._enter("close_offer")
        if self.handoffs is None:
            return NOT_HERE
        closed = self.handoffs.close_offer(number, taken, 0 if taken else int(Code.CANCELLED))
        return self._told("close_offer", closed, handoff=number, taken=taken)

    def _not_wanted(self, lease: int, closed: Closed | Refusal) -> Closed | Refusal:
        """The lease was aborted or preempted, if it was open: what it has offered is not wanted any more."""
        if self.handoffs is not None and not isinstance(closed, Refusal):
            self.handoffs.withdraw_of(lease, int(Code.CANCELLED))
        return closed

    def _void(self) -> None:
        """The cache was reset."""
        if self.handoffs is not None:
            self.handoffs.reset(int(Code.CANCELLED))

    def _turn_of_peers(self) -> News:
        """Hear peers and answer them; what that asks for goes out at once."""
        if self.handoffs is None:
            return News()
        self.handoffs.turn(self.engine.clock.now())
        if self.ledger.books.effects:
            self.engine.pump()
        news = self.handoffs.take()
        for verdict in news.verdicts:
            code = code_of(verdict.code).name if verdict.code else ""
            self._told(
                "handoff", verdict, handoff=verdict.number, side=verdict.side, peer=verdict.peer, end=verdict.end,
                code=code, vouched=verdict.vouched,
            )  # fmt: skip
        return news


def make_handoffs(kv: KVRuntime) -> tuple[Handoffs, Link] | tuple[None, None]:
    """What joins this runtime to its peers, if its settings have any. Errors: those of the link and of the secret."""
    config, peers = kv.config, kv.config.peers
    if peers is None:
        return None, None
    from kvstate.peers.party import Party
    from kvstate.peers.words import MAX_LIFE, Terms
    from kvstate.runtime.handoffs import Handoffs
    from kvstate.runtime.peers.copier import PeerCopier
    from kvstate.runtime.peers.link import Link

    pool = peer_pool(config.ledger)
    copiers = [copier for one in kv.copiers for copier in one.values() if isinstance(copier, PeerCopier)]
    terms = Terms(
        peers.name,
        secrets.randbelow(MAX_LIFE) + 1,
        peers.fingerprint,
        layout=f"blocks of {config.block_bytes} bytes",
        transport=peers.transport.value,
        ranks=config.ledger.ranks,
        addresses=tuple(copier.describe() for copier in copiers),
        lease=peers.lease,
        renewals=peers.renewals,
        resend=peers.resend,
        patience=peers.patience,
        greeting=peers.greeting,
    )

    def wake() -> None:
        if kv.handoffs is not None:
            kv.handoffs.rung = True
        kv.inbox.wake()

    link = Link(peers.name, listen=address_of("listen", peers.listen), secret=peers.secret(), wake=wake)
    handoffs = Handoffs(
        Party(terms),
        kv.engine,
        copiers,
        link,
        pool=None if pool is None else pool[0],
        summed=config.integrity.value != "off",
        tell=kv.tell,
        serves=peers.serves,
    )
    for name, address in peers.known():
        link.meet(name, address)
        handoffs.party.greet(name)
    return handoffs, link
