"""Prints docs/mutation.md from the last run over all mutants: `python -m kvstate.mutation.page [--check]`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from kvstate.mutation import checkout
from kvstate.mutation.code import KIND
from kvstate.mutation.kills import MEANS, Result
from kvstate.mutation.mutants import KINDS
from kvstate.mutation.results import FILE, Known, Results, known, read

PAGE = Path("docs/mutation.md")
"""The page, from the root of a checkout."""
_HEAD = """\
# Mutation: what would be noticed

A *mutant* is kvstate with one fault in it. For each of them something has to fail: a check that never fails on anything
proves nothing. `kvstate mutate` plants the faults one at a time and says what notices each; this page is printed from
its last run over all of them ({data}), which was made of spec {spec}, kvstate {kvstate}. How to
run it stands in [Commands](commands.md#kvstate-mutate).

## The spec

Every row is deleted, leads to each other state, leaves out each of its effects, says each two neighbours among them the
other way round, loses its guard, a part of it, or has the opposite one, and leaves out each of its changes; every
coupling and every act is deleted. The checks are asked from the cheapest to the dearest, and the first that fails is
told:

| means | what fails |
|---|---|
| loader | a static rule: the spec would be refused as it is read |
| rows | a law that is read off the rows (`kvstate/spec/laws.py`) |
| z3 | guards overlap, a report has a gap, a row can't fire, or breaks the invariant of a state |
| explorer | a law is broken in a small scope, on the ledger itself |
| scenario | an incident goes another way: a law is broken, or an answer is not the one that is pinned |
| theorem | something is not proved any more for any number of records |
| walk | a random walk of the stateful suite breaks a law |
| count | no law is broken, but a small scope has another state graph than the one of what ships: weaker than a law |

*Harmless* is a mutant with which nothing comes out differently: z3 shows that the row does the same wherever the
invariants of its states hold, or every small scope that fires the row, searched to its end, has the same states and
moves, and the same is sent down and told on each of them, or it is shown that nothing fires the row
(`kvstate/mutation/unfired.py`). A *survivor* is one that nothing notices and that was not shown to be harmless.
What breaks no law and is told otherwise is pinned by a scenario; those of `tests/scenarios/choices` are there for that.
"""


def tally(found: Iterable[Result]) -> list[tuple[str, ...]]:
    """A line for each kind, and one for all: the kind, how many, by what they were killed, harmless, survived."""
    found = list(found)
    lines = []
    for kind in [*dict.fromkeys(one.kind for one in found), "all"]:
        those = [one for one in found if kind in (one.kind, "all")]
        means = Counter(one.killed_by[0].means for one in those if one.killed_by)
        verdicts = Counter(one.verdict for one in those)
        numbers = [len(those), *(means[word] for word in MEANS), verdicts["harmless"], verdicts["survived"]]
        lines.append((kind, *(f"{number:,}" if number else "" for number in numbers)))
    return lines


def page(results: Results, listed: Known) -> str:
    """The text of the page."""
    parts = [_HEAD.format(data=f"`{FILE}`", spec=results.spec, kvstate=results.kvstate)]
    by_kind = sorted(results.mutants, key=lambda one: KINDS.index(one.kind))
    parts.append(_table(("what was done", "mutants", *MEANS, "harmless", "survived"), tally(by_kind)))
    laws = Counter(kill.law.partition(".")[0] for one in results.mutants for kill in one.killed_by[:1] if kill.law)
    parts.append(f"\nThe law that was seen broken, where one was named: {_counts(laws)}.\n")
    harmless = [one for one in results.mutants if one.verdict == "harmless"]
    parts.append(f"\n### Harmless\n\n{_list((one.name, one.note) for one in harmless)}")
    parts.append(f"\n### Survivors\n\n{_list((name, why) for name, why in listed.survivors.items())}")
    parts.append(f"\n### Former survivors\n\n{_FORMER}\n\n{_list(listed.former.items())}")
    parts.append(f"\n## The code\n\n{_CODE}\n\n{_table(('fault', 'where', 'law', 'walk'), _faults(results.code))}")
    unseen = [(one.name, one.note) for one in results.code if one.verdict == "survived"]
    parts.append(f"\nNot noticed, each for its reason:\n\n{_list(unseen)}")
    return "".join(parts)


_FORMER = """\
Nothing noticed these once. Each says what was found missing; they are tried with every sample."""
_CODE = """\
Planted by hand in the ledger, the engine and the copiers (`tests/stateful/faults.py`). Each is found by a walk of the
stateful suite, which says what law it saw broken; a test holds that the law is one that is about the fault."""


def _counts(laws: Counter[str]) -> str:
    return ", ".join(f"{law} {laws[law]:,}" for law in sorted(laws, key=lambda law: int(law[1:])))


def _faults(code: Iterable[Result]) -> list[tuple[str, ...]]:
    killed = [one for one in code if one.kind == KIND and one.killed_by]
    return [(one.name, one.machine, one.killed_by[0].law, one.killed_by[0].what) for one in killed]


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *rows]) + "\n"


def _list(entries: Iterable[tuple[str, str]]) -> str:
    """A line for each; those with one reason stand together."""
    names: dict[str, list[str]] = {}
    for name, why in entries:
        names.setdefault(" ".join(why.split()), []).append(name)
    lines = [f"* {', '.join(f'`{name}`' for name in those)}: {why}\n" for why, those in names.items()]
    return "".join(lines) or "None.\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; with `--check` only say, by the status 1, that it is not what the results give."""
    parser = argparse.ArgumentParser(prog="python -m kvstate.mutation.page", description="Print docs/mutation.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is stale")
    check: bool = parser.parse_args(arguments).check
    root = checkout.here().root
    text = page(read(root / FILE), known())
    if check and (root / PAGE).read_text(encoding="utf-8") != text:
        print(f"{PAGE} is not what {FILE} says; run `python -m kvstate.mutation.page`", file=sys.stderr)
        return 1
    if not check:
        (root / PAGE).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
