"""`cuMemcpyBatchAsync`, by ctypes: many copies in one call of the driver.

It came with CUDA 12.8 and lost an argument in 13. It is asked for through `cuGetProcAddress` by the number 12080, which
gives the form of nine arguments in both. A driver that does not know it says so, and then copies are made one by one.
torch has no binding for it, and to call it by ctypes needs no further package.

Sources are read in stream order, so a store reads what was there when the event before it had happened. The call must
not be given the legacy default stream; every stream that torch makes is another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from kvstate.runtime.copiers.driver import DriverError, NoBatchError, Numbers

BATCH_VERSION: Final = 12080
"""The version of CUDA whose form of the call is asked for."""
IN_STREAM_ORDER: Final = 1
"""`CU_MEMCPY_SRC_ACCESS_ORDER_STREAM`."""
NOT_THERE: Final = frozenset({500, 801})
"""`CUDA_ERROR_NOT_FOUND` and `CUDA_ERROR_NOT_SUPPORTED`: the call is not for this device. Nothing was queued."""

BatchCall = Callable[..., int]
"""`cuMemcpyBatchAsync` with nine arguments; returns a CUresult."""


class _Location(ctypes.Structure):
    """`CUmemLocation`. All zero: no hint, which is right for memory that is pinned or on a device."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Attributes(ctypes.Structure):
    """`CUmemcpyAttributes`."""

    _fields_ = (
        ("source_order", ctypes.c_int),
        ("source", _Location),
        ("destination", _Location),
        ("flags", ctypes.c_uint),
    )


def find_batch_call(library: Any) -> BatchCall | None:
    """`cuMemcpyBatchAsync` of a driver's library, as ctypes loads it; None if it has none."""
    look_up = getattr(library, "cuGetProcAddress_v2", None)
    if look_up is None:  # a driver of before CUDA 12
        return None
    found, status = ctypes.c_void_p(), ctypes.c_int()
    code = look_up(
        b"cuMemcpyBatchAsync", ctypes.byref(found), ctypes.c_int(BATCH_VERSION), ctypes.c_uint64(0),
        ctypes.byref(status),
    )  # fmt: skip
    if code or not found.value:
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    form = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, size, pointer, pointer, size, pointer, pointer)
    return form(found.value)


def load_library() -> Any:
    """The driver's library; None where there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def call_batch(call: BatchCall, stream: int, dsts: Numbers, srcs: Numbers, sizes: Numbers) -> None:
    """Queue copies by address in the stream of that handle, all with sources in stream order.

    Raises `NoBatchError` if the device has no such call, `DriverError` for whatever else it answers.
    """
    import numpy as np

    columns = [np.ascontiguousarray(column, np.uint64) for column in (dsts, srcs, sizes)]
    attributes = _Attributes(source_order=IN_STREAM_ORDER)
    first, failed = ctypes.c_size_t(0), ctypes.c_size_t(0)
    pointers = [ctypes.c_void_p(column.ctypes.data) for column in columns]
    code = call(
        *pointers, len(sizes), ctypes.addressof(attributes), ctypes.addressof(first), 1, ctypes.addressof(failed),
        ctypes.c_void_p(stream),
    )  # fmt: skip
    if code in NOT_THERE:
        raise NoBatchError
    if code:
        at = f", at copy {failed.value}" if failed.value < len(sizes) else ""
        raise DriverError(str(code), f"cuMemcpyBatchAsync of {len(sizes)} copies failed with code {code}{at}")
