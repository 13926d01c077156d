"""Host pools for a GPU: pages that are locked in memory, so that a device reads and writes them by DMA.

`pin_memory=True` of torch rounds a size up to a power of two; registering what has been allocated and touched does not.
"""

from __future__ import annotations

from typing import Final

import torch

from kvstate.runtime.memory import Pool, Unlock

PORTABLE: Final = 1
"""`cudaHostRegisterPortable`: locked for every context of the process, and so for every device."""


class PageLockError(RuntimeError):
    """The driver did not lock the pages of a pool, or did not let them go."""


def host_pool(name: str, base: int, count: int, block_bytes: int) -> Pool:
    """A pool in host memory: allocated once, touched, and page-locked where torch has CUDA; `Pool.close` unlocks it.

    Asks torch for CUDA, which must not be done before a fork. Raises what `Pool` and `register` raise.
    """
    return Pool(name, base, count, block_bytes, page_lock=register if torch.cuda.is_available() else None)


def register(address: int, size: int) -> Unlock:
    """Lock `size` bytes from `address` on, by `cudaHostRegister`; returns what lets them go.

    Raises `PageLockError` with the driver's own code.
    """
    cudart = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    code = int(cudart.cudaHostRegister(address, size, PORTABLE))
    if code:
        raise PageLockError(
            f"cudaHostRegister of {size} bytes failed with code {code}; is the limit for locked memory "
            "(ulimit -l) large enough? Else make the host pool smaller"
        )

    def unregister() -> None:
        code = int(cudart.cudaHostUnregister(address))
        if code:
            raise PageLockError(f"cudaHostUnregister failed with code {code}; a sticky error of the device comes first")

    return unregister
