"""One scenario in play: a real ledger, the physics around it, the names, and what has been said so far."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kvstate.machines.audit import audit
from kvstate.machines.books import Tables
from kvstate.machines.config import LedgerConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Work
from kvstate.machines.policy import LRU
from kvstate.machines.tables import TABLES
from kvstate.machines.verdicts import Hit, LoadVerdict, Refusal, Verdict
from kvstate.testing.groups import promised
from kvstate.testing.names import Mistake, Names
from kvstate.testing.physics import Physics
from kvstate.testing.telling import Recorder, effect_line, verdict_lines
from kvstate.tiering import TierConfig, Tiering


class Line(NamedTuple):
    """One block of a load: its place in the prefix, where it goes, and whose bytes it should hold then.

    `space` is the namespace of `key`.
    """

    place: tuple[int, int]
    """Its group (0 where there are none), and its place among the blocks of that."""
    block: int
    space: str
    key: bytes


class Play:
    """The ledger of a scenario and all that stands around it; made by the command `ledger`."""

    def __init__(self, config: LedgerConfig, blocks: list[str], tables: Tables, fired: Counter[str]) -> None:
        self.ledger = Ledger(config, machines=tables, policy=LRU)  # a reader can tell by hand what it evicts
        self.names = Names(self.ledger.books, blocks)
        self.physics = Physics(self.names)
        self.recorder = Recorder(self.ledger, self.names, fired)
        self.hits: dict[int, Hit] = {}
        """The last hit of each lease."""
        self.loading: dict[int, list[Line]] = {}
        self.tiers: tuple[TierConfig, ...] = ()
        self.tiering: Tiering | None = None
        """What is stored where, if the scenario says so; `tiers` are its settings."""
        self.verdicts: list[Verdict] = []
        """What was told and the tiers have not heard yet."""
        self.complained: set[str] = set()
        """What has been said of broken laws; it is said once."""
        self.engine_gave: dict[int, int] = {}
        """Where the engine allocates by itself: the lease of the request that it gave each block to."""
        self.meddled = False
        """Did the scenario itself write into the books? Then an audit has nothing new to say."""
        self.now = 0.0

    def harvest(self, *, rows: bool) -> list[str]:
        """What the ledger did since the last time: rows, effects, verdicts, each in its order; and broken laws."""
        names = self.names
        fired, self.recorder.lines = self.recorder.lines, []
        lines = fired if rows else []
        effects = self.ledger.take_effects()
        lines += [effect_line(names, effect) for effect in effects]
        self.physics.tended(effects)
        self.physics.sent([effect for effect in effects if isinstance(effect, Work)])
        broken: list[str] = []
        for verdict in self.ledger.take_verdicts():
            lines += verdict_lines(names, verdict)
            self.verdicts.append(verdict)
            broken += self._believed(verdict)
        broken += self.physics.look()
        if self.ledger.fatal is None and not self.meddled:
            broken += audit(self.ledger)
        return [f"  {line}" for line in lines] + self.complain(broken)

    def complain(self, broken: list[str]) -> list[str]:
        """Lines for laws that were found broken, except those that there were lines for before."""
        new = [law for law in map(self.names.text, broken) if law not in self.complained]
        self.complained.update(new)
        return [f"BROKEN {law}" for law in new]

    def _believed(self, verdict: Verdict) -> list[str]:
        """Law L5: what the verdict promises is there."""
        if not isinstance(verdict, LoadVerdict):
            return []
        name = self.names.load(verdict.load)
        return [
            f"L5.proceed: {name} promises {line.key.decode()}, {self._in(line.block)}"
            for line in self.loading.pop(verdict.load, [])
            if promised(verdict, *line.place) and not self.physics.holds(line.block, line.space, line.key)
        ]

    def found(self, lease: int, hit: Hit) -> list[str]:
        """Law L9: a hit is a claim on the bytes of exactly that key."""
        space = self.names.leases[lease].space
        broken = [
            f"L9.bytes: {key.decode()} is a hit, {self._in(ref.block)}"
            for ref, key in zip(hit.blocks, hit.keys, strict=True)
            if ref.block not in self.physics.others.blocks and not self.physics.holds(ref.block, space, key)
        ]
        return self.complain(broken)

    def _in(self, block: int) -> str:
        return f"and {self.names.block(block)} holds {self.physics.all_of(block)}"

    def refused(self, answer: Refusal) -> str:
        """The line for a refusal, with the names of the scenario."""
        return f"refused: {self.names.text(answer.reason)}"


class Stage:
    """What the commands of one file share."""

    def __init__(self, tables: Tables = TABLES) -> None:
        self.tables = tables
        self.fired: Counter[str] = Counter()
        """How often each row has fired, over all ledgers of the file."""
        self.expects_fatal = False
        self.current: Play | None = None

    @property
    def play(self) -> Play:
        """The ledger that is played now. Errors: `Mistake` before the first command `ledger`."""
        if self.current is None:
            raise Mistake("there is no ledger yet; a scenario begins with `ledger device=b7,b8 host=h3`")
        return self.current

    def begin(self, config: LedgerConfig, blocks: list[str]) -> None:
        """A new ledger, in a new world; what was before is over."""
        self.current = Play(config, blocks, self.tables, self.fired)
