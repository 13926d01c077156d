"""All that is proved of the data for any number of records, by name: what `kvstate prove` runs.

Each theorem is a claim about the *model*, that is, about the files of `spec/`; the module that proves it says what is
modelled and what is abstracted. An empty list of findings is the proof. That its assumptions can be met is part of
each: a step that can't happen under them is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvstate.proof.endings import all_or_nothing, all_stopped
from kvstate.proof.foreign import lives_are_told_apart
from kvstate.proof.holds import free_means_untouched, kept
from kvstate.proof.identity import one_settlement, stale_changes_nothing
from kvstate.proof.once import one_end
from kvstate.proof.rows import check_rows
from kvstate.proof.terms import GaveUpError
from kvstate.spec.model import Spec


@dataclass(frozen=True)
class Theorem:
    """`law` is the one that it belongs to, `claim` a sentence, `check` gives what is not proved of a spec."""

    name: str
    law: str
    claim: str
    check: Callable[[Spec], list[str]]

    def run(self, spec: Spec) -> list[str]:
        """What of it is not proved; nothing, if it is. Errors: `ProverMissingError` without z3."""
        try:
            return self.check(spec)
        except GaveUpError as problem:
            return [f"the prover gave up ({problem}); nothing is proved"]


def every_row(spec: Spec) -> list[str]:
    """Every row of every machine keeps the invariants of its states, for all numbers; guards don't overlap (L6, L8)."""
    return [found for machine in spec.machines for found in check_rows(machine)]


THEOREMS = (
    Theorem("rows", "L6", "Every row keeps its states' invariants; no report is without an answer.", every_row),
    Theorem("one_end", "L1", "A job, a batch and a load have one verdict and one settlement, in this order.", one_end),
    Theorem("one_settlement", "L2", "A part lets go of its blocks once, and tells its owner once.", one_settlement),
    Theorem("stale", "L2", "A report on a part that is over changes nothing.", stale_changes_nothing),
    Theorem("counters", "L8", "A block's counters are the numbers of those that touch it; no part is refused.", kept),
    Theorem("free", "L3", "No part touches a free block and no job holds one; a touch keeps the life.",
            free_means_untouched),
    Theorem("lives", "L3", "Whoever touches a life of an engine's block that is not its own is tainted; all count.",
            lives_are_told_apart),
    Theorem("all_stopped", "L4", "What has ended has no part that flies, and no part is refused by it.", all_stopped),
    Theorem("all_or_nothing", "L5", "Bytes are published only if each part of the attempt landed.", all_or_nothing),
)  # fmt: skip
"""All that is proved, in the order in which `kvstate prove` shows it."""
