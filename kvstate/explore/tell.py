"""A counterexample as a scenario file, in the format of `kvstate.testing.scenario`, ready to be kept.

The moves are made once more and give the commands; the commands are then played on a stage of the scenario runner, on
the same rules, and what the ledger answers stands below each. The runner has a world of its own, with eyes of its own:
where it sees the same law broken, the file has a line `BROKEN` or ends with a poisoned ledger. Where it does not (it
does not wait for what never comes), the title alone says what is wrong.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from kvstate.explore.home import comes_home
from kvstate.explore.matter import LawBroken
from kvstate.explore.moves import System
from kvstate.explore.scopes import Scope
from kvstate.explore.search import Counterexample
from kvstate.explore.stage import RuledStage, Rules, opening
from kvstate.testing.commands import perform
from kvstate.testing.names import Mistake
from kvstate.testing.scenario import LINE

WIDTH = 118
"""Columns of a sentence in the file, without its mark."""


class Told(NamedTuple):
    """A counterexample in words."""

    commands: tuple[tuple[str, ...], ...]
    """For each move: the commands that are the same."""
    text: str
    """The scenario file."""
    confirmed: bool
    """Did the scenario runner see a law broken, too?"""


def tell(scope: Scope, rules: Rules, found: Counterexample) -> Told:
    """Make the scenario of a counterexample."""
    commands = _commands(scope, rules, found)
    blocks, sentences = _played(rules, [tuple(opening(scope)), *commands])
    head = [f"# {scope.name}: {found.law}", "#", f"# Scope: {scope.title}", "#"]
    said = f"{found.law}: {found.sentence}"
    head += [f"# {line}" for line in textwrap.wrap(said, WIDTH)]
    if found.home:
        head += ["#", "# Seen when nothing more is asked, the time runs, and at last everything is proved over."]
    return Told(commands, "\n".join([*head, "", *blocks]), bool(sentences))


def _commands(scope: Scope, rules: Rules, found: Counterexample) -> tuple[tuple[str, ...], ...]:
    """Make the moves once more, and go home if that is where it breaks."""
    system = System(scope, rules)
    commands: list[tuple[str, ...]] = []
    system.said = lambda lines: commands.append(tuple(lines))
    try:
        for move in found.moves:
            system.do(move)
        if found.home:
            comes_home(system)
    except LawBroken:
        pass  # that is where it ends
    return tuple(commands)


def _played(rules: Rules, commands: list[tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """The blocks of the file, and what the runner saw broken."""
    stage = RuledStage(rules)
    text: list[str] = []
    broken: list[str] = []
    for number, lines in enumerate(commands):
        named = list(_named(stage, lines))
        text += [f"# Step {number}."] if number else ["quietly"]
        answer: list[str] = []
        for line in named:
            try:
                answer += perform(stage, line)
            except Mistake as mistake:  # the runner's world is stricter about what can happen
                answer.append(f"BROKEN {mistake}")
            answer += stage.play.harvest(rows=number > 0)
        broken += [line for line in answer if line.startswith("BROKEN")]
        text += [*named, LINE, *answer, ""]
    fatal = stage.play.ledger.fatal
    if fatal is not None:
        broken.append(fatal.sentence)
    return text, broken


def _named(stage: RuledStage, lines: tuple[str, ...]) -> Iterator[str]:
    """`cancel job 7` as the scenario names it: `cancel j1`."""
    for line in lines:
        verb, *words = line.split()
        if verb == "cancel":
            name = stage.play.names.job if words[0] == "job" else stage.play.names.load
            yield f"cancel {name(int(words[1]))}"
        else:
            yield line
