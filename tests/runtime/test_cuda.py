"""The copier for CUDA, on a device in software: order, batches, fall-back, errors. No GPU has a part in it."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome, Report, Token, Work
from kvstate.runtime.copiers import Copier, CopierClosedError, Progress
from kvstate.runtime.copiers import cuda as copying
from kvstate.runtime.copiers.cuda import CudaCopier
from kvstate.runtime.copiers.driver import DriverError
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.seals import Mark
from kvstate.runtime.tensors import KVPool
from tests.runtime.parts import fill, holds, key, part, pools
from tests.runtime.soft_driver import Mark as Event
from tests.runtime.soft_driver import SoftDriver

SRC, DST = [3, 4, 5, 9, 1, 2], [40, 41, 42, 50, 60, 33]
KEYS = [key(number) for number in range(6)]
BLOCK = 64
ILLEGAL = DriverError("700", "an illegal memory access was encountered")
Make = Callable[..., tuple[CudaCopier, SoftDriver, Memory]]


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def make(inbox: Inbox) -> Iterator[Make]:
    """Makes copiers, each with its device, and closes them at the end."""
    made: list[tuple[CudaCopier, SoftDriver]] = []

    def one(
        memory: Memory | None = None, *, batched: bool = True, eager: bool = True, **options: object
    ) -> tuple[CudaCopier, SoftDriver, Memory]:
        memory = memory or pools()
        driver = SoftDriver(batched=batched, eager=eager)
        options = {"integrity": Integrity.HOST, **options}
        copier = CudaCopier(memory, inbox, driver, **options)  # type: ignore[arg-type]
        made.append((copier, driver))
        return copier, driver, memory

    yield one
    for copier, driver in made:
        driver.eager = True
        driver.advance()
        copier.close(5.0)


def layered(blocks: int = 32, layers: int = 3) -> Memory:
    """A device pool of [2, blocks, 32] for each layer, of 16-bit numbers, and a host pool in one run."""
    tensors = [torch.zeros(2, blocks, 16, dtype=torch.bfloat16) for _ in range(layers)]
    device = KVPool.from_tensors("device", 0, tensors, block_dim=1)
    return Memory([device, Pool("host", blocks, 32, device.block_bytes)])


def reports(inbox: Inbox, count: int) -> list[Report]:
    """So many reports, when they have come."""
    end = time.monotonic() + 10
    while len(inbox) < count:
        assert time.monotonic() < end, f"{len(inbox)} of {count} reports came"
        inbox.wait(0.05)
    return inbox.drain(99)


def store(serial: int = 1, src: Sequence[int] = SRC, dst: Sequence[int] = DST) -> Work:
    return part(Kind.STORE, src, dst, [key(number) for number in range(len(src))], serial)


# -- what is copied ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("memory", [pools, layered])
def test_there_and_back_every_byte_is_where_it_belongs(
    make: Make, inbox: Inbox, memory: Callable[[], Memory], batched: bool
) -> None:
    copier, _, there = make(memory(), batched=batched)
    host = there.pools[1]
    content = torch.arange(host.block_bytes * 6, dtype=torch.int64).to(torch.uint8).view(6, -1).numpy()
    for block, data in zip(SRC, content, strict=True):
        there.pools[0].put(block, data)
    copier.submit(store())
    (done,) = reports(inbox, 1)
    assert done == Report(Token(1, 1), Outcome.DONE)
    assert all((host.bytes_of(block - 32) == data).all() for block, data in zip(DST, content, strict=True))
    assert [host.seals.marks[block - 32] for block in DST] == [Mark.SUMMED] * 6
    back = [20, 21, 11, 12, 13, 14]
    copier.submit(part(Kind.FETCH, DST, back, KEYS, 2))
    copier.submit(part(Kind.VERIFY, DST, back, KEYS, 3))
    assert [report.outcome for report in reports(inbox, 2)] == [Outcome.DONE] * 2
    assert all((there.bytes_of(block) == data).all() for block, data in zip(back, content, strict=True))
    used = {*SRC, *back}
    assert not any(there.bytes_of(block).any() for block in range(32) if block not in used)


def test_neighbours_on_both_sides_are_one_copy(make: Make, inbox: Inbox) -> None:
    copier, driver, _ = make()
    copier.submit(store())
    reports(inbox, 1)
    assert "store: batch of 192, 64, 64, 64" in driver.log
    copier.submit(store(2, range(8), range(40, 48)))
    reports(inbox, 1)
    assert "store: batch of 512" in driver.log


def test_a_block_in_pieces_is_a_copy_for_each(make: Make, inbox: Inbox) -> None:
    copier, driver, _ = make(layered())
    copier.submit(store(1, [3, 4], [40, 41]))
    reports(inbox, 1)
    assert driver.log[-2] == f"store: batch of {', '.join(['32'] * 12)}"


def test_a_part_of_many_copies_is_several_batches_and_one_event(
    make: Make, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "MOST_COPIES", 3)
    copier, driver, memory = make()
    fill(memory, SRC, KEYS)
    copier.submit(store())
    reports(inbox, 1)
    assert driver.log[-3:] == ["store: batch of 192, 64, 64", "store: batch of 64", "store: record"]
    assert holds(memory, DST, KEYS)


def test_without_batches_each_run_is_copied_by_itself(make: Make, inbox: Inbox) -> None:
    copier, driver, memory = make(batched=False)
    fill(memory, SRC, KEYS)
    copier.submit(store())
    reports(inbox, 1)
    assert [line for line in driver.log if "copy" in line] == ["store: copy of 192"] + ["store: copy of 64"] * 3
    assert holds(memory, DST, KEYS)


def test_a_driver_that_has_no_batches_after_all_is_not_asked_again(make: Make, inbox: Inbox) -> None:
    copier, driver, memory = make()
    driver.batched = False
    fill(memory, SRC, KEYS)
    copier.submit(store())
    reports(inbox, 1)
    assert not copier.batched
    assert holds(memory, DST, KEYS)


def test_a_flipped_byte_is_found_by_the_check_alone(make: Make, inbox: Inbox) -> None:
    copier, driver, memory = make()
    fill(memory, SRC, KEYS)
    copier.submit(store())
    copier.fence()
    memory.bytes_of(DST[1])[7] ^= 1
    copier.submit(part(Kind.FETCH, DST, SRC, KEYS, 2))
    copier.submit(part(Kind.VERIFY, DST, SRC, KEYS, 3))
    *_, found = reports(inbox, 3)
    assert (found.outcome, found.failures[0].code, found.failures[0].line) == (Outcome.BROKEN, Code.CRC_MISMATCH, 1)
    assert len(driver.stages) == 1, "a check has memory of its own"


def test_without_sums_a_check_copies_nothing(make: Make, inbox: Inbox) -> None:
    copier, driver, memory = make(integrity=Integrity.BOUNDARY)
    fill(memory, SRC, KEYS)
    copier.submit(store())
    copier.fence()
    before = len(driver.log)
    copier.submit(part(Kind.VERIFY, DST, SRC, KEYS[::-1], 2))
    copier.submit(part(Kind.PERSIST, DST, (), KEYS, 3))
    _, found, kept = reports(inbox, 3)
    assert {failure.code for failure in found.failures} == {Code.KEY_MISMATCH}
    assert kept.outcome == Outcome.DONE
    assert (len(driver.log), driver.stages) == (before, [])


# -- order -------------------------------------------------------------------------------------------------------------


def test_a_store_waits_for_what_was_computed_before_it_was_submitted(make: Make, inbox: Inbox) -> None:
    copier, driver, memory = make(eager=False)
    fill(memory, SRC, KEYS)
    copier.submit(store())
    log = driver.until(4)
    assert log == ["compute: record", "store: wait for compute event", "store: batch of 192, 64, 64, 64",
                   "store: record"]  # fmt: skip
    driver.advance("store")
    assert not memory.bytes_of(DST[0]).any(), "the step is still running"
    assert copier.probe(Token(1, 1)) is Progress.RUNNING
    driver.advance()
    assert reports(inbox, 1)[0].outcome == Outcome.DONE
    assert holds(memory, DST, KEYS)


def test_an_event_of_the_engine_is_waited_for_instead(make: Make, inbox: Inbox) -> None:
    asked: list[int] = []

    def after(step: int) -> object:
        asked.append(step)
        return driver.record(driver.streams[0]) if step else None

    copier, driver, _ = make(after=after)
    copier.submit(store()._replace(after_step=7))
    copier.submit(store(2))
    reports(inbox, 2)
    assert asked == [7, 0]
    assert driver.log.count("compute: record") == 2
    assert driver.log.count("store: wait for compute event") == 2


def test_a_load_waits_for_nothing_and_for_no_store(make: Make, inbox: Inbox) -> None:
    copier, driver, memory = make(eager=False)
    fill(memory, DST, KEYS)
    copier.submit(store(1, [0], [62]))
    driver.until(4)
    copier.submit(part(Kind.FETCH, DST, SRC, KEYS, 2))
    assert driver.until(6)[4:] == ["load: batch of 192, 64, 64, 64", "load: record"]
    driver.advance("load")
    assert [report.token.serial for report in reports(inbox, 1)] == [2]
    assert holds(memory, SRC, KEYS)
    driver.advance()
    assert [report.token.serial for report in reports(inbox, 1)] == [1]


def test_a_seal_is_open_until_the_bytes_have_landed(make: Make, inbox: Inbox) -> None:
    copier, driver, memory = make(eager=False)
    copier.submit(store())
    driver.until(4)
    assert {memory.pools[1].seals.marks[block - 32] for block in DST} == {Mark.OPEN}
    driver.advance()
    reports(inbox, 1)
    assert {memory.pools[1].seals.marks[block - 32] for block in DST} == {Mark.SUMMED}


# -- cancel, probe, fence, close ---------------------------------------------------------------------------------------


def test_what_is_queued_runs_to_its_end_and_what_waits_behind_it_does_not(make: Make, inbox: Inbox) -> None:
    copier, driver, memory = make(eager=False, depth=1)
    fill(memory, range(12), [key(number) for number in range(12)])
    copier.submit(store(1, [0], [40]))
    driver.until(4)
    copier.submit(store(2, [1], [41]))
    copier.cancel(Token(1, 1))
    copier.cancel(Token(1, 2))
    copier.cancel(Token(1, 2))
    copier.cancel(Token(9, 9))
    assert inbox.drain(9) == [Report(Token(1, 2), Outcome.CANCELLED)]
    driver.advance()
    driver.eager = True
    assert copier.fence() == 2
    assert inbox.drain(9) == [Report(Token(1, 1), Outcome.DONE)]
    assert not memory.bytes_of(41).any()
    assert [copier.probe(Token(1, serial)) for serial in (1, 2, 3)] == [Progress.OVER, Progress.OVER, Progress.UNKNOWN]


def test_at_most_so_many_parts_are_queued_at_once(make: Make, inbox: Inbox) -> None:
    copier, driver, _ = make(eager=False, depth=2)
    for serial in range(1, 5):
        copier.submit(part(Kind.FETCH, [40 + serial], [serial], KEYS[:1], serial))
    driver.until(4)
    assert driver.log.count("load: record") == 2
    driver.advance()
    driver.until(8)
    driver.advance()
    assert sorted(report.token.serial for report in reports(inbox, 4)) == [1, 2, 3, 4]


def test_a_fence_waits_for_what_was_submitted_before_it(make: Make, inbox: Inbox) -> None:
    one, driver, _ = make(eager=False)
    copier: Copier = one
    assert copier.fence() == 0
    copier.submit(store(5))
    driver.until(4)
    with pytest.raises(TimeoutError, match="nothing is proved"):
        one.fence(within=0.01)
    driver.advance()
    assert copier.fence() == 5
    assert len(inbox) == 1, "the report is there when the fence has passed"


def test_close_says_what_still_touches_memory(make: Make, inbox: Inbox) -> None:
    copier, driver, _ = make(eager=False, depth=1)
    copier.submit(store(1, [0], [40]))
    driver.until(4)
    copier.submit(store(2, [1], [41]))
    assert copier.close(0.05) == (Token(1, 1),)
    assert inbox.drain(9) == [Report(Token(1, 2), Outcome.CANCELLED)]
    with pytest.raises(CopierClosedError, match=r"part 3 \(store\) was not started"):
        copier.submit(store(3))
    driver.advance()
    assert copier.close(5.0) == ()


# -- errors ------------------------------------------------------------------------------------------------------------


def test_what_the_driver_refuses_fails_its_part_when_the_rest_of_it_is_over(
    make: Make, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two batches is refused: the first may still be writing."""
    monkeypatch.setattr(copying, "MOST_COPIES", 1)
    copier, driver, memory = make(eager=False)
    driver.fail["copy_batch"] = [None, DriverError("2", "out of memory")]
    fill(memory, [3, 9], KEYS[:2])
    copier.submit(store(1, [3, 9], [40, 50]))
    assert driver.until(4)[2:] == ["store: batch of 64", "store: record"]
    assert len(inbox) == 0
    driver.advance()
    (report,) = reports(inbox, 1)
    assert (report.outcome, report.failures[0].code, report.failures[0].raw) == (Outcome.FAILED, Code.KV_OOM, "2")
    assert memory.pools[1].seals.marks[8] == Mark.OPEN, "what is there is not whole"
    copier.submit(store(2, [3, 9], [40, 50]))
    driver.until(9)
    driver.advance()
    assert reports(inbox, 1)[0].outcome == Outcome.DONE


@pytest.mark.parametrize("call", ["mark", "staging"])
def test_a_part_that_can_not_be_begun_has_failed(make: Make, inbox: Inbox, call: str) -> None:
    copier, driver, memory = make()
    fill(memory, DST, KEYS)
    driver.fail["record" if call == "mark" else call] = [DriverError("2", "no room")]
    copier.submit(store() if call == "mark" else part(Kind.VERIFY, DST, SRC, KEYS))
    (report,) = reports(inbox, 1)
    assert (report.outcome, report.failures[0].code) == (Outcome.FAILED, Code.KV_OOM)
    copier.submit(store(2))
    assert reports(inbox, 1)[0].outcome == Outcome.DONE


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (store(1, [3], [99]), "block 99 lies in no pool"),
        (store(1, [3, 4], [40, 40]), "writes a block twice"),
        (part(Kind.STEP, [3], [40], KEYS[:1]), "can't do a part of kind 'step'"),
        (part(Kind.PERSIST, [99], (), KEYS[:1]), "block 99 lies in no pool"),
    ],
)
def test_work_that_makes_no_sense_moves_nothing(make: Make, inbox: Inbox, work: Work, words: str) -> None:
    copier, driver, memory = make()
    copier.submit(work)
    (report,) = reports(inbox, 1)
    assert (report.outcome, report.failures[0].code) == (Outcome.DENIED, Code.INTERNAL)
    assert words in report.failures[0].message
    assert not any("batch" in line for line in driver.log)
    assert not any(memory.pools[1].seals.marks)


def test_an_error_of_the_device_ends_all_and_proves_nothing_of_what_was_queued(make: Make, inbox: Inbox) -> None:
    copier, driver, _ = make(eager=False, depth=1)
    copier.submit(part(Kind.VERIFY, DST, SRC, KEYS, 1))
    driver.until(2)
    copier.submit(part(Kind.FETCH, DST, SRC, KEYS, 2))
    driver.die("1", "something that no table knows")
    told = {report.token.serial: report for report in reports(inbox, 2)}
    assert told[1].outcome == Outcome.TIMEOUT
    assert told[2].outcome == Outcome.DENIED, "it was never queued, and never will be"
    assert {report.failures[0].code for report in told.values()} == {Code.DEVICE_ERROR}
    assert [report.failures[0].stage for report in told.values()] == ["verify", "fetch"]
    assert [copier.probe(Token(1, serial)) for serial in (1, 2)] == [Progress.RUNNING, Progress.OVER]
    with pytest.raises(DriverError, match="proves nothing any more: something that no table knows"):
        copier.fence(5.0)
    copier.submit(store(3))
    (late,) = reports(inbox, 1)
    assert (late.outcome, late.failures[0].code, late.failures[0].stage) == (Outcome.DENIED, Code.DEVICE_ERROR, "write")
    copier.cancel(Token(1, 1))
    assert copier.close(5.0) == (Token(1, 1),)
    assert len(inbox) == 0


def test_the_memory_of_a_check_is_its_own_until_its_copy_is_over(make: Make, inbox: Inbox) -> None:
    """I34. After an error of the device nobody knows when that is, so it stays."""
    copier, driver, memory = make(eager=False)
    fill(memory, DST, KEYS)
    copier.submit(part(Kind.VERIFY, DST, SRC, KEYS, 1))
    driver.until(2)
    first = weakref.ref(driver.stages.pop())
    driver.advance()
    reports(inbox, 1)
    copier.fence()
    driver.streams[-1].todo.clear()
    gc.collect()
    assert first() is None
    copier.submit(part(Kind.VERIFY, DST, SRC, KEYS, 2))
    driver.until(4)
    second = weakref.ref(driver.stages.pop())
    driver.die("700", "an illegal memory access was encountered")
    reports(inbox, 1)
    gc.collect()
    assert second() is not None


@pytest.mark.parametrize("call", ["batch", "wait", "record", "copy_batch"])
def test_a_sticky_error_may_show_at_any_call(make: Make, inbox: Inbox, call: str) -> None:
    copier, driver, _ = make(after=lambda step: Event("step", happened=True))
    driver.fail[call] = [ILLEGAL]
    copier.submit(store())
    (report,) = reports(inbox, 1)
    assert (report.outcome, report.failures[0].code) == (Outcome.TIMEOUT, Code.DEVICE_ERROR)
    assert report.failures[0].raw == "700"
    with pytest.raises(DriverError):
        copier.fence(5.0)


def test_a_host_pool_that_is_not_page_locked_is_refused() -> None:
    locked: list[str] = []

    def lock(address: int, size: int) -> Callable[[], None]:
        locked.append(f"lock {size}")
        return lambda: locked.append("unlock")

    driver = SoftDriver(device="meta")
    device = Pool("device", 0, 4, BLOCK, device="meta")
    with pytest.raises(
        ValueError, match="pool host is not on meta and its pages are not locked; make it by `host_pool`"
    ):
        CudaCopier(Memory([device, Pool("host", 4, 4, BLOCK)]), Inbox(), driver)
    memory = Memory([device, Pool("host", 4, 4, BLOCK, page_lock=lock)])
    assert CudaCopier(memory, Inbox(), SoftDriver(device="meta")).close(1.0) == ()
    memory.close()
    memory.close()
    assert locked == [f"lock {4 * BLOCK}", "unlock"]


def test_a_part_over_several_pools_finds_each_block_in_its_own(make: Make, inbox: Inbox) -> None:
    names = [("device", 0, 8), ("near", 8, 2), ("far", 10, 4)]
    memory = Memory([Pool(name, base, count, BLOCK) for name, base, count in names])
    copier, driver, _ = make(memory)
    fill(memory, range(4), KEYS[:4])
    copier.submit(part(Kind.STORE, range(4), range(8, 12), KEYS[:4]))
    reports(inbox, 1)
    assert driver.log[-2] == "store: batch of 128, 128", "a copy goes on in one pool alone"
    assert holds(memory, [8, 9], KEYS[:2])
    assert holds(memory, [10, 11], KEYS[2:4])
