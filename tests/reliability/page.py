"""docs/reliability.md: what was broken, what came of it, and what was lost and left. All of it is measured here.

python -m tests.reliability.page            break everything once, and write the page
python -m tests.reliability.page --check    is the page what came of it? (status 1 if not)
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kvstate.spec.site_words import table
from tests.objects.server import ENVIRONMENT, S3Server
from tests.reliability.cases import CASES, Case, Outcome, run
from tests.reliability.deaths import DEATHS, Found, die
from tests.reliability.stores import CASES as STORE_CASES
from tests.reliability.stores import run as run_store
from tests.reliability.stores import store_line
from tests.tidy.files import ROOT

PAGE = ROOT / "docs" / "reliability.md"
HEADS = "tier | does | stage | what happens | code | tries | told | lost | left"
STORE_HEADS = "does | stage | what happens | code | tries | told | lost | left"
DEATH_HEADS = "when it dies | recovered | removed | what it was storing | what was stored before | left"
TEXT = """# Reliability

What breaks below the ledger, and what comes of it. Each line was *measured*: a runtime with a device, a host and a disk
pool and known bytes in each was looked at, one thing was broken, one block was stored or loaded meanwhile, and
everything was looked at again: which keys are hits and where, whether the bytes are really theirs, which blocks are
held, which files there are. The page is made by the tests (`python -m tests.reliability.page`), and they fail when a
line is no longer true.

After each of these {count} faults, and this is part of what is checked: no load that was told to have come had other
bytes than its key's; what had nothing to do with it was where it had been, with its own bytes; the ledger was not
poisoned; and another store and load in either tier went well.

* **code** is the stable code of each failure, with the stage that it was told at, in the order of the tries. `UNKNOWN`
  keeps the code of the system: EIO, say, tells a dying disk from a pulled cable nowhere, so nothing is guessed.
* **tries**: how often it was tried, of two. What may work another time is tried again.
* **told**: what the request, or whoever stored, is told. Tokens that are not there are computed.
* **lost**: what was a hit before and is none any more, or has no bytes any more.
* **left**: blocks that were held when the request had its answer, and files that were begun. "until" says what ended
  it. Nothing else was left in any case.

"Lands late" and "called off" are copies that hang in the middle and go on after everybody has given them up.

{faults}

## A process that dies

Killed by SIGKILL there, with one block stored before. The next process opens the same folder.

{deaths}

What is stored stays a hit for a process with the same fingerprint. Power that fails is another matter: see `sync` in
[Disk tier](tiers.md).

## An object store

The same for [an object store](object-store.md): a real S3 server with a proxy before it that plays the network, a
device, a host and a store pool, and each of {store_count} faults struck while one block was stored, loaded or sought.
After each, what had nothing to do with it was got with its own bytes, another block was stored and got, and no block
was held by nobody.

{stores}

Each request is tried again by itself where that may help, and each attempt of a part makes it anew: *tries* counts the
attempts, of two. "Lost" is the object in the store; the next store of the key puts a good one there.
"""


def line(case: Case, found: Outcome) -> tuple[str, ...]:
    """One fault, as the page says it."""
    told = found.told
    codes = dict.fromkeys(f"`{error.code.name}` ({error.stage})" for error in told.errors)
    tries = max([error.attempt for error in told.errors], default=0)
    if case.does == "store":
        said = {"committed": "stored", "failed": "not stored", "cancelled": "called off"}[told.ending]
    else:
        said = f"{told.tokens} tokens" if told.tokens else "nothing cached"
    said += f"; {told.stale} stale report{'s' * (told.stale > 1)}" if told.stale else ""
    lost = sorted(found.before.hits - found.end.hits)
    return (
        case.tier, case.does, case.stage, case.kind, ", ".join(codes), str(tries or ""), said,
        ", ".join(f"“{key.decode()}” ({tier})" for tier, key in lost), _left(found),
    )  # fmt: skip


def _left(found: Outcome) -> str:
    """What was held or begun when the answer was there, and what ended it."""
    said = []
    for what, count in found.after.held.items():
        tier, state = what.split()
        until = "until it was proved over" if what not in found.end.held else "for ever"
        said.append(f"{count} {tier} block {state}, {until}")
    if found.after.unseen:
        until = "until its copy was over" if not found.end.unseen else "until the slot is used again, or the next start"
        said.append(f"1 file begun, {until}")
    return "; ".join(said)


def death_line(where: str, found: Found) -> tuple[str, ...]:
    """One death, as the page says it."""
    return (
        where, f"{found.recovered}", f"{found.removed}", "a hit" if found.victim else "absent",
        "a hit" if found.safe else "absent", f"{found.left}" if found.left else "",
    )  # fmt: skip


def measured() -> str:
    """The page as everything that is broken now gives it."""
    with tempfile.TemporaryDirectory() as folder:
        faults = [line(case, run(case, Path(folder) / str(number))) for number, case in enumerate(CASES)]
        deaths = [death_line(where, die(where, Path(folder) / f"death-{place}")) for place, where in enumerate(DEATHS)]
        os.environ.update(ENVIRONMENT)
        with S3Server(Path(folder) / "s3") as server:
            stores = [store_line(case, run_store(case, server)) for case in STORE_CASES]
    return page(faults, deaths, stores)


def page(
    faults: Sequence[tuple[str, ...]], deaths: Sequence[tuple[str, ...]], stores: Sequence[tuple[str, ...]]
) -> str:
    """The whole page."""
    return TEXT.format(
        count=len(faults), faults=table(HEADS, faults), deaths=table(DEATH_HEADS, deaths),
        store_count=len(stores), stores=table(STORE_HEADS, stores),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.page")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if the page is another")
    check = parser.parse_args().check
    text = measured()
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)} is not what comes of these faults: run python -m tests.reliability.page")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
