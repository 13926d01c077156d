"""Each question of the oracle by itself: an engine that says and does what the test tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from kvstate.testing import Adapter, Copier, Free, Report, Scope, View
from kvstate.testing.kit.laws import Found
from kvstate.testing.kit.memory import JUNK, POISON, ROTTEN, Place
from kvstate.testing.kit.play import Play


class Puppet(Adapter):
    """Its tables, index and numbers are whatever was put there."""

    faults = ("failed", "corrupt")
    steps = True

    def __init__(self, scope: Scope, copier: Copier) -> None:
        self.copier = copier
        self.next: View | None = None
        self.views: dict[str, View | None] = {}
        self.slots: dict[str, int] = {}
        self.numbers = Free(0)
        self.left: tuple[str, ...] = ()

    def admit(self, request: str, keys: Sequence[str]) -> bool:
        self.views[request] = self.next
        return self.next is not None

    def view(self, request: str) -> View | None:
        return self.views[request]

    def compute(self, request: str, step: int) -> None: ...
    def offload(self, request: str) -> None: ...
    def finish(self, request: str) -> None: ...
    def abort(self, request: str) -> None: ...
    def on_report(self, report: Report) -> None: ...

    def free(self) -> Free:
        return self.numbers

    def index(self) -> Mapping[str, int]:
        return self.slots

    def close(self) -> Sequence[str]:
        return self.left


class Stage:
    """A world with a puppet in it."""

    def __init__(self, **flags: bool) -> None:
        built = type("Flagged", (Puppet,), flags)
        self.world = Play(built, Scope())
        engine = self.world.engine
        assert isinstance(engine, Puppet)
        self.engine = engine
        self.copier = engine.copier

    def admit(self, *blocks: int, ready: bool = False, waiting: bool = False, chain: int = 0) -> str:
        """A request comes and is given these blocks."""
        self.engine.next = View(blocks, (ready,) * len(blocks), waiting)
        self.world.do(("admit", chain, len(blocks) - 1))
        return f"r{self.world.arrived}"

    def put(self, place: str, content: str) -> None:
        self.world.memory.contents[Place(place[0], int(place[1:]))] = content

    def compute(self) -> None:
        """Everything is filled, and the engine knows."""
        for name, request in self.world.requests.items():
            for _, place, key, _ in request.rows():
                self.world.memory.contents[place] = key
            self.engine.views[name] = View(request.view.blocks, (True,) * len(request.view.blocks))
        self.world.settle()

    def gone(self, name: str) -> None:
        self.world.requests.pop(name)


@contextmanager
def broken(law: str, said: str = "") -> Iterator[None]:
    with pytest.raises(Found) as found:
        yield
    assert found.value.violation.law == law
    assert said in found.value.violation.sentence


# -- who has a block -----------------------------------------------------------------------------------------------


def test_a_block_twice_in_one_table() -> None:
    with broken("L3.one_owner", "twice in the table of r1"):
        Stage().admit(2, 2)


def test_a_block_as_two_keys() -> None:
    stage = Stage()
    stage.admit(2)
    with broken("L3.one_owner", "b2 is r1's as A1, and of r2 as B1"):
        stage.admit(2, chain=1)


def test_a_block_that_two_are_to_fill() -> None:
    stage = Stage()
    stage.admit(2)
    with broken("L3.one_owner", "both are to fill it"):
        stage.admit(2)


def test_two_may_wait_for_one_load() -> None:
    stage = Stage()
    stage.admit(2, waiting=True)
    stage.admit(2, waiting=True)


def test_a_block_may_be_shared() -> None:
    stage = Stage()
    stage.admit(2)
    stage.compute()
    stage.admit(2, ready=True)


def test_a_block_is_given_out_anew_when_it_comes_back_at_another_place() -> None:
    stage = Stage()
    name = stage.admit(2, 3)
    stage.compute()
    stage.engine.views[name] = View((1, 2), (False, False))
    stage.world.settle()
    assert stage.world.memory.at(Place("b", 2)) == POISON


@pytest.mark.parametrize("kind", ["store", "load"])
def test_a_block_is_given_out_under_a_copy(kind: str) -> None:
    stage = Stage()
    name = stage.admit(2)
    stage.compute()
    if kind == "store":
        stage.copier.store([2], [0], ["A1"], "job")
    else:
        stage.copier.load([0], [2], ["A1"], "job")
    stage.world.settle()
    stage.gone(name)
    with broken("L3.no_reuse", f"b2 was given to r2 for A1 while copy 1, a {kind} of"):
        stage.admit(2)


# -- copies --------------------------------------------------------------------------------------------------------


def test_a_copy_that_writes_one_place_twice() -> None:
    stage = Stage()
    stage.copier.store([0, 1], [3, 3], ["A1", "A2"], "job")
    with broken("L3.no_reuse", "it writes h3 twice"):
        stage.world.settle()


@pytest.mark.parametrize("first", ["store", "load"])
def test_a_copy_into_what_another_touches(first: str) -> None:
    stage = Stage()
    if first == "store":
        stage.copier.store([0], [3], ["A1"], "one")
    else:
        stage.copier.load([3], [0], ["A1"], "one")
    stage.world.settle()
    stage.copier.store([1], [3], ["B1"], "two")
    with broken("L3.no_reuse", f"still {'writes' if first == 'store' else 'reads'} h3"):
        stage.world.settle()


def test_a_copy_from_what_another_writes() -> None:
    stage = Stage()
    stage.copier.store([0], [3], ["A1"], "one")
    stage.world.settle()
    stage.copier.load([3], [1], ["A1"], "two")
    with broken("L3.no_reuse", "still writes h3"):
        stage.world.settle()


def test_two_copies_may_read_one_place() -> None:
    stage = Stage()
    stage.admit(2)
    stage.compute()
    for slot in (0, 1):
        stage.copier.store([2], [slot], ["A1"], slot)
    stage.world.settle()


def test_a_copy_lands_where_somebody_else_is() -> None:
    stage = Stage()
    stage.copier.load([3], [1], ["A1"], "one")
    stage.world.settle()
    stage.world.memory.hand(Place("b", 1))
    with broken("L3.no_reuse", "writes b1, which was given to somebody else meanwhile"):
        stage.world.do(("land", 0))


def test_a_store_of_other_bytes() -> None:
    stage = Stage()
    stage.admit(2)
    stage.compute()
    stage.copier.store([2], [0], ["B1"], "job")
    stage.world.settle()
    with broken("L9.stored", "files A1 as B1"):
        stage.world.do(("land", 0))


def test_a_store_waits_for_its_step() -> None:
    stage = Stage()
    stage.admit(2)
    stage.world.do(("dispatch", 0))
    stage.copier.store([2], [0], ["A1"], "job", after=1)
    stage.world.settle()
    assert not stage.world.do(("land", 0))
    assert stage.world.do(("retire",))
    assert stage.world.do(("land", 0))
    assert stage.world.memory.at(Place("h", 0)) == "A1"


def test_a_store_that_does_not_wait_reads_what_was_there_before() -> None:
    stage = Stage()
    stage.admit(2)
    stage.world.do(("dispatch", 0))
    stage.copier.store([2], [0], ["A1"], "job")
    stage.world.settle()
    with broken("L9.stored", "files what was there before as A1"):
        stage.world.do(("land", 0))


@pytest.mark.parametrize("landed", [False, True])
def test_a_step_writes_where_a_copy_was_sent_for_another(landed: bool) -> None:
    stage = Stage()
    name = stage.admit(2)
    stage.world.do(("dispatch", 0))
    stage.gone(name)
    stage.admit(2, waiting=True, chain=1)
    stage.copier.load([0], [2], ["B1"], "job")
    stage.world.settle()
    if landed:
        stage.world.do(("land", 0))
    with broken("L3.no_reuse", "step 1 writes b2, to which a copy was sent"):
        stage.world.do(("retire",))


def test_a_step_may_write_before_the_step_of_the_next_owner() -> None:
    """They run one after the other on the device; what the first leaves is overwritten."""
    stage = Stage()
    name = stage.admit(2)
    stage.world.do(("dispatch", 0))
    stage.gone(name)
    stage.admit(2, chain=1)
    stage.world.do(("dispatch", 0))
    assert stage.world.do(("retire",))
    assert stage.world.do(("retire",))
    assert stage.world.memory.at(Place("b", 2)) == "B1"


# -- what is claimed -----------------------------------------------------------------------------------------------


def test_a_promise_of_other_bytes() -> None:
    stage = Stage()
    with broken("L9.bytes", "r1 relies on b2 for A1, and it holds nothing"):
        stage.admit(2, ready=True)


def test_a_promise_of_what_a_failed_copy_left() -> None:
    stage = Stage()
    stage.put("b2", JUNK)
    with broken("L5.failed", "half of a copy"):
        stage.admit(2, ready=True)


def test_a_promise_of_what_a_step_will_write() -> None:
    stage = Stage()
    name = stage.admit(2)
    stage.world.do(("dispatch", 0))
    stage.engine.views[name] = View((2,), (True,))
    stage.world.settle()


@pytest.mark.parametrize(
    ("content", "law", "said"),
    [("B1", "L9.index", "holds B1"), (JUNK, "L5.failed", "half"), (POISON, "L9.index", "before")],
)
def test_an_index_that_lies(content: str, law: str, said: str) -> None:
    stage = Stage()
    stage.put("h1", content)
    stage.engine.slots = {"A1": 1}
    with broken(law, said):
        stage.world.settle()


def test_an_index_that_is_early_is_told_of_the_copy() -> None:
    stage = Stage()
    stage.copier.store([0], [1], ["A1"], "job")
    stage.engine.slots = {"A1": 1}
    with broken("L9.index", "copy 1, a store of b0 to h1 (A1) has not landed"):
        stage.world.settle()


def test_an_index_is_not_to_blame_for_bytes_that_went_bad() -> None:
    stage = Stage()
    stage.put("h1", "A1")
    stage.engine.slots = {"A1": 1}
    stage.world.do(("corrupt", 0))
    assert stage.world.memory.at(Place("h", 1)) == ROTTEN


@pytest.mark.parametrize("numbers", [Free(-1), Free(5), Free(3), Free(0, 5), Free(0, -1)])
def test_numbers_that_can_not_be(numbers: Free) -> None:
    stage = Stage()
    stage.admit(0, 1)
    stage.engine.numbers = numbers
    with broken("L8.balance"):
        stage.world.settle()


def test_a_number_that_counts_what_a_copy_still_writes() -> None:
    stage = Stage()
    name = stage.admit(0, waiting=True)
    stage.copier.load([0], [0], ["A1"], "job")
    stage.engine.numbers = Free(3)
    stage.world.settle()
    stage.gone(name)
    stage.world.settle()
    stage.engine.numbers = Free(4)
    with broken("L3.no_reuse", "free() says 4 device blocks, and counts b0, under a copy"):
        stage.world.settle()


def test_a_work_that_begins_twice() -> None:
    stage = Stage()
    stage.copier.began("job")
    stage.copier.began("job")
    with broken("L1.verdict_once", "began twice"):
        stage.world.settle()


@pytest.mark.parametrize(("told", "said"), [(1, "never began"), (2, "never began")])
def test_a_work_that_never_began(told: int, said: str) -> None:
    stage = Stage()
    for _ in range(told):
        stage.copier.told("job")
    with broken("L1.verdict_once", said):
        stage.world.settle()


def test_a_work_whose_end_is_told_twice() -> None:
    stage = Stage()
    stage.copier.began("job")
    stage.copier.told("job")
    stage.world.settle()
    stage.copier.told("job")
    with broken("L1.verdict_once", "twice how work 'job' ended"):
        stage.world.settle()


# -- the end -------------------------------------------------------------------------------------------------------


def all_given(stage: Stage) -> None:
    stage.engine.numbers = Free(stage.world.scope.device)


def test_a_request_that_waits_for_ever() -> None:
    stage = Stage()
    stage.admit(0, waiting=True)
    with broken("L7.wait", "r1 waits for a load"):
        stage.world.rest()


def test_blocks_that_are_not_free_in_the_end() -> None:
    stage = Stage()
    stage.engine.numbers = Free(3)
    with broken("L8.leak", "free() says 3 of 4 device blocks"):
        stage.world.rest()
    stage.engine.numbers = Free(4, 3)
    with broken("L8.leak", "free() says 3 of 4 host slots"):
        stage.world.rest()


def test_blocks_that_can_not_be_had_though_they_are_counted() -> None:
    stage = Stage()
    all_given(stage)
    with broken("L8.leak", "no request can have 4 of the 4 device blocks"):
        stage.world.rest()


def test_what_the_engine_says_when_it_is_closed() -> None:
    from examples.naive_engines.tiny import Tiny

    class Left(Tiny):
        def close(self) -> Sequence[str]:
            return ("a lock is held",)

    with broken("L11.rest", "a lock is held"):
        Play(Left, Scope()).rest()


def test_a_leak_that_only_the_last_probe_makes() -> None:
    from examples.naive_engines.tiny import Tiny

    class Late(Tiny):
        closing = False

        def free(self) -> Free:
            free = super().free()
            return free._replace(device=free.device - 1) if self.closing and not self.lives else free

        def finish(self, request: str) -> None:
            super().finish(request)
            self.closing = request.startswith("probe")

    with broken("L8.leak", "prompts were served once more"):
        Play(Late, Scope()).rest()
