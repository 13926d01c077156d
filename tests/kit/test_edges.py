"""What the kit says of an adapter that is none, of steps that are none, and what importing it brings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from examples.naive_engines.tiny import Life, Tiny
from kvstate.testing import AdapterError, Free, Report, Scope, View, replay, search
from kvstate.testing.kit import hypo
from kvstate.testing.kit.find import OWN, find_adapter
from kvstate.testing.kit.play import VERBS, Play
from kvstate.testing.kit.story import read_record, record
from kvstate.testing.kit.walks import MIXES
from kvstate.testing.own import KVStateEngine
from tests.tidy.files import ROOT

# -- finding an adapter --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "write it module:Class"),
        (":Class", "write it module:Class"),
        ("no.such.module:Class", "there is no module no"),
        ("examples.naive_engines.tiny:Tinny", "did you mean Tiny?"),
        ("examples.naive_engines.tiny:Pool", "a subclass of kvstate.testing.Adapter"),
        ("examples.naive_engines.tiny:Tiny.admit", "is no adapter"),
        ("kvstate.testing.adapter:Adapter", "lacks abort, admit, compute, finish, free, offload, on_report, view"),
    ],
)
def test_a_wrong_name_is_one_sentence(name: str, said: str) -> None:
    with pytest.raises(AdapterError, match=said) as error:
        find_adapter(name)
    assert "\n" not in str(error.value)


def test_a_module_that_can_not_be_imported_says_why(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "kit_needy.py").write_text("import no_such_thing\n", encoding="utf-8")
    (folder / "kit_wrong.py").write_text("1 / 0\n", encoding="utf-8")
    (folder / "kit_fault.py").write_text(
        "from examples.naive_engines.tiny import Tiny\nclass Mine(Tiny):\n    faults = ('fire',)\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(folder))
    for name, said in (
        ("kit_needy", "needs no_such_thing, which is not installed"),
        ("kit_wrong", "ZeroDivisionError"),
        ("kit_fault", "declares the fault 'fire'"),
    ):
        with pytest.raises(AdapterError, match=said):
            find_adapter(f"{name}:Mine")


def test_the_own_adapter_is_found() -> None:
    assert find_adapter(OWN) is KVStateEngine


# -- an adapter that breaks the protocol ---------------------------------------------------------------------------


def change(life: Callable[[Life], View]) -> type[Tiny]:
    class Changed(Tiny):
        def view(self, request: str) -> View:
            return life(self.lives[request])

    return Changed


class Unwritten(Tiny):
    def offload(self, request: str) -> None:
        raise NotImplementedError


class Uneven(Tiny):
    def offload(self, request: str) -> None:
        self.copier.store([0], [0], [], "uneven")


class Beyond(Tiny):
    def offload(self, request: str) -> None:
        self.copier.store([0], [99], ["A1"], "beyond")


class Unbuilt(Tiny):
    def __init__(self, *_: object) -> None:
        raise OSError("no device")


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (change(lambda life: View(tuple(life.blocks), ())), "0 times ready"),
        (change(lambda life: View((), ())), "admit() gives one for each key"),
        (change(lambda life: View((77,) * len(life.keys), (False,) * len(life.keys))), "r1 has block 77"),
        (change(lambda life: View((-1,) * len(life.keys), (False,) * len(life.keys))), "r1 has block -1"),
        (Unwritten, "Unwritten.offload is not written yet"),
        (Uneven, "1 sources, 1 targets and 0 keys"),
        (Beyond, "a copy names 99"),
        (Unbuilt, "building the engine raised OSError: no device"),
    ],
)
def test_an_adapter_that_breaks_the_protocol_is_no_finding(engine: type[Tiny], said: str) -> None:
    with pytest.raises(AdapterError) as error:
        replay(engine, [("admit", 0, 1), ("run", 0), ("offload", 0)])
    assert said in str(error.value)
    with pytest.raises(AdapterError):
        search(engine, steps=500)


# -- steps and scopes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([("admit", 0, 0), ("dance",)], "step 2: there is no 'dance'"),
        ([("admit", 0)], "admit takes 2 whole numbers"),
        ([("run", -1)], "run takes 1 whole numbers"),
    ],
)
def test_a_step_that_is_none_is_refused(steps: Sequence[Sequence[str | int]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replay(Tiny, steps)


@pytest.mark.parametrize("change", [{"device": 0}, {"longest": 5}, {"chains": 27}, {"host": -1}, {"requests": 1.5}])
def test_a_scope_that_is_none_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        Scope(**change)


def test_a_search_needs_an_end() -> None:
    with pytest.raises(ValueError, match="give seconds or steps"):
        search(Tiny)


def test_every_verb_is_a_move_and_has_a_weight() -> None:
    for mix in MIXES.values():
        assert mix.keys() == VERBS.keys()
    for verb in VERBS:
        assert getattr(Play, verb).__doc__
    assert set(Play(KVStateEngine, Scope()).verbs()) == set(VERBS)


def test_every_verb_does_something_to_the_own_engine() -> None:
    seen: set[object] = set()

    class Watched(Play):
        def do(self, step: tuple[str | int, ...]) -> bool:
            done = super().do(step)
            seen.update(step[:1] if done else ())
            return done

    from random import Random

    for seed in range(30):
        world, random = Watched(KVStateEngine, Scope()), Random(seed)
        for verb in random.choices(list(VERBS), k=80):
            world.do((verb, *(random.randint(0, 3) for _ in range(VERBS[verb]))))
        world.rest()
    assert seen == set(VERBS)


def test_a_step_that_does_not_apply_does_nothing() -> None:
    world = Play(Tiny, Scope())
    assert not any(world.do((verb, *(0,) * count)) for verb, count in VERBS.items() if verb in ("run", "land", "twice"))
    assert world.said == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kvstate-kit": 9}, 'it has no "kvstate-kit": 1'),
        ({"scope": {}}, "its scope has to have"),
        ({"steps": "land 1"}, "a list of lists"),
        ({"steps": [["dance"]]}, "there is no 'dance'"),
        ({"scope": {"device": 0, "host": 1, "chains": 1, "longest": 1, "requests": 1}}, "device: 0"),
    ],
)
def test_a_record_that_is_none_is_refused(change: dict[str, object], said: str) -> None:
    steps: list[tuple[str | int, ...]] = [("admit", 0, 0)]
    data = json.loads(record(OWN, steps, Scope(), replay(Tiny, steps)))
    with pytest.raises(AdapterError) as error:
        read_record(json.dumps(data | change))
    assert said in str(error.value)
    with pytest.raises(AdapterError, match="no JSON"):
        read_record("{")


# -- what it needs -------------------------------------------------------------------------------------------------


def python(code: str) -> list[str]:
    """Run it in a process of its own; the words that it prints."""
    command = [sys.executable, "-c", f"import sys\n{code}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout.split()


def test_the_kit_needs_neither_torch_nor_numpy_nor_pytest_nor_hypothesis() -> None:
    """None of them can be imported, and the kit finds that nothing is wrong."""
    python("sys.modules.update(dict.fromkeys(['torch', 'numpy', 'pytest', 'hypothesis']))\n"
           "import kvstate.testing as kit\nfrom kvstate.testing.own import KVStateEngine\n"
           "assert kit.search(KVStateEngine, steps=50).violation is None")  # fmt: skip


def test_the_plugin_costs_nothing_where_it_is_not_used() -> None:
    """And brings no module that a measurement of coverage, which begins later, would miss."""
    brought = python("import kvstate.testing.plugin\nprint(*sys.modules)")
    assert "kvstate.testing.plugin" in brought
    assert not [name for name in brought if name.startswith("kvstate.machines")]


def test_without_hypothesis_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(AdapterError, match="pip install hypothesis"):
        hypo.by_hypothesis(Tiny, examples=1)


def test_what_an_engine_may_leave_out() -> None:
    """Of `Adapter` nothing is needed beyond its abstract methods."""
    engine = Tiny(Scope(), Play(Tiny, Scope()).yard)
    assert engine.counted() == {}
    assert not engine.check()
    assert not engine.close()
    engine.on_report(Report("nobody", "done"))
    assert engine.free() == Free(4, 4)
