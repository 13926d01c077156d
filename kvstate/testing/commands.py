"""How a command of a scenario is written, found and read. What the commands do is in `requests` and `world`.

Errors: everything here raises `Mistake` for a line that is no command or does not have the words that it needs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from kvstate.testing.names import Mistake
from kvstate.testing.stage import Stage

Action = Callable[[Stage, "Words"], list[str]]
"""Does a command on a stage and returns the lines of its answer."""


@dataclass(frozen=True)
class Command:
    """One verb: how it is used, what it does in a sentence, and the function that does it."""

    usage: str
    """As a reader writes it: `fence SERIAL`."""
    summary: str
    """The first line of the function's docstring."""
    options: frozenset[str]
    """What may be given as `option=value`."""
    fewest: int
    """How many other words it takes at least, and `most` how many at most."""
    most: int
    action: Action
    """Called with the stage and the words after the verb."""


class Words:
    """The words after the verb: those in order, and those of the form `option=value`."""

    def __init__(self, command: Command, words: list[str]) -> None:
        self.usage = command.usage
        self.options = dict(word.split("=", 1) for word in words if word.partition("=")[0] in command.options)
        self.list = [word for word in words if word.partition("=")[0] not in command.options]
        if not command.fewest <= len(self.list) <= command.most:
            raise self.wrong("it has too few words" if len(self.list) < command.fewest else "it has too many words")

    def wrong(self, what: str) -> Mistake:
        """What to raise: this is wrong, and that is how the command is written."""
        return Mistake(f"{what}; it is written `{self.usage}`")

    def take(self) -> str:
        """The next word."""
        if not self.list:
            raise self.wrong("it has too few words")
        return self.list.pop(0)

    def rest(self) -> list[str]:
        """All words that are left."""
        words, self.list = self.list, []
        return words

    def keyword(self, word: str) -> None:
        """The next word has to be this one."""
        found = self.take()
        if found != word:
            raise self.wrong(f"{found} stands where {word} should be")

    def number(self, word: str) -> int:
        """The word as a whole number, 0 or more."""
        if not word.isdecimal():
            raise self.wrong(f"{word} is not a number")
        return int(word)

    def seconds(self, word: str) -> float:
        """The word as seconds, 0 or more and not without end."""
        try:
            found = float(word)
        except ValueError:
            found = -1.0
        if not 0 <= found < float("inf"):
            raise self.wrong(f"{word} is not a number of seconds")
        return found

    def pairs(self) -> list[tuple[str, str]]:
        """All words that are left, each of the form `b7=K1`."""
        found: list[tuple[str, str]] = []
        for word in self.rest():
            left, sign, right = word.partition("=")
            if not (left and sign and right):
                raise self.wrong(f"{word} is not of the form b7=K1")
            found.append((left, right))
        return found


COMMANDS: dict[str, Command] = {}
"""Every command by its verb."""


def command(usage: str, *, options: str = "", fewest: int = 0, most: int = 99) -> Callable[[Action], Action]:
    """Register the function below as the command whose usage begins with its verb; the docstring is its summary."""

    def register(action: Action) -> Action:
        verb = usage.split(maxsplit=1)[0]
        summary = (action.__doc__ or "").strip()
        COMMANDS[verb] = Command(usage, summary, frozenset(options.split()), fewest, most, action)
        return action

    return register


def perform(stage: Stage, line: str) -> list[str]:
    """Do one command; returns its answer, without what the ledger did."""
    verb, *words = line.split()
    found = COMMANDS.get(verb)
    if found is None:
        near = difflib.get_close_matches(verb, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(COMMANDS))}"
        raise Mistake(f"there is no command {verb}; {hint}")
    return found.action(stage, Words(found, words))
