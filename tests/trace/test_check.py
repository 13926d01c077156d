"""Records read back: a whole run is as the spec allows, and every way of spoiling a line is named with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from kvstate.cli import run
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Outcome, Report, Work
from kvstate.machines.tables import TABLES
from kvstate.machines.verdicts import Grant, Hit
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Spec
from kvstate.trace.autopsy import autopsy, mermaid, said
from kvstate.trace.check import check
from kvstate.trace.lines import RecordError
from kvstate.trace.record import Recorder

SPEC = load_spec(check=False)
Data = dict[str, Any]


def recorded(config: LedgerConfig | None = None) -> list[Data]:
    """A request that stores two blocks, loses them on the device, and loads them again: the lines of its record."""
    ledger = Ledger(config or LedgerConfig((PoolConfig("device", 2), PoolConfig("host", 4, verify=True))))
    stream = StringIO()
    recorder = Recorder(ledger, stream, {})
    keys = [b"one", b"two"]

    def turn() -> None:
        while effects := ledger.take_effects():
            for effect in effects:
                recorder.on_effect(effect)
                assert isinstance(effect, Work)
                report = Report(effect.token, Outcome.DONE)
                recorder.on_report(report)
                ledger.report(report)
        for verdict in ledger.take_verdicts():
            recorder.on_verdict(verdict)

    def opened(name: str) -> int:
        lease = ledger.open("a")
        assert isinstance(lease, int)
        recorder.on_input(name, lease=lease)
        return lease

    lease = opened("open")
    grant = ledger.allocate(lease, 2)
    assert isinstance(grant, Grant)
    assert ledger.seal(lease, grant.blocks, keys)
    assert ledger.offload(lease, grant.blocks)
    turn()
    ledger.finish(lease)
    other = opened("open")
    assert ledger.allocate(other, 2)
    ledger.finish(other)
    third = opened("open")
    hit = ledger.lookup(third, keys)
    assert isinstance(hit, Hit)
    into = ledger.allocate(third, 2)
    assert isinstance(into, Grant)
    assert ledger.load(third, hit, into.blocks, deadline=1.0)
    turn()
    ledger.finish(third)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def written(path: Path, lines: list[Data], *, renumber: bool = True) -> Path:
    """The lines as a file, numbered anew."""
    for number, line in enumerate(lines):
        if number and renumber:
            line["n"] = number
    file = path / "run.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def place(lines: list[Data], **values: Any) -> int:
    """Where the first line with these values stands."""
    return next(at for at, line in enumerate(lines) if all(line.get(name) == value for name, value in values.items()))


def test_a_whole_run_is_as_the_spec_allows(tmp_path: Path) -> None:
    lines = recorded()
    found = check(written(tmp_path, lines), SPEC)
    assert found.violation is None
    assert found.lines == len(lines)
    assert found.rows.total() == sum("row" in line for line in lines)
    assert {"O01", "X01", "B06", "K03", "B13"} <= set(found.rows), "stored, evicted, loaded"
    assert {line["m"] for line in lines if "born" in line} == {"offload", "load", "transfer"}


def drop(**values: Any) -> Callable[[list[Data]], int]:
    def spoil(lines: list[Data]) -> int:
        at = place(lines, **values)
        del lines[at]
        return at

    return spoil


def change(new: Data, **values: Any) -> Callable[[list[Data]], int]:
    def spoil(lines: list[Data]) -> int:
        at = place(lines, **values)
        lines[at].update(new)
        return at

    return spoil


def again(**values: Any) -> Callable[[list[Data]], int]:
    def spoil(lines: list[Data]) -> int:
        at = place(lines, **values)
        lines.insert(at + 1, dict(lines[at]))
        return at + 1

    return spoil


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (change({"to": "cached"}, row="B01", id=0), "block 0 fires B01 to cached, and the row leads to open"),
        (change({"from": "open"}, row="B01", id=1), "block 1 fires B01 from open, and is free"),
        (change({"row": "B02"}, row="B01", id=0), "block 0 fires B02 in free, which it does not leave; it leaves open"),
        (change({"row": "B99"}, row="B01", id=0), "block 0 fires 'B99', and the machine has no such row"),
        (change({"m": "blok"}, row="B01", id=0), "there is no machine 'blok'; there are block, "),
        (again(row="B02", id=0), "block 0 fires B02 from open, and is active"),
        (again(row="B11", id=0), ""),
        (drop(m="offload", born={"parts": 1}), "offload 1 fires O01 and was never born"),
        (again(m="offload", born={"parts": 1}), "offload 1 is born twice"),
        (change({"born": {}}, m="offload", born={"parts": 1}), "offload 1 is born with {}, and is to be told parts"),
        (change({"m": "jop"}, m="offload", born={"parts": 1}), "there is no machine 'jop'"),
        (change({"born": {"parts": 2}}, m="offload", born={"parts": 1}), "though its guard does not hold: "),
        (again(verdict="job"), "job 2 is told a second time (law L1)"),
        (again(verdict="settled"), "is settled a second time (law L1)"),
        (drop(verdict="load"), "is settled before it was told (law L1)"),
        (change({"verdict": "odd"}, verdict="job"), "a verdict of kind 'odd' about"),
        (
            change({"verdict": "fatal", "law": "L8.x", "sentence": "block 1 is lost"}, verdict="job"),
            "the ledger was poisoned: L8.x: block 1 is lost",
        ),
        (change({"t": -1.0}, row="B01", id=1), "the time goes back from 0 to -1 s"),
    ],
)
def test_the_first_line_that_is_not_allowed_is_named(
    tmp_path: Path, spoil: Callable[[list[Data]], int], sentence: str
) -> None:
    lines = recorded()
    at = spoil(lines)
    found = check(written(tmp_path, lines), SPEC)
    assert found.violation is not None
    assert sentence in found.violation.sentence
    if sentence and "guard" not in sentence and "never born" not in sentence and "before it was told" not in sentence:
        assert found.violation.line.number == at + 1


def test_another_spec_does_not_allow_what_this_one_did(tmp_path: Path) -> None:
    """A spec whose B21 goes elsewhere, of the same version; and one of another version is refused with the remedy."""
    file = written(tmp_path, recorded())
    machines = tuple(_without_row(machine, "B24") for machine in SPEC.machines)
    other = Spec(SPEC.version, machines, SPEC.relations, SPEC.couplings, SPEC.acts)
    found = check(file, other)
    assert found.violation is not None
    assert "fires 'B24', and the machine has no such row" in found.violation.sentence
    newer = Spec("9.9.9", SPEC.machines, SPEC.relations, SPEC.couplings, SPEC.acts)
    with pytest.raises(RecordError, match=r"of spec .* and held against spec 9\.9\.9; give the spec .*--spec"):
        check(file, newer)


def _without_row(machine: Any, row_id: str) -> Any:
    from dataclasses import replace

    return replace(machine, rows=tuple(row for row in machine.rows if row.id != row_id))


def test_params_come_from_the_record(tmp_path: Path) -> None:
    """With two ranks a block has two writers; held against the default of one, the second is too many."""
    pools = (PoolConfig("device", 2), PoolConfig("host", 4))
    lines = recorded(LedgerConfig(pools, ranks=2))
    assert check(written(tmp_path, lines), SPEC).violation is None
    del lines[0]["params"]["ranks"]
    found = check(written(tmp_path, lines), SPEC)
    assert found.violation is not None
    assert "fires B04 though its guard does not hold" in found.violation.sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; a record begins with a line that says what wrote it"),
        ("nonsense\n", ":1: the line is no JSON"),
        ("[1]\n", ":1: the line is no JSON object"),
        ('{"a": 1}\n', ":1: this is no record of format 2 (it says None); record the run again"),
        ('{"kvstate": 1}\n', "it says 1"),
        ('{"kvstate": 2}\n', ":1: the params of the machines are missing"),
        ('HEAD{"n": 1, "t": 0}\n', ":2: neither row nor input nor effect nor verdict; is this a record?"),
        ('HEAD{"n": 2, "t": 0, "in": "x"}\n', ":2: this is line 2 of its record and should be 1"),
        ('HEAD{"n": 1, "t": "x", "in": "x"}\n', ":2: the time is 'x' and no number of seconds"),
        ('HEAD{"n": 1, "t": 0, "row": "B01"}\n', ":2: a row names no record"),
        (
            'HEAD{"n": 1, "t": 0, "in": "x"',
            ":2: the line is no JSON; it is the last one, so",
        ),
    ],
)
def test_what_is_no_whole_record_is_one_sentence(
    tmp_path: Path, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head = json.dumps({"kvstate": 2, "spec": SPEC.version, "params": {}}) + "\n"
    file = tmp_path / "run.ndjson"
    file.write_text(text.replace("HEAD", head), encoding="utf-8")
    with pytest.raises(RecordError) as error:
        check(file, SPEC)
    assert sentence in str(error.value)
    for command in (["trace", "check"], ["autopsy"]):
        assert run([*command, str(file)]) == 1
        assert sentence in capsys.readouterr().err


def test_no_row_sets_what_a_record_is_given() -> None:
    """Births are read after the first row has fired; what is given must be what it was."""
    for machine in SPEC.machines:
        given = {var.name for var in machine.vars if var.initial is None}
        assert given == set(TABLES[machine.name].GIVEN)
        assert not given & {name for row in machine.rows for name, _ in row.sets}


# -- autopsy -----------------------------------------------------------------------------------------------------------


def test_the_story_is_the_present_life_of_the_record(tmp_path: Path) -> None:
    """Block 0 lives three lives; the violation in the third tells of nothing before it."""
    lines = recorded()
    last = max(at for at, line in enumerate(lines) if line.get("row") == "B24" and line["id"] == 0)
    lines[last]["to"] = "free"
    found = autopsy(written(tmp_path, lines), SPEC, last=5)
    assert found.violation is not None
    assert found.violation.record == ("block", 0)
    assert found.violation.line.number == found.lines == last + 1
    assert len(found.last) == 5
    assert found.story[0].data["row"] == "B01"
    assert found.story[-1] == found.violation.line
    assert {line.data["out"] for line in found.story if line.kind == "out"} == {"fetch", "verify"}
    assert [line.data["in"] for line in found.story if line.kind == "in"] == ["report", "report"]
    births = [at for at, line in enumerate(lines) if line.get("row") == "B01" and line["id"] == 0]
    assert found.story[0].number == births[-1] + 1
    drawn = mermaid(found.story)
    assert drawn.startswith("sequenceDiagram\n")
    assert "    participant block0 as block 0\n" in drawn
    assert "    Note over block0: B01, free -> open\n" in drawn
    assert "    L->>W: fetch 1." in drawn
    assert "    W->>L: report done for token 1." in drawn


def test_a_fatal_verdict_is_a_violation_by_its_record(tmp_path: Path) -> None:
    lines = recorded()
    number = len(lines)
    sentence = "part 2 is landed () and no row takes launch"
    lines.append({"n": number, "t": 1.0, "verdict": "fatal", "law": "part.launch", "sentence": sentence, "dump": ["x"]})
    found = autopsy(written(tmp_path, lines), SPEC)
    assert found.violation is not None
    assert found.violation.record == ("part", 2)
    assert [line.kind for line in found.story] == ["row", "row", "verdict"]
    assert "    L->>S: verdict fatal: law part.launch" in mermaid(found.story)
    lines[-1]["sentence"] = "something else"
    found = autopsy(written(tmp_path, lines), SPEC)
    assert [line.kind for line in found.story] == ["verdict"]


def test_a_sound_record_has_no_story(tmp_path: Path) -> None:
    found = autopsy(written(tmp_path, recorded()), SPEC, last=3)
    assert found.violation is None
    assert found.story == ()
    assert len(found.last) == 3


def test_every_kind_of_line_is_said_in_words(tmp_path: Path) -> None:
    found = autopsy(written(tmp_path, recorded()), SPEC, last=10_000)
    words = [said(line) for line in found.last]
    assert "block 0: B01, free -> open" in words
    assert "offload 1 is born with parts 1" in words
    assert "open lease 1" in words
    assert "store 1.1 [0, 1] to [2, 3]" in words
    assert "report done for token 1.1" in words
    assert any(word.startswith("verdict job: job 2, ending committed") for word in words)


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = recorded()
    file = str(written(tmp_path, lines))
    assert run(["trace", "check", file]) == 0
    assert capsys.readouterr().out.endswith("all as the spec allows\n")
    assert run(["trace", "check", file, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["violation"] is None
    assert data["lines"] == len(lines)
    assert run(["autopsy", file]) == 0
    assert "no line violates the spec" in capsys.readouterr().out
    at = place(lines, row="B01", id=1)
    lines[at]["to"] = "cached"
    written(tmp_path, lines)
    assert run(["trace", "check", file]) == 1
    assert capsys.readouterr().out == f"{file}:{at + 1}: block 1 fires B01 to cached, and the row leads to open\n"
    assert run(["trace", "check", file, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["violation"]["line"] == at + 1
    assert run(["autopsy", file, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["story"][-1]["to"] == "cached"
    assert run(["autopsy", file, "--mermaid"]) == 1
    assert capsys.readouterr().out.startswith("sequenceDiagram\n")
    assert run(["autopsy", file]) == 1
    out = capsys.readouterr().out
    assert f"the first violation: {file}:{at + 1}: " in out
    assert "the shortest story that leads there, 1 of " in out
    assert run(["trace", "check", file, "--spec", str(tmp_path)]) == 1
    assert "was refused" in capsys.readouterr().err
