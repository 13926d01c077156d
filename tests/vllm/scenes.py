"""The same faults for our connector and for vLLM's own: a rig for each, and the scenes that are played on both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from kvstate.machines.messages import Kind
from tests.vllm.faults import Faulty
from tests.vllm.tiny import BLOCK, Tiny, prompt

TOKENS = 6
FIRST, SECOND = prompt(21, 200), prompt(21, 150) + prompt(22, 60)
"""Two prompts that share four blocks."""
LONG = [prompt(seed, 13 * BLOCK) for seed in range(31, 36)]
"""Five that do not fit into vLLM's pool together once they have grown."""
LONG_TOKENS = 6 * BLOCK


class Outcome(NamedTuple):
    """What came of a scene."""

    engine: str
    """`lives`, or the exception that it died of."""
    tokens: str
    """Of all requests that were not aborted: `right`, `wrong`, or `none` where the engine is dead."""
    blocks: str
    """`free` if all are at rest, else `held`."""
    loads: int
    """How many copies into the device pool were begun."""


class Rig:
    """An engine, and the hand on its faults."""

    def __init__(self, engine: Tiny) -> None:
        self.engine = engine
        self.served: list[tuple[list[int], list[int]]] = []
        """Prompts and what came out."""

    def only(self, what: str, act: str, times: int = 1 << 30) -> None:
        """From here on, do this to each `store` or `load`, so many times."""
        raise NotImplementedError

    def arrivals(self, count: int) -> None:
        """So often each completion arrives."""
        raise NotImplementedError

    def corrupt(self) -> None:
        """Bits flip in every block of the host pool."""
        raise NotImplementedError

    def well(self) -> None:
        """All is well again; what was kept begins."""
        raise NotImplementedError

    def list_twice(self) -> None:
        """From here on, the connector sees the second block of each request as its first one once more."""
        raise NotImplementedError

    @property
    def loads(self) -> int:
        """Loads that were begun."""
        raise NotImplementedError

    def serve(self, *prompts: list[int], tokens: int = TOKENS, most: int = 5000) -> None:
        """Serve them to the end."""
        names = [self.engine.add(one, tokens) for one in prompts]
        self.engine.run(most)
        self.served += [(one, self.engine.tokens(name)) for one, name in zip(prompts, names, strict=True)]

    def forget(self) -> None:
        """vLLM's own cache is emptied, once it lets that be done."""
        self.engine.settle()
        assert self.engine.forget()


class Ours(Rig):
    """Our connector."""

    def __init__(self, engine: Tiny) -> None:
        super().__init__(engine)
        self.faulty = Faulty(engine)
        self._undo: Callable[[], None] = lambda: None

    def only(self, what: str, act: str, times: int = 1 << 30) -> None:
        self.faulty.only(Kind.STORE if what == "store" else Kind.FETCH, act, times)

    def arrivals(self, count: int) -> None:
        self.faulty.arrivals = count

    def corrupt(self) -> None:
        self.faulty.corrupt()

    def well(self) -> None:
        self.faulty.well()

    def list_twice(self) -> None:
        manager = self.engine.scheduler.kv_cache_manager
        real = manager.get_block_ids

        def twice(name: str) -> Any:
            return tuple([ids[0], ids[0], *ids[2:]] if len(ids) > 1 else ids for ids in real(name))

        manager.get_block_ids = twice
        self._undo = lambda: delattr(manager, "get_block_ids")

    def off(self) -> None:
        """Go away again."""
        self._undo()
        self.faulty.off()

    @property
    def loads(self) -> int:
        return self.faulty.loads

    @property
    def counts(self) -> Counter[str]:
        """What the connector has counted."""
        counts: Counter[str] = self.faulty.ours.counts.total
        return counts


class Stock(Rig):
    """vLLM's own connector."""

    def __init__(self, engine: Tiny) -> None:
        super().__init__(engine)
        from tests.vllm.stock_spec import STATE, State

        vars(STATE).update(vars(State()) | {"worker": STATE.worker})
        self.state = STATE

    def only(self, what: str, act: str, times: int = 1 << 30) -> None:
        left = [times]

        def decide(is_store: bool) -> str:
            if is_store != (what == "store") or not left[0]:
                return "go"
            left[0] -= 1
            return act

        self.state.act = decide

    def arrivals(self, count: int) -> None:
        self.state.arrivals = count

    def corrupt(self) -> None:
        assert self.state.worker is not None
        for tensor in self.state.worker.host:
            tensor[:, 3::64] ^= 0x40

    def well(self) -> None:
        assert self.state.worker is not None
        self.state.act, self.state.arrivals = lambda _is_store: "go", 1
        self.state.worker.let_go()

    def list_twice(self) -> None:
        half = self.engine.scheduler.connector.connector_scheduler
        real = half._build_store_jobs

        def build(output: Any) -> Any:
            for status in half._req_status.values():
                for group in status.group_states:
                    if len(group.block_ids) > 1:
                        group.block_ids[1] = group.block_ids[0]
            return real(output)

        half._build_store_jobs = build

    @property
    def loads(self) -> int:
        return self.state.loads


# -- the scenes --------------------------------------------------------------------------------------------------------


def a_load_fails(rig: Rig) -> None:
    """One load fails, once."""
    rig.serve(FIRST)
    rig.forget()
    rig.only("load", "fail", 1)
    rig.serve(FIRST, SECOND)


def a_load_that_always_fails(rig: Rig) -> None:
    """Every load fails, for as long as anybody asks."""
    rig.serve(FIRST)
    rig.forget()
    rig.only("load", "fail")
    rig.serve(FIRST, most=400)
    rig.well()


def a_completion_arrives_twice(rig: Rig) -> None:
    """Each completion comes twice, of stores and of loads."""
    rig.arrivals(2)
    rig.serve(FIRST)
    rig.forget()
    rig.serve(FIRST, SECOND)


def a_submit_raises(rig: Rig) -> None:
    """Whoever starts a load raises `OSError`."""
    rig.serve(FIRST)
    rig.forget()
    rig.only("load", "raise", 1)
    rig.serve(FIRST, SECOND)


def a_store_submit_raises(rig: Rig) -> None:
    """Whoever starts a store raises `OSError`."""
    rig.only("store", "raise", 1)
    rig.serve(FIRST)
    rig.forget()
    rig.serve(FIRST, SECOND)


def host_bytes_are_corrupted(rig: Rig) -> None:
    """Bits flip in each block of the host pool."""
    rig.serve(FIRST)
    rig.forget()
    rig.corrupt()
    rig.serve(FIRST, SECOND)


def a_completion_is_lost_and_the_request_aborted(rig: Rig) -> None:
    """A load's completion never arrives; the client gives up."""
    rig.serve(FIRST)
    rig.forget()
    rig.arrivals(0)
    name = rig.engine.add(FIRST, TOKENS)
    rig.engine.step(20)
    rig.engine.abort(name)
    rig.engine.step(20)
    rig.well()
    rig.serve(SECOND)


def a_block_is_listed_twice(rig: Rig) -> None:
    """A store job gets [b7, b7]."""
    rig.list_twice()
    rig.serve(FIRST)
    rig.forget()
    rig.serve(FIRST)


def preempted_under_a_store(rig: Rig) -> None:
    """Stores hang while memory runs out, so that requests are preempted under them."""
    rig.only("store", "keep")
    names = [rig.engine.add(one, LONG_TOKENS) for one in LONG]
    for _ in range(20_000):
        rig.engine.step()
        if any(request.num_preemptions for request in rig.engine.scheduler.requests.values()):
            break
    else:
        raise AssertionError("nobody was preempted")
    rig.engine.step(50)
    rig.well()
    rig.engine.run()
    rig.served += [(one, rig.engine.tokens(name)) for one, name in zip(LONG, names, strict=True)]
    rig.forget()
    rig.serve(*LONG)


def reset_under_a_store(rig: Rig) -> None:
    """All caches are reset while a store hangs."""
    rig.only("store", "keep")
    rig.serve(FIRST)
    rig.engine.llm.reset_prefix_cache(reset_connector=True)
    rig.well()
    rig.forget()
    rig.serve(FIRST, SECOND)


def reset_under_a_load(rig: Rig) -> None:
    """All caches are reset while a load hangs."""
    rig.serve(FIRST)
    rig.forget()
    rig.only("load", "keep")
    name = rig.engine.add(FIRST, TOKENS)
    rig.engine.step(20)
    rig.engine.llm.reset_prefix_cache(reset_connector=True)
    rig.engine.step(5)
    rig.well()
    rig.engine.run()
    rig.served.append((FIRST, rig.engine.tokens(name)))
    rig.serve(SECOND)


SCENES: tuple[Callable[[Rig], None], ...] = (
    a_load_fails,
    a_load_that_always_fails,
    a_completion_arrives_twice,
    a_submit_raises,
    a_store_submit_raises,
    host_bytes_are_corrupted,
    a_completion_is_lost_and_the_request_aborted,
    a_block_is_listed_twice,
    preempted_under_a_store,
    reset_under_a_store,
    reset_under_a_load,
)


def play(scene: Callable[[Rig], None], rig: Rig, right: Callable[[list[int], int], list[int]]) -> Outcome:
    """The scene, and the engine brought to rest. `right` says what a prompt's tokens have to be."""
    loads = rig.loads
    try:
        scene(rig)
        rig.well()
        rig.engine.settle(3000)
        state = "lives"
    except TimeoutError:
        state = "lives"
    except Exception as error:  # whatever an engine may die of
        state = type(error).__name__
    wrong = any(out != right(one, len(out)) for one, out in rig.served)
    tokens = "wrong" if wrong else "right" if state == "lives" else "none"
    return Outcome(state, tokens, "free" if not rig.engine.used else "held", rig.loads - loads)
