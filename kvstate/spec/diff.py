"""Two versions of a spec, and what the difference means for whoever relies on the older one.

A change is *breaking* when something that held is no longer so. For whom, the change says:

* `records`: whoever replays a record. An id went or does something else, a number moved.
* `embedders`: the program around the ledger. A request went, or is refused where it was granted; a param takes
  less.
* `workers`: what sends reports. A report went, or does something else.
* `verdicts`: whoever reads verdicts. What is told changed, or when.
* `ledgers`: another implementation. An act, a coupling or a relation changed under rows that stayed.

It is *added* when all that held still holds and something is new: a row answers what none answered before, an event, a
state, a param with a default stands at the end. It is *words* when only sentences changed. A spec is breaking when one
of its changes is.

Whether a guard became narrower or wider takes a prover; `compare` is given one as a function, so that this file needs
none. Where it can't say, or there is none, the change counts as breaking and says so. NEW is taken to be sound, its
rows disjoint and its reports answered, as `kvstate spec check` proves: then a row that takes a case over from another
shows as the other's narrower guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kvstate.spec.diff_change import WEIGHTS, Change, Implies, Weight, Who, is_told, undecided
from kvstate.spec.diff_machine import machine_changes
from kvstate.spec.model import Act, Coupling, Machine, Relation, Spec


@dataclass(frozen=True, slots=True)
class Difference:
    """All changes from one spec (or machine) to another."""

    changes: tuple[Change, ...]
    old_version: str = ""
    """This and `new_version` are empty where machine files were compared, which have no version."""
    new_version: str = ""

    @property
    def weight(self) -> Weight | None:
        """That of the heaviest change; None where nothing changed."""
        return max((change.weight for change in self.changes), key=WEIGHTS.index, default=None)

    @property
    def breaking(self) -> bool:
        """Does it break anybody? Then the version has to say so."""
        return self.weight == "breaking"


# --- The whole spec -------------------------------------------------------------------------------------------------


def compare(old: Spec, new: Spec, implies: Implies = undecided) -> Difference:
    """What changed from `old` to `new`: machine by machine in the order of the old ones, then what couples them."""
    changes: list[Change] = []
    before, after = named(old.machines), named(new.machines)
    for name in before | after:
        if name not in after:
            who: tuple[Who, ...] = ("records", "embedders", "ledgers")
            changes.append(Change(f"machine {name}", "breaking", "the machine is gone", who))
        elif name not in before:
            changes.append(Change(f"machine {name}", "added", "a new machine"))
        else:
            changes += machine_changes(before[name], after[name], implies)
    changes += _relations(old, new)
    changes += _links("coupling", old.couplings, new.couplings, old)
    changes += _links("act", old.acts, new.acts, old)
    return Difference(_moved_ids(old, new, changes), old.version, new.version)


def compare_machines(old: Machine, new: Machine, implies: Implies = undecided) -> Difference:
    """The same for two versions of one machine."""
    return Difference(tuple(machine_changes(old, new, implies)))


def _relations(old: Spec, new: Spec) -> Iterator[Change]:
    before, after = named(old.relations), named(new.relations)
    for name, one in before.items():
        place = f"relation {name}"
        other = after.get(name)
        if other is None:
            yield Change(place, "breaking", "the relation is gone", ("ledgers",))
        elif (one.of, one.to) != (other.of, other.to):
            what = f"leads from {other.of} to {other.to}, and led from {one.of} to {one.to}"
            yield Change(place, "breaking", what, ("ledgers",))
        elif one.doc != other.doc:
            # Its sentence is all that says which records a relation yields, so it is more than words.
            what = "its sentence changed: whether it still yields the same records, only a reader can say"
            yield Change(place, "breaking", what, ("ledgers",))
    for name in after.keys() - before.keys():
        yield Change(f"relation {name}", "added", "a new relation")


Link = Coupling | Act
"""What an effect means: an event of another machine, or something that the ledger does."""


def _links(kind: str, old: Sequence[Link], new: Sequence[Link], spec: Spec) -> Iterator[Change]:
    """Couplings or acts: what an effect means. A new one under an old effect changes what old rows do."""
    before, after = {one.id: one for one in old}, {one.id: one for one in new}
    effects = {(machine.name, effect) for machine in spec.machines for effect in machine.effects}
    for name, one in before.items():
        other = after.get(name)
        if other is None:
            what = f"gone: {said(one)}"
            yield Change(f"{kind} {name}", "breaking", what, ("records", "ledgers", *_told(one)))
        elif said(one) != said(other):
            what = f"says {said(other)}, and said {said(one)}"
            yield Change(f"{kind} {name}", "breaking", what, ("records", "ledgers", *_told(one, other)))
        elif one.why != other.why:
            yield Change(f"{kind} {name}", "words", "why")
    for name, other in after.items():
        if name not in before and (other.machine, other.effect) in effects:
            what = f"new under an effect that older rows have: {said(other)}"
            yield Change(f"{kind} {name}", "breaking", what, ("records", "ledgers", *_told(other)))
        elif name not in before:
            yield Change(f"{kind} {name}", "added", f"new: {said(other)}")
    yield from _order(kind, [one for one in old if one.id in after], [one for one in new if one.id in before])


def _order(kind: str, old: Iterable[Link], new: Iterable[Link]) -> Iterator[Change]:
    """Within one effect the order of the file is the order in which things happen."""
    before, after = _by_effect(old), _by_effect(new)
    for effect, ids in before.items():
        now = after.get(effect, [])
        if sorted(now) == sorted(ids) and now != ids:
            what = f"happen in the order {' '.join(now)}, and did in the order {' '.join(ids)}"
            yield Change(f"{kind}s of {effect}", "breaking", what, ("records", "ledgers"))


def _by_effect(links: Iterable[Link]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for link in links:
        found.setdefault(f"{link.machine}.{link.effect}", []).append(link.id)
    return found


def _moved_ids(old: Spec, new: Spec, changes: Iterable[Change]) -> tuple[Change, ...]:
    """Ids are of one space: one that is a row here and was a coupling there has two meanings, and both are told."""
    before, after = _homes(old), _homes(new)
    moved = [
        Change(f"id {name}", "breaking", f"is of {after[name]} and was of {home}; an id is given once", ("records",))
        for name, home in before.items()
        if name in after and after[name] != home
    ]
    return (*changes, *moved)


def _homes(spec: Spec) -> dict[str, str]:
    homes = {row.id: f"a row of {machine.name}" for machine in spec.machines for row in machine.rows}
    return homes | {one.id: "a coupling" for one in spec.couplings} | {one.id: "an act" for one in spec.acts}


# --- Small help -----------------------------------------------------------------------------------------------------


def said(link: Link) -> str:
    """What a coupling or an act says, its reasons apart."""
    if isinstance(link, Act):
        return f"{link.machine}.{link.effect} -> {link.act} ({link.order} the couplings)"
    asked = ", asked" if link.ask else ""
    return f"{link.machine}.{link.effect} -> {link.target}.{link.event} over {link.over}{asked}"


def _told(*links: Link) -> tuple[Who, ...]:
    return ("verdicts",) if any(isinstance(link, Act) and is_told(link.act) for link in links) else ()


Named = TypeVar("Named", Machine, Relation)


def named(things: Iterable[Named]) -> dict[str, Named]:
    """By name, in their order."""
    return {thing.name: thing for thing in things}
