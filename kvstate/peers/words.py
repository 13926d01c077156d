"""What a party is told and what it says: plain values, as those of the ledger.

To the caller go *actions*, in order. To other processes go *messages*; what each of them means stands in
`docs/handoff.md`. A *handoff* is an offer of blocks from one process to another and all that becomes of it. It has one
name on both sides: the life of the producer and a number that the producer minted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from kvstate.errors.codes import Code
from kvstate.machines.messages import Report, Token

MAX_LIFE: Final = 2**63 - 1
"""Lives are whole numbers from 1 to this."""


class Handoff(NamedTuple):
    """The name of an offer: the `life` of the process that made it, and its `number` there, from 1."""

    life: int
    number: int


class Goods(NamedTuple):
    """What is offered: sealed blocks of the producer, line by line, for one request.

    No lines at all is an offer too: it says that blocks for this request will come, so that an abort before the first
    of them is an end for both sides.
    """

    request: bytes
    """What the caller on the other side knows the request by."""
    tokens: int
    """How many tokens of the prompt the blocks are for."""
    spaces: tuple[str, ...] = ()
    """The key space of each line; one word stands for all."""
    keys: tuple[bytes, ...] = ()
    """The key of each line."""
    blocks: tuple[int, ...] = ()
    """The producer's number of each block, alike on all its ranks."""
    generations: tuple[int, ...] = ()
    """The life that each of these blocks is in."""
    seals: tuple[tuple[bytes, ...], ...] = ()
    """The checksums of each rank's pieces, rank by rank and line by line, at most `MAX_SEAL` bytes each; nothing where
    integrity is off."""

    def space(self, line: int) -> str:
        """The key space of that line."""
        return self.spaces[line if len(self.spaces) > 1 else 0]


class Source(NamedTuple):
    """What a handle of the shared pool stands for: that `line` of the goods of a `handoff`."""

    handoff: Handoff
    line: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What a party says of its process, and how patient it is. Times are in seconds.

    Errors: `ValueError` with a sentence for a value that can't be.
    """

    name: str
    """As its peers address it."""
    life: int
    """Another number for every process, drawn by chance, from 1 to `MAX_LIFE`."""
    fingerprint: str
    """Of model and weights; peers with another one are refused."""
    layout: str = ""
    """How a block's bytes lie; likewise."""
    transport: str = ""
    """By what means bytes go; likewise."""
    ranks: int = 1
    """How many workers hold a piece of each block; likewise."""
    addresses: tuple[bytes, ...] = ()
    """Where each rank's transport is found, in the transport's own words; nothing, or one for each rank."""
    lease: float = 30.0
    """How long offered blocks are held."""
    renewals: int = 4
    """How often that may be extended."""
    resend: float = 0.2
    """After so long without an answer a message is sent again."""
    patience: float = 2.0
    """For so long at most it is sent again, and a copy waits for the producer's word."""
    greeting: float = 10.0
    """For so long a peer is greeted that does not answer."""

    def __post_init__(self) -> None:
        for what, low, high in (("life", 1, MAX_LIFE), ("ranks", 1, MAX_RANKS), ("renewals", 0, MAX_RENEWALS)):
            number: object = getattr(self, what)
            if not isinstance(number, int) or not low <= number <= high:
                raise ValueError(f"{what} must be a whole number from {low} to {high}, not {number!r}")
        for what in ("name", "fingerprint", "layout", "transport"):
            word: object = getattr(self, what)
            if not isinstance(word, str) or len(word) > MAX_TEXT or not word.isprintable():
                raise ValueError(f"{what} must be a printable text of at most {MAX_TEXT} signs, not {word!r}")
        if not self.name or not self.fingerprint:
            raise ValueError(
                f"a party needs a name and a fingerprint; these are {self.name!r} and {self.fingerprint!r}"
            )
        if len(self.addresses) not in (0, self.ranks) or any(len(one) > MAX_ADDRESS for one in self.addresses):
            raise ValueError(f"there must be an address of at most {MAX_ADDRESS} bytes for each of {self.ranks} ranks")
        for what in ("lease", "resend", "patience", "greeting"):
            if not 0 < getattr(self, what) < MAX_SECONDS:
                raise ValueError(f"{what} must be more than 0 and less than {MAX_SECONDS} seconds")


MAX_SEAL: Final = 64
"""Bytes of a checksum."""
MAX_TEXT: Final = 1024
"""Signs of a name or a fingerprint."""
MAX_ADDRESS: Final = 65_536
"""Bytes of the address of a rank."""
MAX_RANKS: Final = 1024
MAX_RENEWALS: Final = 1000
"""`MAX_RANKS` and this: the bounds within which the rows are proved."""
MAX_SECONDS: Final = 10**6
"""Of any wait."""


# --- Messages -------------------------------------------------------------------------------------------------------


class Hello(NamedTuple):
    """Who a process is: the first thing that is said, and what it says in answer to another hello. `layout`,
    `transport`, `ranks` and `addresses` are as in `Terms`."""

    fingerprint: str
    """This and the four below as in `Terms`."""
    layout: str
    transport: str
    ranks: int
    addresses: tuple[bytes, ...]
    challenge: int
    """A number that the answer has to echo."""
    echo: int
    """The last challenge that was heard of the one this goes to; 0 before there was any."""
    asks: bool
    """Does it want an answer?"""


class Offer(NamedTuple):
    """These `goods` are held for you for `lease` seconds. What has a `number` below `floor` is over."""

    number: int
    floor: int
    lease: float
    goods: Goods


class Word(NamedTuple):
    """All that needs no more than the name of a handoff: what is said, and of which one."""

    say: str
    """One of `SAYS`."""
    life: int
    """This and `number` are the handoff."""
    number: int
    nonce: int = 0
    """The number of a question, in it and in its answer."""
    code: int = 0
    """Why, where there is a reason."""


class Bye(NamedTuple):
    """This process ends, or no longer takes the other one for what it says that it is."""


Message = Hello | Offer | Word | Bye
"""What one party says to another."""

TO_CONSUMER: Final = ("withdrawn", "vouch", "deny", "renewed", "over")
"""What the producer of a handoff says of it."""
TO_PRODUCER: Final = ("received", "check", "renew", "taken", "refused", "void")
"""What its consumer says of it."""
SAYS: Final = (*TO_CONSUMER, *TO_PRODUCER)
"""Both."""


class Letter(NamedTuple):
    """A message with who sent it to whom: a process by its name and life, the other by its life (0: whoever it is)."""

    name: str
    life: int
    to: int
    message: Message


class Out(NamedTuple):
    """Bytes (`data`) for a peer, by its name. They may get lost, come twice, or late."""

    peer: str
    data: bytes


# --- Actions --------------------------------------------------------------------------------------------------------


class LetGo(NamedTuple):
    """Producer: report the hold of this handoff done. Once for each."""

    handoff: Handoff
    hold: Token | None
    """As it came with the offer."""


class Announce(NamedTuple):
    """Consumer: route handles to these goods of the peer and have the ledger name them; then say `announced`."""

    handoff: Handoff
    peer: str
    goods: Goods


class Vanish(NamedTuple):
    """Consumer: these lines of the goods are no hits any more. Only those that were announced."""

    handoff: Handoff
    lines: tuple[int, ...]


class Forward(NamedTuple):
    """Consumer: this report is for the ledger now."""

    report: Report


LendEnd = Literal["delivered", "returned", "withdrawn", "expired", "lost"]
"""How a handoff ends for its producer."""
BorrowEnd = Literal["taken", "refused", "withdrawn", "expired", "lost"]
"""How it ends for its consumer."""


class Ended(NamedTuple):
    """The one verdict of this side on a handoff with a `peer`: how it came to its `end`."""

    handoff: Handoff
    side: Literal["lend", "borrow"]
    """Did this side lend the blocks, or borrow them?"""
    peer: str
    request: bytes
    end: LendEnd | BorrowEnd
    code: Code | int
    """Why; 0 where there is nothing to say (delivered, taken)."""
    vouched: bool
    """May the consumer have committed something of it? False is certain; on the producer's side True with any other
    end than delivered is doubt."""


class Met(NamedTuple):
    """This life of a peer is alive and speaks as we do. Its `hello` has the addresses of its ranks."""

    peer: str
    life: int
    hello: Hello


class Strange(NamedTuple):
    """This life of a peer can't be dealt with: `code` says in what it differs, `sentence` how."""

    peer: str
    life: int
    code: Code
    sentence: str


class Gone(NamedTuple):
    """Nothing more is expected of this life of a peer, for the reason `code`: its transport can be torn down."""

    peer: str
    life: int
    """0 where none was ever heard."""
    code: Code


Action = LetGo | Announce | Vanish | Forward | Ended | Met | Strange | Gone
"""What the caller is to do, or is told."""
