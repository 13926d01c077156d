"""What stands in the lines of a record: reports, effects, verdicts and births as plain values by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvstate.machines.books import Books
from kvstate.machines.messages import Adopt, Cancel, Effect, Hold, Report, Sweep, Undo, Unhold, Work
from kvstate.machines.sound import sound_report
from kvstate.machines.verdicts import Fatal, JobVerdict, LoadVerdict, Settlement, Verdict

Values = Mapping[str, Any]
"""What a line says."""


def of_report(report: Report) -> Values:
    """A report; of each failure the line, the code and the driver's own code. What is none has the outcome `unreadable`
    and the token 0.0, which is never given out: the ledger counts it as unknown, and nobody stumbles over it here.
    """
    heard = sound_report(report)
    if heard is None:
        return {"in": "report", "token": [0, 0], "outcome": "unreadable", "failures": []}
    failures = [[failure.line, int(failure.code), failure.raw] for failure in heard.failures]
    return {"in": "report", "token": list(heard.token), "outcome": str(heard.outcome), "failures": failures}


def of_turn(reports: int) -> Values:
    """A turn of the loop in which so many reports were heard."""
    return {"in": "turn", "reports": reports}


def of_effect(effect: Effect) -> Values:
    """An effect."""
    match effect:
        case Work():
            return {
                "out": str(effect.kind), "token": list(effect.token), "rank": effect.rank, "copier": effect.copier,
                "attempt": effect.attempt, "src": list(effect.src), "dst": list(effect.dst),
                "keys": [key.hex() for key in effect.keys], "after": effect.after_step,
            }  # fmt: skip
        case Cancel() | Undo():
            return {"out": type(effect).__name__.lower(), "token": list(effect.token)}
        case Adopt():
            place = {"out": "adopt", "rank": effect.rank, "copier": effect.copier}
            return {**place, "blocks": list(effect.blocks), "keys": [key.hex() for key in effect.keys]}
        case Sweep():
            return {"out": "sweep", "rank": effect.rank, "copier": effect.copier, "everything": effect.everything}
        case Hold() | Unhold():
            return {"out": type(effect).__name__.lower(), "ref": list(effect.ref)}


def of_verdict(verdict: Verdict) -> Values:
    """A verdict; of each error the code by name."""
    match verdict:
        case LoadVerdict():
            codes = [error.code.name for error in verdict.errors]
            told = {"verdict": "load", "load": verdict.load, "ending": str(verdict.ending), "blocks": verdict.blocks}
            groups = {"groups": [[one.first, one.blocks] for one in verdict.groups]} if verdict.groups else {}
            return {**told, "errors": codes, **groups}
        case JobVerdict():
            codes = [error.code.name for error in verdict.errors]
            return {"verdict": "job", "job": verdict.job, "ending": str(verdict.ending), "errors": codes}
        case Settlement():
            return {"verdict": "settled", "load": verdict.load}
        case Fatal():
            told = {"verdict": "fatal", "law": verdict.law, "sentence": verdict.sentence}
            return {**told, "dump": list(verdict.dump)}


Facts = tuple[Any, ...]
"""A birth before it is put into words: machine, number, what is given, and what `_NAMES` lists."""
_NAMES = {
    "offload": ("job", "lease", "pool", "blocks"),
    "load": ("load", "lease", "blocks"),
    "transfer": ("load", "batch", "pool", "blocks"),
}


def birth(books: Books, machine: str, slot: int, uid: int) -> Facts:
    """What a record is given at birth, which it keeps for life; and of a job, a load or a batch by what name it is
    known outside: the number of the job or load, its lease, its pool, and how many blocks it moves.
    """
    given = tuple([books.columns[machine][var][slot] for var in books.tables[machine].GIVEN])
    if machine == "offload":
        job = books.jobs[slot]
        return machine, uid, given, job.id, job.lease, job.pool, len(job.keys)
    if machine == "load":
        load = books.loads[slot]
        return machine, uid, given, load.id, load.lease, len(load.positions)
    if machine == "transfer":
        batch = books.batches[slot]
        return machine, uid, given, books.loads[batch.load].id, batch.index, batch.pool, len(batch.keys)
    return machine, uid, given


def of_birth(facts: Facts, given: Sequence[str]) -> Values:
    """A birth; `given` are the names of what its machine is given."""
    machine, uid, values, *more = facts
    born = dict(zip(given, values, strict=True))
    return {"born": born, "m": machine, "id": uid, **dict(zip(_NAMES.get(machine, ()), more, strict=True))}
