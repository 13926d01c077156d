"""How the driver's library is called, by one in Python; which copier is chosen; and, with a GPU, the real thing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from kvstate.errors import Code
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Kind, Outcome
from kvstate.machines.verdicts import Grant
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.batch_call import call_batch, find_batch_call, load_library
from kvstate.runtime.copiers.choice import Choice, ChoiceError, choose, make_copier
from kvstate.runtime.copiers.cuda import CudaCopier
from kvstate.runtime.copiers.cuda_driver import CudaDriver
from kvstate.runtime.copiers.driver import DriverError, NoBatchError
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.pages import host_pool
from kvstate.runtime.tensors import KVPool
from tests.runtime.parts import key, part, pools
from tests.runtime.soft_driver import SoftDriver

P, N = ctypes.c_void_p, ctypes.c_size_t
FORM = ctypes.CFUNCTYPE(ctypes.c_int, P, P, P, N, P, P, N, P, P)


class Library:
    """A driver's library that has the call, or says with a code that it has not. The call notes what it was given."""

    def __init__(self, code: int = 0, answer: int = 0, *, known: bool = True) -> None:
        self.calls: list[dict[str, Any]] = []
        self.asked: list[tuple[bytes, int]] = []

        def call(
            dsts: int, srcs: int, sizes: int, count: int, attributes: int, firsts: int, groups: int, failed: int,
            stream: int,
        ) -> int:  # fmt: skip
            columns = [list((ctypes.c_uint64 * count).from_address(at)) for at in (dsts, srcs, sizes)]
            words = list((ctypes.c_uint32 * 6).from_address(attributes))
            first = ctypes.c_size_t.from_address(firsts).value
            self.calls.append(
                {"columns": columns, "attributes": words, "first": first, "groups": groups, "stream": stream}
            )
            ctypes.c_size_t.from_address(failed).value = 1
            return answer

        self._call = FORM(call)

        def look_up(name: bytes, found: Any, version: ctypes.c_int, flags: ctypes.c_uint64, status: Any) -> int:
            self.asked.append((name, version.value))
            if known:
                found._obj.value = ctypes.cast(self._call, P).value
            return code

        self.cuGetProcAddress_v2 = look_up


def columns(*numbers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def test_the_call_is_asked_for_in_the_form_of_nine_arguments() -> None:
    library = Library()
    call = find_batch_call(library)
    assert call is not None
    assert library.asked == [(b"cuMemcpyBatchAsync", 12080)]
    call_batch(call, 77, columns(1 << 40, 2)[::-1], columns(3, 4), columns(5, 6))
    assert library.calls == [
        {
            "columns": [[2, 1 << 40], [3, 4], [5, 6]],
            # Sources in stream order; no hints of places; no flags.
            "attributes": [1, 0, 0, 0, 0, 0],
            "first": 0,
            "groups": 1,
            "stream": 77,
        }
    ]


@pytest.mark.parametrize("library", [object(), Library(code=500), Library(known=False)])
def test_a_driver_without_the_call_is_none(library: object) -> None:
    assert find_batch_call(library) is None


@pytest.mark.parametrize("code", [500, 801])
def test_a_device_that_can_not_batch_says_so(code: int) -> None:
    library = Library(answer=code)  # which has to outlive its call: nobody else keeps the callback
    call = find_batch_call(library)
    assert call is not None
    with pytest.raises(NoBatchError):
        call_batch(call, 1, columns(1), columns(2), columns(3))


def test_what_the_driver_answers_is_kept() -> None:
    library = Library(answer=700)
    call = find_batch_call(library)
    assert call is not None
    with pytest.raises(DriverError, match="of 2 copies failed with code 700, at copy 1") as told:
        call_batch(call, 1, columns(1, 1), columns(2, 2), columns(3, 3))
    assert told.value.raw == "700"
    with pytest.raises(DriverError, match=r"failed with code 700$"):
        call_batch(call, 1, columns(1), columns(2), columns(3))


class _Stream:
    """A stream of torch, as far as it is asked."""

    cuda_stream = 5

    def __init__(self, error: RuntimeError | None = None) -> None:
        self.error = error

    def wait_event(self, event: object) -> None:
        if self.error is not None:
            raise self.error


class _StickyError(RuntimeError):
    error_code = 719


@pytest.mark.parametrize(
    ("error", "raw"),
    [
        (_StickyError("unspecified launch failure"), "719"),
        (RuntimeError("CUDA error: whatever"), ""),
        (torch.cuda.OutOfMemoryError("no room"), "cudaErrorMemoryAllocation"),
    ],
)
def test_what_torch_raises_is_an_error_of_the_driver(error: RuntimeError, raw: str) -> None:
    driver = CudaDriver("cuda:0", batched=False)
    assert not driver.batched
    assert driver.device == torch.device("cuda:0")
    driver.wait(_Stream(), None)  # type: ignore[arg-type]
    with pytest.raises(DriverError, match=str(error)) as told:
        driver.wait(_Stream(error), None)  # type: ignore[arg-type]
    assert told.value.raw == raw
    with pytest.raises(NoBatchError):
        driver.copy_batch(_Stream(), columns(1), columns(2), columns(3))  # type: ignore[arg-type]


def test_a_thread_enters_with_a_call_that_gives_it_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Stream:
        def query(self) -> bool:
            calls.append("query")
            return False

    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(f"set {device}"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    CudaDriver("cuda:1", batched=False).enter()
    assert calls == ["set cuda:1", "query"]


# -- the engine --------------------------------------------------------------------------------------------------------


def test_a_lost_device_poisons_the_ledger_and_nothing_is_freed() -> None:
    memory, inbox, driver = pools(device=4, host=4), Inbox(), SoftDriver(eager=False)
    copier = CudaCopier(memory, inbox, driver)
    ledger = Ledger(LedgerConfig((PoolConfig("device", 4), PoolConfig("host", 4))))
    engine = Engine(ledger, {"cpu": copier}, inbox, VirtualClock())
    lease = ledger.open("test")
    assert isinstance(lease, int)
    grant = ledger.allocate(lease, 2)
    assert isinstance(grant, Grant)
    assert ledger.seal(lease, grant.blocks, [key(1), key(2)])
    assert ledger.offload(lease, grant.blocks)
    engine.pump()
    driver.until(4)
    driver.die("700", "an illegal memory access was encountered")
    assert inbox.wait(10)
    fatal = engine.poll().fatal
    assert fatal is not None
    assert "DEVICE_ERROR, nothing is freed: an illegal memory access" in fatal.sentence
    assert not ledger.finish(lease), "a poisoned ledger refuses"
    assert len(ledger.books.pools[0].free) == 2
    with pytest.raises(DriverError, match="proves nothing any more"):
        copier.fence()
    assert len(copier.close(5.0)) == 1


# -- the choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "setting", "variable", "chosen"),
    [
        ("cpu", "auto", "", Choice("threads", "the device pool lies on cpu, where threads copy")),
        ("cuda:1", "auto", "", Choice("cuda", "the device pool lies on cuda:1")),
        ("cuda", "auto", "cuda-unbatched", Choice("cuda-unbatched", "as KVSTATE_COPIER says")),
        ("cuda", "threads", "cuda", Choice("threads", "as it was set")),
    ],
)
def test_the_device_chooses_unless_somebody_else_does(device: str, setting: str, variable: str, chosen: Choice) -> None:
    assert choose(device, setting, {"KVSTATE_COPIER": variable}) == chosen


def test_a_choice_that_can_not_be_is_a_sentence() -> None:
    with pytest.raises(ChoiceError, match=r"no copier .fast. .as it was set.; give one of auto, threads, cuda"):
        choose("cpu", "fast", {})
    with pytest.raises(ChoiceError, match=r"copier cuda \(as KVSTATE_COPIER says\) needs .* this one is on cpu"):
        choose("cpu", "auto", {"KVSTATE_COPIER": "cuda"})


def test_what_was_chosen_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVSTATE_COPIER", raising=False)
    copier = make_copier(pools(), Inbox(), threads=1)
    assert isinstance(copier, ThreadCopier)
    assert copier.name == "cpu"
    assert copier.close(5.0) == ()


# -- on a GPU ----------------------------------------------------------------------------------------------------------

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def in_one_run() -> Pool:
    return Pool("device", 0, 64, 6 * 4096, device="cuda")


def in_pieces() -> Pool:
    tensors = [torch.zeros(2, 64, 1024, dtype=torch.float32, device="cuda") for _ in range(3)]
    return KVPool.from_tensors("device", 0, tensors, block_dim=1)


@pytest.mark.cuda
@needs_gpu
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("make", [in_one_run, in_pieces])
def test_there_and_back_on_a_gpu(make: Callable[[], Pool], batched: bool) -> None:
    device = make()
    memory, inbox = Memory([device, host_pool("host", 64, 64, device.block_bytes)]), Inbox()
    copier = CudaCopier(memory, inbox, CudaDriver("cuda", batched=batched), integrity=Integrity.HOST)
    content = np.random.default_rng(1).integers(0, 256, (32, device.block_bytes), np.uint8)
    keys = [key(number) for number in range(32)]
    src, dst, back = list(range(0, 64, 2)), list(range(127, 95, -1)), list(range(1, 64, 2))
    for block, data in zip(src, content, strict=True):
        device.put(block, data)
    copier.submit(part(Kind.STORE, src, dst, keys))
    assert copier.fence() == 1
    copier.submit(part(Kind.FETCH, dst, back, keys, 2))
    copier.submit(part(Kind.VERIFY, dst, back, keys, 3))
    assert copier.fence() == 3
    assert {report.outcome for report in inbox.drain(9)} == {Outcome.DONE}
    assert all(np.array_equal(device.bytes_of(block), data) for block, data in zip(back, content, strict=True))
    device.put(back[4], content[0])
    copier.submit(part(Kind.VERIFY, dst, back, keys, 4))
    copier.fence()
    (bad,) = inbox.drain(9)
    assert [(failure.line, failure.code) for failure in bad.failures] == [(4, Code.CRC_MISMATCH)]
    assert copier.close(10.0) == ()
    memory.close()


@pytest.mark.cuda
@needs_gpu
def test_a_store_reads_what_the_step_before_it_wrote() -> None:
    device = in_one_run()
    memory, inbox = Memory([device, host_pool("host", 64, 64, device.block_bytes)]), Inbox()
    copier = CudaCopier(memory, inbox, CudaDriver("cuda"))
    torch.cuda._sleep(50_000_000)  # type: ignore[no-untyped-call]
    device.tensor.fill_(7)
    copier.submit(part(Kind.STORE, range(64), range(64, 128), [key(number) for number in range(64)]))
    copier.fence()
    assert (memory.pools[1].array == 7).all()
    assert copier.close(10.0) == ()
    memory.close()


@pytest.mark.cuda
@needs_gpu
def test_this_driver_has_batches() -> None:
    library = load_library()
    assert library is not None
    assert find_batch_call(library) is not None, "CUDA 12.8 or later; without it copies are made one by one"
