"""A ledger with KV groups is recorded like any other: its record is replayed through the spec, and taken apart."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

from kvstate.machines.groups import lines_of
from kvstate.machines.messages import Work
from kvstate.spec.loader import load_spec
from kvstate.trace.autopsy import autopsy
from kvstate.trace.check import check
from kvstate.trace.record import Recorder
from tests.machines.hybrid import Hybrid, needed

SPEC = load_spec(check=False)


def recorded(path: Path) -> tuple[Path, Hybrid]:
    """A load of eight tokens in two groups, whose last block is bad, and a second one of what there is."""
    rig = Hybrid(batch_blocks=1, part_blocks=1)
    stream = StringIO()
    recorder = Recorder(rig.ledger, stream, {})
    rig.stored(8)
    lease = rig.open()
    recorder.on_input("open", lease=lease)
    hit = rig.ask(lease, 8)
    _, into = rig.load(lease, hit)
    wanted = {ref.block: lines_of(rig.groups, 8)[at] for at, ref in zip(hit.below, into, strict=True)}
    bad = next(block for block, line in wanted.items() if line == (1, 7))
    while effects := rig.effects():
        for effect in effects:
            recorder.on_effect(effect)
            assert isinstance(effect, Work)
            rig.report(effect, "broken" if bad in effect.dst else "done")
    for verdict in rig.verdicts():
        recorder.on_verdict(verdict)
    assert set(rig.blocks_of(rig.ask(lease, 8))) == needed(rig.groups, 6)
    rig.ledger.finish(lease)
    file = path / "run.ndjson"
    file.write_text(stream.getvalue(), encoding="utf-8")
    return file, rig


def test_every_row_is_as_the_spec_allows(tmp_path: Path) -> None:
    file, rig = recorded(tmp_path)
    found = check(file, SPEC)
    assert found.violation is None
    assert {"O01", "X01", "K03", "B13", "X22", "K05"} <= set(found.rows)
    rig.check()


def test_the_verdict_says_how_far_each_group_reaches(tmp_path: Path) -> None:
    file, _ = recorded(tmp_path)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    told = next(line for line in lines if line.get("verdict") == "load")
    assert (told["ending"], told["blocks"], told["groups"]) == ("recompute", 0, [[0, 0], [0, 0]])


def test_it_is_taken_apart(tmp_path: Path) -> None:
    file, _ = recorded(tmp_path)
    assert autopsy(file, SPEC, 10).violation is None
