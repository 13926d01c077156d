"""The beginning of a search, made with the commands of a scenario; a counterexample is played on the same stage.

So the tokens, jobs and blocks of a search have the numbers that they have in the scenario that tells of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvstate.explore.scopes import Scope
from kvstate.explore.world import World, begin
from kvstate.machines.books import Tables
from kvstate.machines.cascade import ActRow, Coupling
from kvstate.machines.config import LedgerConfig
from kvstate.machines.ledger import ACTS, COUPLINGS, Ledger
from kvstate.machines.policy import LRU
from kvstate.machines.tables import TABLES
from kvstate.testing import engine, hints, kept, mishaps, requests, show, world  # noqa: F401  they register commands
from kvstate.testing.commands import perform
from kvstate.testing.names import Names
from kvstate.testing.physics import Physics
from kvstate.testing.stage import Play, Stage
from kvstate.testing.telling import Recorder


class Rules(NamedTuple):
    """What a ledger runs on; without anything else what ships."""

    machines: Tables = TABLES
    couplings: Sequence[Coupling] = COUPLINGS
    acts: Sequence[ActRow] = ACTS


class RuledStage(Stage):
    """A stage whose ledgers run on these rules: on other tables, and on other lines of `coupling.toml`, too."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules.machines)
        self.rules = rules

    def begin(self, config: LedgerConfig, blocks: list[str]) -> None:
        """As any stage's."""
        play = Play(config, blocks, self.tables, self.fired)
        machines, couplings, acts = self.rules
        play.ledger = Ledger(config, machines=machines, couplings=couplings, acts=acts, policy=LRU)
        play.names = Names(play.ledger.books, blocks)
        play.physics = Physics(play.names)
        play.recorder = Recorder(play.ledger, play.names, self.fired)
        self.current = play


def opening(scope: Scope) -> list[str]:
    """The commands that a search of the scope begins with."""
    given = [f"given {scope.given} in host"] if scope.given else []
    return [scope.ledger, *given, *([f"others have {scope.others}"] if scope.others else [])]


def begun(scope: Scope, rules: Rules) -> tuple[Ledger, World, tuple[str, ...], list[str]]:
    """The ledger, the world, the names of the blocks, and the commands that made them."""
    stage = RuledStage(rules)
    lines = opening(scope)
    for line in lines:
        perform(stage, line)
        stage.play.harvest(rows=False)
    play = stage.play
    ledger = play.ledger
    for port in ledger.core.ports.ports.values():
        port.sink = None
        port.fired[:] = [0] * len(port.fired)
    foreign = ledger.books.engine.count
    around = begin(scope, ledger.books.total, ledger.config.groups, ledger.config.ranks, foreign)
    around.objects.blocks = play.physics.objects.blocks
    around.others.blocks = play.physics.others.blocks
    around.others.has = {key.decode(): content.key for (_, (_, key)), content in play.physics.others.has.items()}
    for (rank, block), content in play.physics.contents.items():
        cell = around.cells(block)[rank]
        around.contents[cell] = content.key if content.by else around.contents[cell]
    return ledger, around, play.names.blocks, lines
