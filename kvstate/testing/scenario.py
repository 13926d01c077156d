"""Text scenarios: commands, a line, the machine's answer; read, played and rewritten.

The format, in the manner of etcd's datadriven tests:

    # I08: The load that landed on somebody else
    #
    # Story: Landing on a freed block
    # Rows: B21 B37
    #
    # 1. What happens first, with names.

    # Step 1. Why the next lines stand here.
    open r1
    lookup r1 K1
    ----
    r1/1 is open
    r1/1 hits K1 in h3@0: 16 tokens; to load: K1

A file begins with its title. Lines that begin with `#` are narration; some of those before the first block are fields
(`Rows: ...`). A block is some command lines, a line `----`, and what the commands answered: for each an answer, then
indented every row that fired with what it changed, the effects that went down (`send`) and the verdicts that went up
(`tell`). A block that begins with the word `quietly` leaves the rows out. A blank line ends a block.

Playing a file runs its commands on a real ledger and gives the text as it should be. What is pinned is not all that is
checked: after every command the books are audited and the bytes looked at, so a broken law shows whatever the file says
(a line `BROKEN ...`, and a problem of its own), as does a poisoned ledger that the file does not expect. The rows that
the field `Rows` names must have fired.

With KV groups (`ledger device=b7,b8 host=h3 groups=full:2,slide:1:3`: name, tokens in a block, and a window where there
is one) every key says its group: `lookup r1 full:K1 slide:W1 slide:W2`.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvstate.machines.books import Tables
from kvstate.machines.tables import TABLES
from kvstate.testing import engine, hints, kept, mishaps, requests, show, tiers, world  # noqa: F401  they register commands
from kvstate.testing.commands import perform
from kvstate.testing.names import Mistake
from kvstate.testing.stage import Stage

LINE = "----"
"""Stands between commands and their answers."""
QUIETLY = "quietly"
"""The word that a block begins with whose rows are left out."""
FIELD = re.compile(r"([A-Z][a-z]+): (.+)")
"""A line of narration that is a field."""


class ScenarioError(ValueError):
    """A scenario that can't be played, in one sentence with file and line."""

    def __init__(self, name: str, line: int, sentence: str) -> None:
        super().__init__(f"{name}:{line}: {sentence}")


@dataclass(frozen=True)
class Block:
    """Commands with their line numbers, and the answer that the file gives."""

    commands: tuple[tuple[int, str], ...]
    """Line number and text of each."""
    answer: tuple[str, ...]
    quiet: bool
    """Are rows left out?"""
    said: str
    """The narration right above it."""


@dataclass(frozen=True)
class Scenario:
    """A file that was read. `parts` are its lines of narration, and blocks, in order."""

    name: str
    """What messages call it."""
    title: str
    """Its first line."""
    fields: dict[str, str]
    """`Rows: B21 B37` is the field `Rows`."""
    story: str
    """The narration before the first block."""
    parts: tuple[str | Block, ...]

    @property
    def blocks(self) -> list[Block]:
        """Its parts without the narration."""
        return [part for part in self.parts if isinstance(part, Block)]


@dataclass(frozen=True)
class Played:
    """What came of it."""

    text: str
    """The file as it should be."""
    problems: tuple[str, ...]
    """Laws that were broken, rows that did not fire, a poison that was not expected: sentences with file and line."""
    fired: Counter[str]
    """Row id: how often it fired."""


def parse(text: str, name: str) -> Scenario:
    """Read a scenario; raises `ScenarioError` for what is no scenario."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith("# "):
        raise ScenarioError(name, 1, "a scenario begins with its title, in a line `# Title`")
    parts: list[str | Block] = []
    said: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("#") or not line.strip():
            said = [*said, line.removeprefix("#").strip()] if line.strip() else []
            parts.append(line)
            number += 1
            continue
        block, number = _block(lines, number, name, " ".join(said))
        parts.append(block)
        said = []
    first = next((place for place, part in enumerate(parts) if isinstance(part, Block)), len(parts))
    head = [part.removeprefix("#").strip() for part in parts[:first] if isinstance(part, str)]
    found = [match for line in head[1:] if (match := FIELD.fullmatch(line))]
    fields = {match[1]: match[2] for match in found}
    return Scenario(name, head[0], fields, "\n".join(head), tuple(parts))


def _block(lines: list[str], start: int, name: str, said: str) -> tuple[Block, int]:
    end = start
    while end < len(lines) and lines[end].strip():
        end += 1
    if LINE not in lines[start:end]:
        raise ScenarioError(name, start + 1, f"commands end with a line `{LINE}`, and narration begins with `#`")
    middle = lines.index(LINE, start)
    commands = [(place + 1, lines[place].strip()) for place in range(start, middle)]
    quiet = bool(commands) and commands[0][1] == QUIETLY
    commands = commands[1:] if quiet else commands
    if not commands:
        raise ScenarioError(name, start + 1, "there is no command in this block")
    return Block(tuple(commands), tuple(lines[middle + 1 : end]), quiet, said), end


def play(scenario: Scenario, *, machines: Tables = TABLES, stage: Stage | None = None) -> Played:
    """Run every command on a ledger over these machines; raises `ScenarioError` for a command that can't be played.

    A `stage` that nothing was played on yet takes the place of one over these machines.
    """
    stage = Stage(machines) if stage is None else stage
    problems: list[str] = []
    lines: list[str] = []
    last = 1
    for part in scenario.parts:
        if isinstance(part, str):
            lines.append(part)
            continue
        lines += [*([QUIETLY] if part.quiet else []), *(command for _, command in part.commands), LINE]
        for last, command in part.commands:
            try:
                answer = perform(stage, command)
            except Mistake as mistake:
                raise ScenarioError(scenario.name, last, str(mistake)) from None
            answer += stage.play.harvest(rows=not part.quiet)
            problems += [f"{scenario.name}:{last}: {line}" for line in answer if line.startswith("BROKEN")]
            lines += answer
    problems += [f"{scenario.name}:{last}: {sentence}" for sentence in _end(scenario, stage)]
    return Played("\n".join(lines) + "\n", tuple(problems), stage.fired)


def _end(scenario: Scenario, stage: Stage) -> Iterator[str]:
    current = stage.current
    fatal = current.ledger.fatal if current is not None else None
    if current is not None and fatal is not None and not stage.expects_fatal:
        yield f"the ledger is poisoned: {fatal.law}: {current.names.text(fatal.sentence)}"
    if fatal is None and stage.expects_fatal:
        yield "the ledger should be poisoned in the end, and is not"
    for row in scenario.fields.get("Rows", "").replace(",", " ").split():
        if not stage.fired[row]:
            yield f"row {row} is among the rows that answer, and did not fire"


def check(path: Path, *, rewrite: bool = False, machines: Tables = TABLES) -> str:
    """Play a file; returns why it does not hold, with a diff, or nothing if it does.

    With `rewrite` the answers in the file are replaced by those of the machine; a broken law is a failure all the same.
    """
    text = path.read_text(encoding="utf-8")
    played = play(parse(text, path.name), machines=machines)
    if rewrite and played.text != text:
        path.write_text(played.text, encoding="utf-8")
        text = played.text
    names = f"{path.name} as it is", f"{path.name} as it was played"
    diff = difflib.unified_diff(text.splitlines(), played.text.splitlines(), *names, lineterm="")
    return "\n".join([*played.problems, *diff])
