"""The ledger by blocks: allocate and release against a plain pool, and the whole life of a block.

Reports are answered at once, as if every copy took no time: what is timed is the ledger and nothing else.
"""

from __future__ import annotations

from random import Random
from time import perf_counter_ns
from typing import TypeVar

from bench.events import by_hand_events, exported_events
from bench.measure import Line, Sense, Size, Spread, Timed, scaled, spread, timed, versus
from bench.pool import Pool
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Outcome, Report, Work
from kvstate.machines.verdicts import Ending, Grant, JobVerdict, LoadVerdict, Refusal, Short

BATCHES = {1: 4.0, 4: 4.0, 16: 4.0, 256: 1.0}
"""How many blocks at a time, and how many times the plain pool's cost that may be."""
LIFE = 256
SIZES = (1, 16, 256)
"""Blocks in one job, from which the cost of a job and of a block in it are taken apart."""

T = TypeVar("T")


def given(answer: T | Refusal | Short) -> T:
    """What was asked for; a bench that is refused measures nothing."""
    assert not isinstance(answer, Refusal | Short), answer
    return answer


# -- allocate and release ----------------------------------------------------------------------------------------------


def ledger_pairs(batch: int, blocks: int, *, scattered: bool = False) -> Timed:
    """Allocate so many blocks and give them back, again and again; they follow each other unless they are scattered."""
    ledger = Ledger(LedgerConfig((PoolConfig("device", 4096),)))
    lease = given(ledger.open("bench"))
    if scattered:
        refs = list(given(ledger.allocate(lease, 4096)).blocks)
        Random(0).shuffle(refs)
        given(ledger.release(lease, refs))
    pairs = -(-blocks // batch)

    def work() -> None:
        for _ in range(pairs):
            grant = ledger.allocate(lease, batch)
            assert isinstance(grant, Grant)
            ledger.release(lease, grant.blocks)

    return timed(work, pairs * batch)


def pool_pairs(batch: int, blocks: int) -> Timed:
    """The same with the plain pool."""
    pool = Pool(4096)
    pairs = -(-blocks // batch)

    def work() -> None:
        for _ in range(pairs):
            got = pool.allocate(batch)
            pool.release(got)

    return timed(work, pairs * batch)


# -- a life ------------------------------------------------------------------------------------------------------------


class Lives:
    """A ledger of two pools through which blocks pass in batches of one size, from birth to the host and back.

    Both pools hold one batch, so that every life finds them full of the life before and evicts it.
    """

    def __init__(self, batch: int, part: int = 16) -> None:
        self.batch = batch
        pools = (PoolConfig("device", batch), PoolConfig("host", batch))
        self.ledger = Ledger(LedgerConfig(pools, cool_for=0.0, part_blocks=part, batch_blocks=max(part, 64)))
        self.born = 0
        self.offload_ns = 0
        """Of the last life: accept, launch, answer and commit the job."""
        self.load_ns = 0
        """Of the last life: start the load, launch, answer and commit its batches, tell the verdict."""

    def life(self) -> int:
        """Allocate, seal, publish, offload, commit, release; hit, load, commit, release. Returns nanoseconds.

        Between the two halves another lease takes the whole device and gives it back, so that the hit lies below.
        That is not counted; the evictions that the halves themselves do are.
        """
        keys = [(self.born + line).to_bytes(32, "big") for line in range(self.batch)]
        self.born += self.batch
        begin = perf_counter_ns()
        self._store(keys)
        stored = perf_counter_ns()
        self._flush()
        flushed = perf_counter_ns()
        self._load(keys)
        return perf_counter_ns() - flushed + stored - begin

    def _store(self, keys: list[bytes]) -> None:
        ledger = self.ledger
        lease = given(ledger.open("bench"))
        refs = given(ledger.allocate(lease, self.batch)).blocks
        assert all(given(ledger.seal(lease, refs, keys)))
        begin = perf_counter_ns()
        assert len(given(ledger.offload(lease, refs)).refs) == self.batch
        self._answer()
        [verdict] = ledger.take_verdicts()
        self.offload_ns = perf_counter_ns() - begin
        assert isinstance(verdict, JobVerdict)
        assert verdict.ending is Ending.COMMITTED
        given(ledger.finish(lease))

    def _load(self, keys: list[bytes]) -> None:
        ledger = self.ledger
        lease = given(ledger.open("bench"))
        hit = given(ledger.lookup(lease, keys))
        assert len(hit.below) == self.batch
        into = given(ledger.allocate(lease, self.batch)).blocks
        begin = perf_counter_ns()
        given(ledger.load(lease, hit, into, deadline=ledger.books.now + 10.0))
        self._answer()
        verdict, _ = ledger.take_verdicts()
        self.load_ns = perf_counter_ns() - begin
        assert isinstance(verdict, LoadVerdict)
        assert verdict.ending is Ending.PROCEED
        given(ledger.finish(lease))

    def _answer(self) -> None:
        """Every copy is done at once, and so is whatever that sets off."""
        ledger = self.ledger
        while effects := ledger.take_effects():
            for effect in effects:
                assert isinstance(effect, Work)
                ledger.report(Report(effect.token, Outcome.DONE))

    def _flush(self) -> None:
        ledger = self.ledger
        lease = given(ledger.open("bench"))
        given(ledger.allocate(lease, self.batch))
        given(ledger.finish(lease))
        ledger.tick(ledger.books.now + 1.0)

    def turn(self, blocks: int) -> Timed:
        """Lives of so many blocks at least; nanoseconds per block."""
        lives = -(-blocks // self.batch)
        return lambda: sum(self.life() for _ in range(lives)) / (lives * self.batch)


def jobs(size: Size) -> list[Line]:
    """What a job costs however few blocks it has, and what each block adds: a line through sizes 1 and 256."""
    found: dict[int, tuple[Spread, Spread]] = {}
    for batch in SIZES:
        lives = Lives(batch)
        lives.life()
        offloads, loads = [], []
        for _ in range(size.turns * 4):
            lives.life()
            offloads.append(float(lives.offload_ns))
            loads.append(float(lives.load_ns))
        found[batch] = spread(offloads), spread(loads)
    small, large = SIZES[0], SIZES[-1]
    result = []
    for place, name in enumerate(("an offload", "a load")):
        one, many = found[small][place], found[large][place]
        each = (many.median - one.median) / (large - small)
        note = f"from jobs of {small} and {large} blocks"
        result.append(Line(f"{name}, a job", "us", scaled(one, 1e-3), note=f"the job of {small} block, whole"))
        result.append(
            Line(f"{name}, each further block", "us", Spread(each / 1e3, each / 1e3, each / 1e3, 1), note=note)
        )
        result.append(
            Line(f"{name} of 16 blocks, a block", "us", scaled(found[16][place], 1e-3 / 16), note="reports at once")
        )
    return result


def lines(size: Size) -> list[Line]:
    """Allocation against the plain pool; a life against one event of `transitions`; jobs by themselves."""
    result = []
    for batch, most in BATCHES.items():
        pair = versus(pool_pairs(batch, size.blocks * 4), ledger_pairs(batch, size.blocks), size.turns)
        name = f"allocate + release by {batch}: ledger / plain pool"
        note = f"a block: ledger {pair.second.median:,.0f} ns, pool {pair.first.median:,.0f} ns"
        result.append(Line(name, "x", pair.ratio, "at most", most, note))
    pair = versus(pool_pairs(256, size.blocks * 4), ledger_pairs(256, size.blocks, scattered=True), size.turns)
    result.append(
        Line("the same by 256, the ledger's blocks scattered", "x", pair.ratio, note="not one after the other")
    )
    few = size.events // 40
    kinds: tuple[tuple[str, Timed, int, float | None], ...] = (
        ("export", exported_events(few), LIFE, 0.5),
        ("by hand", by_hand_events(few), LIFE, None),
        ("export; parts of 16 blocks", exported_events(few), 16, None),
    )
    for name, event, part, limit in kinds:
        pair = versus(event, Lives(LIFE, part).turn(size.blocks), size.turns)
        note = f"a life {pair.second.median / 1e3:,.1f} us{'; the aim is 0.25' if limit else ''}"
        sense: Sense = "below" if limit else ""
        result.append(Line(f"a block's life / one transitions event ({name})", "x", pair.ratio, sense, limit, note))
    return result + jobs(size)
