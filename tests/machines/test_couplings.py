"""`coupling.toml` and the code that it names: nothing is missing, nothing is left over, and the order is the file's."""

from __future__ import annotations

import inspect
import tomllib
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from kvstate.machines import cascade, relations, tables
from kvstate.machines.acts import Acts
from kvstate.machines.books import Books
from kvstate.machines.cascade import ActRow, Cascade, Coupling, Port
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import ACTS, COUPLINGS, Ledger
from kvstate.machines.policy import LRU
from kvstate.machines.ports import BlockPort
from kvstate.spec import spec_dir

FILE = tomllib.loads((spec_dir() / "coupling.toml").read_text(encoding="utf-8"))
CONFIG = LedgerConfig(pools=(PoolConfig("device", 4), PoolConfig("host", 4)))
FOREIGN = LedgerConfig(pools=(PoolConfig("device", 4, foreign=True), PoolConfig("host", 4)))
"""Only there are the couplings of the engine's own blocks wired."""


def test_every_relation_of_the_file_is_code_and_none_is_left_over() -> None:
    named = {relation["name"] for relation in FILE["relation"]}
    assert named == relations.RELATIONS.keys()
    assert named == {coupling["over"] for coupling in FILE["coupling"]}


def test_a_relation_says_what_it_yields() -> None:
    for name, relation in relations.RELATIONS.items():
        assert inspect.getdoc(relation), f"{name} does not say what it yields"


def test_every_act_of_the_file_is_code_and_none_is_left_over() -> None:
    public = {name for name, _ in inspect.getmembers(Acts, inspect.isfunction) if not name.startswith("_")}
    assert public == {act["act"] for act in FILE["act"]}


def test_the_ledger_runs_on_what_the_file_says() -> None:
    assert [row.id for row in COUPLINGS] == [row["id"] for row in FILE["coupling"]]
    assert [row.id for row in ACTS] == [row["id"] for row in FILE["act"]]
    for row, line in zip(COUPLINGS, FILE["coupling"], strict=True):
        assert (f"{row.machine}.{row.effect}", f"{row.target}.{row.event}") == (line["effect"], line["event"])
        assert (row.over, row.ask) == (line["over"], line.get("ask", False))
    for act, line in zip(ACTS, FILE["act"], strict=True):
        assert (f"{act.machine}.{act.effect}", act.act, act.order) == (line["effect"], line["act"], line["order"])


# -- the order ---------------------------------------------------------------------------------------------------------


def expected() -> dict[tuple[str, str], list[str]]:
    """For each effect, from the file alone: acts before, couplings, acts after; each in the order of the file."""
    order: dict[tuple[str, str], list[str]] = defaultdict(list)
    for place in ("before", "coupling", "after"):
        for line in FILE["coupling"] if place == "coupling" else FILE["act"]:
            if place == "coupling" or line["order"] == place:
                machine, effect = line["effect"].split(".")
                how = "asks" if line.get("ask") else "signals"
                said = f"{how} {line['event']} over {line['over']}" if place == "coupling" else f"does {line['act']}"
                order[machine, effect].append(said)
    return order


class Recorder:
    """Stands for the acts, the relations and the ports: writes down who was called, and does nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.over = ""
        monkeypatch.setattr(cascade, "RELATIONS", {name: self.relation(name) for name in relations.RELATIONS})
        for kind in (Port, BlockPort):
            monkeypatch.setattr(kind, "signal", self.port("signals"))
            monkeypatch.setattr(kind, "ask", self.port("asks"))
        monkeypatch.setattr(Port, "each", lambda port, slots, event: [port.signal(slot, event) for slot in slots])
        self.doer = SimpleNamespace(**{act.act: self.act(act.act) for act in ACTS})

    def relation(self, name: str) -> Any:
        def yields(books: Books, record: Any) -> list[int]:
            self.over = name
            return [0]

        return yields

    def port(self, how: str) -> Any:
        def fire(port: Port, slot: int, event: int) -> None:
            self.log.append(f"{how} {port.name}.{port.table.EVENTS[event]} over {self.over}")

        return fire

    def act(self, name: str) -> Any:
        return lambda record, effect: self.log.append(f"does {name}")


@pytest.mark.parametrize("name", tables.TABLES)
def test_effects_run_in_the_order_of_the_row_and_of_the_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Acts that write a link before the couplings that follow it, acts that strike one after: order is meaning."""
    recorder = Recorder(monkeypatch)
    books: Any = Books(FOREIGN, tables.TABLES, LRU)
    for roster in (books.parts, books.jobs, books.batches, books.loads):
        roster.items.append(object())
    ports = Cascade(books)
    ports.wire(COUPLINGS, ACTS, recorder.doer)
    order, port = expected(), ports.ports[name]
    for row, effects in enumerate(port.table.EFFECTS):
        recorder.log.clear()
        for step in port.plan[row]:
            step(0)
        assert recorder.log == [said for effect in effects for said in order[name, effect]], port.table.ROWS[row]


def test_a_ledger_without_blocks_of_an_engine_never_looks_for_any(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    books: Any = Books(CONFIG, tables.TABLES, LRU)
    books.parts.items.append(object())
    ports = Cascade(books)
    ports.wire(COUPLINGS, ACTS, recorder.doer)
    for step in ports.part.plan[ports.part.table.ROWS.index("P01")]:
        step(0)
    assert recorder.log == ["signals block.read_begin over part_reads", "signals block.write_begin over part_writes"]


def test_every_effect_has_a_consequence() -> None:
    order = expected()
    effects = {(name, effect) for name, table in tables.TABLES.items() for row in table.EFFECTS for effect in row}
    assert effects == order.keys()


# -- names that do not exist -------------------------------------------------------------------------------------------

SOUND = Coupling("C99", "key", "unnamed", "block", "unpublish", "key_block", False)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"machine": "kye"}, "C99 names 'kye', and there is no such machine; there are block, foreign, key, load"),
        ({"target": "blok"}, "C99 names 'blok', and there is no such machine; there are block, foreign"),
        ({"event": "unpublsh"}, "C99 names 'unpublsh', and there is no such event of block; there are claim, commit"),
        ({"over": "key_blocks"}, "C99 names 'key_blocks', and there is no such relation; there are batch_bad_keys"),
    ],
)
def test_a_coupling_with_an_unknown_name_is_refused_at_birth(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match="there is no such") as refused:
        Ledger(CONFIG, couplings=(*COUPLINGS, SOUND._replace(**change)))
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("act", ["arm_wram", "books", ""])
def test_an_act_with_an_unknown_name_is_refused_at_birth(act: str) -> None:
    rows = (*ACTS, ActRow("D99", "key", "wait_warm", act, "before"))
    with pytest.raises(ValueError, match=f"D99 names an act '{act}', and the ledger can't do that"):
        Ledger(CONFIG, acts=rows)


def test_an_act_of_an_unknown_machine_is_refused_at_birth() -> None:
    with pytest.raises(ValueError, match="D99 names 'kye', and there is no such machine"):
        Ledger(CONFIG, acts=(*ACTS, ActRow("D99", "kye", "wait_warm", "arm_warm", "before")))
