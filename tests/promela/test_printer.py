"""The printed model has what the data has, and what it can't have is refused in a sentence."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kvstate.cli import run
from kvstate.explore.scopes import SCOPES, Request, Scope
from kvstate.promela.layout import layout
from kvstate.promela.printer import LAWS, print_model
from kvstate.promela.shape import Shape, UnprintableError
from kvstate.promela.states import begin
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Act, Relation
from tests.promela.pins import STATES

SPEC = load_spec(check=False)
EVERYTHING = print_model(begin(SCOPES["store-load"]))
"""A scope with jobs and loads."""


def rows_in(model: str) -> set[str]:
    return set(re.findall(r"/\* ([A-Z]\d+) \*/", model))


def test_every_row_of_a_machine_with_records_is_printed() -> None:
    for name, has in (("store-load", "block key load offload part transfer"), ("job", "block key offload part")):
        rows = {row.id for machine in SPEC.machines if machine.name in has.split() for row in machine.rows}
        assert rows_in(print_model(begin(SCOPES[name]))) == rows


def test_a_machine_without_records_is_left_out() -> None:
    words = ("short load_state", "short transfer_state", "what == C24 ", "service_state")
    job = print_model(begin(SCOPES["job"]))
    assert [word for word in words if word in job] == []
    assert [word for word in words if word in EVERYTHING] == list(words[:3])


def test_every_coupling_and_act_between_machines_with_records_is_a_step() -> None:
    here = {"block", "part", "key", "offload", "transfer", "load"}
    lines = {line.id for line in SPEC.couplings if {line.machine, line.target} <= here}
    lines |= {act.id for act in SPEC.acts if act.machine in here}
    assert {line for line in lines if f":: what == {line} ->" not in EVERYTHING} == set()


def test_the_effects_of_a_row_are_pushed_last_first() -> None:
    row = EVERYTHING[EVERYTHING.index("/* X17 */") :]
    pushed = re.findall(r"push\((\w+), who\)", row[: row.index("::")])
    done = {"rollback": ["C26"], "cool": ["C30"], "unpin": ["C28", "D20"], "fell": ["D18", "C34"]}
    order = [step for effect in ("rollback", "cool", "unpin", "fell") for step in done[effect]]
    assert [step for step in reversed(pushed) if step in order] == order


def test_right_sides_are_computed_before_left_sides_are_written() -> None:
    row = next(
        row for row in SPEC.machine("block").rows if len([name for name, _ in row.sets if name != "generation"]) > 1
    )
    text = EVERYTHING[EVERYTHING.index(f"/* {row.id} */") :]
    text = text[: text.index("::")]
    assert text.index("new_1 = ") < text.index("[who] = new_0")


def test_what_is_declared_is_the_layout() -> None:
    declared = dict(re.findall(r"^short (\w+)(?:\[(\d+)\])? = ", EVERYTHING, re.MULTILINE))
    viewer = begin(SCOPES["store-load"])
    arrays = {array.name: str(array.size or "") for array in layout(viewer.shape)}
    assert {name: declared.get(name) for name in arrays} == arrays
    assert set(viewer.arrays(viewer.beginning)) == set(arrays)


def test_every_law_is_asserted() -> None:
    assert [law for law in LAWS if f"assert({law})" not in EVERYTHING] == []


@pytest.mark.long
def test_every_scope_that_can_be_printed_is_pinned() -> None:
    printable = set()
    for name, scope in SCOPES.items():
        try:
            print_model(begin(scope))
        except UnprintableError:
            continue
        printable.add(name)
    assert printable == set(STATES)


# -- what it can't print -----------------------------------------------------------------------------------------------

TWICE = ("allocate", "lookup")
LEDGER = "ledger device=b0,b1 host=h0,h1 part=1 batch=2 attempts=1"
STORE = ("allocate", "compute", "store", "finish")
PLAIN = Scope("odd", "a scope for tests", LEDGER, (Request("r1", ("K1",), STORE),))


def on(ledger: str) -> Scope:
    return PLAIN._replace(ledger=ledger)


@pytest.mark.parametrize(
    ("odd", "sentence"),
    [
        (PLAIN._replace(requests=(Request("r1", ("K1",), TWICE),)), "r1 looks up when it may own blocks"),
        (PLAIN._replace(depth=10), "it sets depth, of which the Promela model knows nothing"),
        (on("ledger device=b0 part=1"), "it has 1 pools; the Promela model is of 2"),
        (on(LEDGER.replace("part=1", "part=2")), "it has 2 blocks in a part (part=); the Promela model is of 1"),
        (on(f"{LEDGER} ranks=2"), "it has 2 ranks; the Promela model is of 1"),
        (on(f"{LEDGER} grace=1.3"), "grace is 1.3 s; the Promela model counts time in retry_delay, which is 0.5 s"),
    ],
)
def test_a_scope_that_asks_for_more_is_refused(odd: Scope, sentence: str) -> None:
    with pytest.raises(UnprintableError, match=re.escape(sentence)) as refused:
        begin(odd)
    assert str(refused.value).startswith("scope odd: ")


def test_an_operation_that_the_model_does_not_have_is_refused() -> None:
    odd = PLAIN._replace(requests=(Request("r1", ("K1",), ("allocate", "dream")),))
    with pytest.raises(UnprintableError, match=r"^scope odd: r1 is to dream, which the Promela model"):
        Shape(SPEC, odd, begin(PLAIN).shape.config)


def test_a_setting_that_the_model_does_not_know_is_refused() -> None:
    shape = begin(PLAIN).shape
    with pytest.raises(UnprintableError, match="it sets incarnation, of which the Promela model knows nothing"):
        Shape(SPEC, PLAIN, replace(shape.config, incarnation=2))


def test_a_relation_and_an_act_that_nobody_has_written_are_refused() -> None:
    line = next(line for line in SPEC.couplings if line.id == "C03")
    far = replace(
        SPEC, couplings=tuple(replace(one, over="far_blocks") if one is line else one for one in SPEC.couplings)
    )
    far = replace(far, relations=(*far.relations, Relation("far_blocks", "part", "block", "Far ones.")))
    with pytest.raises(UnprintableError, match=r"C03: the Promela model has no inline rel_far_blocks; write it in"):
        print_model(begin(PLAIN, far))
    sings = replace(SPEC, acts=(*SPEC.acts, Act("D99", "part", "let_go", "sing", "after", "For joy.")))
    with pytest.raises(UnprintableError, match=r"D99: the Promela model has no inline act_part_sing; write it in"):
        print_model(begin(PLAIN, sings))


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["promela"]) == 0
    assert capsys.readouterr().out == EVERYTHING
    assert run(["promela", "--scope", "job", "--states"]) == 0
    assert 'printf("STATE")' in capsys.readouterr().out


@pytest.mark.parametrize(("scope", "word"), [("jbo", "did you mean job?"), ("soak", "it sets depth, of which")])
def test_the_command_refuses_what_is_not_there(scope: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["promela", "--scope", scope]) == 2
    assert word in capsys.readouterr().err
