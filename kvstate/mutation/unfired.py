"""Rows that no ledger fires as the machines are composed now, where that is shown and not only seen.

Of such a row a deletion, another target, and effects that are left out or exchanged make no difference to any state
graph, of whatever scope. Nothing else is said of them here: a guard that is another one may fire elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kvstate.mutation.mutants import Mutant
from kvstate.spec.laws import a_start_is_undisturbed
from kvstate.spec.model import Spec

SHOWN: Mapping[str, tuple[str, Callable[[Spec], Iterator[str]], str]] = {
    "X02": (
        "L7.started",
        a_start_is_undisturbed,
        "a load starts its batches in the input that plans them, and nothing in it cuts one",
    ),
}
"""By row: the property that shows it (of the data by this question, of the code by the explorer), and why."""
KINDS = ("row deleted", "target redirected", "effect dropped", "effects exchanged")
"""What can be done to such a row without any consequence."""


def why(spec: Spec, mutant: Mutant) -> str:
    """Why the row of this mutant of `spec` does not fire, with the property; empty where that is not shown."""
    property_, question, sentence = SHOWN.get(mutant.row, ("", None, ""))
    if question is None or mutant.kind not in KINDS or any(question(spec)) or any(question(mutant.spec)):
        return ""
    return f"{property_}: {sentence}; identical state graph in every scope"
