"""Laws taken out on purpose, to see that they are missed: `kvstate replay --break LAW`.

Nothing in the shipped code asks whether a law is broken. A break is a mutated spec, run by the reference interpreter in
place of the generated tables, or another inbox in place of the copier's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kvstate.machines import tables
from kvstate.machines.books import Tables
from kvstate.machines.cascade import ActRow, Coupling
from kvstate.machines.interpreted import interpreted
from kvstate.machines.ledger import ACTS, COUPLINGS
from kvstate.machines.messages import Report, Token, Work
from kvstate.replay.config import Law
from kvstate.runtime.inbox import Inbox
from kvstate.spec.expr import TRUE, Expr, parse
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Machine, Row, Spec, VarType

Submit = Callable[[Work], None]
"""What a copier calls when a part is submitted; as `kvstate.runtime.copiers.threads.OnSubmit`."""
COPIERS_OWN: Law = "match-by-block"
"""The one break that is in a copier and not in the spec."""


@dataclass(frozen=True)
class Broken:
    """What a ledger and its copier are made with instead of what ships."""

    machines: Tables
    """The tables, by machine."""
    couplings: Sequence[Coupling] = COUPLINGS
    """What follows from what."""
    acts: Sequence[ActRow] = ACTS
    """What the ledger itself does."""
    inbox: Callable[[Inbox], Inbox] = lambda inbox: inbox
    """Given the inbox that would be used, the one to use."""
    submit: Callable[[Submit], Submit] = lambda submit: submit
    """Given what a copier would call at a submission, what it is to call."""


def intact() -> Broken:
    """What ships."""
    return Broken(tables.TABLES)


def break_law(law: Law) -> Broken:
    """The product without that law."""
    if law == COPIERS_OWN:
        return _match_by_block()
    spec = load_spec()
    mutant = broken_spec(law, spec)
    changed = [new for old, new in zip(spec.machines, mutant.machines, strict=True) if old is not new]
    kept, effects = {one.id for one in mutant.couplings}, {act.id: act.effect for act in mutant.acts}
    return Broken(
        {**tables.TABLES, **{machine.name: interpreted(machine) for machine in changed}},
        tuple(row for row in COUPLINGS if row.id in kept),
        tuple(row._replace(effect=effects[row.id]) for row in ACTS),
    )


def broken_spec(law: Law, spec: Spec) -> Spec:
    """The spec without that law; the machines that stay are the same objects. A copier's own fault leaves all of it."""
    return _BREAKS[law](spec) if law != COPIERS_OWN else spec


def _with_rows(spec: Spec, name: str, *more: Row, **rows: Row) -> Spec:
    """The spec with these rows of a machine in place of its own, and more of them behind."""
    machine = spec.machine(name)
    changed = replace(machine, rows=(*(rows.get(row.id, row) for row in machine.rows), *more))
    return replace(spec, machines=tuple(changed if one is machine else one for one in spec.machines))


def _set(machine: Machine, **values: str) -> tuple[tuple[str, Expr], ...]:
    types: dict[str, VarType] = {var.name: var.type for var in machine.vars}
    types |= {param.name: "int" for param in machine.params}
    return tuple((name, parse(source, types)) for name, source in values.items())


def _no_draining(spec: Spec) -> Spec:
    """A block whose owner leaves is free at once, whoever touches it still."""
    block = spec.machine("block")
    gone = _set(block, owners="0", readers="0", writers="0", lost="0", generation="generation + 1")
    rows = {row_id: replace(block.row(row_id), to="free", sets=gone) for row_id in ("B21", "B22", "B26", "B27")}
    harmless = [
        replace(block.row(row_id), id=f"{row_id}x", sources=("free", *sources), to=None, sets=(), when=TRUE)
        for row_id, sources in (("B34", ()), ("B37", ("open", "active", "cached")))
    ]
    return _with_rows(spec, "block", *harmless, **rows)


def _publish_before_commit(spec: Spec) -> Spec:
    """A key is a hit from the moment its store is launched."""
    offload = spec.machine("offload")
    start, commit = offload.row("O01"), offload.row("O30")
    early = replace(start, effects=("commit_key", *start.effects))
    late = replace(commit, effects=tuple(effect for effect in commit.effects if effect != "commit_key"))
    acts = tuple(replace(act, effect="commit_key") if act.act == "link_keys" else act for act in spec.acts)
    return replace(_with_rows(spec, "offload", O01=early, O30=late), acts=acts)


def _timeout_frees(spec: Spec) -> Spec:
    """A part that was not heard in time, or was given up, counts as over."""
    part = spec.machine("part")
    timeout = replace(part.row("P07"), to="failed", effects=("let_go", "bad_again"))
    give_up = replace(part.row("P08"), to="failed", effects=("let_go",))
    return _with_rows(spec, "part", P07=timeout, P08=give_up)


def _no_condemned_keys(spec: Spec) -> Spec:
    """Bad bytes are forgotten: the next lookup finds them again."""
    return replace(spec, couplings=tuple(row for row in spec.couplings if row.event != "condemn"))


def _end_at_first_failure(spec: Spec) -> Spec:
    """A batch ends when one part has failed, and leaves the others to their fate."""
    transfer = spec.machine("transfer")
    ended = _set(transfer, left="0", told="True")
    rows = {
        row_id: replace(transfer.row(row_id), to="fell_back", sets=ended, effects=transfer.row("X17").effects)
        for row_id in ("X13", "X14", "X15")
    }
    return _with_rows(spec, "transfer", **rows)


class _Restamped(Inbox):
    """A copier that knows parts by their block: a report goes to whoever was last to start a copy there."""

    __slots__ = ("current", "first")

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[Token, int] = {}
        self.current: dict[int, Token] = {}

    def started(self, work: Work) -> None:
        block = (work.dst or work.src)[0]
        self.first[work.token] = block
        self.current[block] = work.token

    def put(self, report: Report) -> bool:
        block = self.first.get(report.token)
        return super().put(report if block is None else report._replace(token=self.current[block]))


def _match_by_block() -> Broken:
    """Reports are matched by block instead of token."""
    inbox = _Restamped()

    def submit(then: Submit) -> Submit:
        def started(work: Work) -> None:
            inbox.started(work)
            then(work)

        return started

    return Broken(tables.TABLES, inbox=lambda _: inbox, submit=submit)


_BREAKS: dict[Law, Callable[[Spec], Spec]] = {
    "no-draining": _no_draining,
    "publish-before-commit": _publish_before_commit,
    "timeout-frees": _timeout_frees,
    "no-condemned-keys": _no_condemned_keys,
    "end-at-first-failure": _end_at_first_failure,
}
