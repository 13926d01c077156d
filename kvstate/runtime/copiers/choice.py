"""Which copier runs: chosen by where the device pool lies, unless it is set.

It is set by the caller, or for a whole process by the variable `KVSTATE_COPIER`; `kvstate doctor` says what would run
here and why.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # to choose needs no torch
    import torch

    from kvstate.runtime.copiers import Copier
    from kvstate.runtime.copiers.cuda import After
    from kvstate.runtime.copy import Integrity
    from kvstate.runtime.inbox import Inbox
    from kvstate.runtime.memory import Memory

VARIABLE: Final = "KVSTATE_COPIER"
"""The variable of the environment that sets the copier."""
COPIERS: Final = ("auto", "threads", "cuda", "cuda-unbatched")
"""What may be set. `cuda-unbatched` is `cuda` without `cuMemcpyBatchAsync`."""


class ChoiceError(ValueError):
    """A copier was set that is not one, or that can't run on this device."""


class Choice(NamedTuple):
    """A copier and, in a few words, why it is this one."""

    copier: str
    """One of `COPIERS`, and not `auto`."""
    reason: str
    """Where the device pool lies, or who set it."""


def choose(device: str | torch.device, setting: str = "auto", environ: Mapping[str, str] = os.environ) -> Choice:
    """Which copier runs for a device pool on `device`.

    A `setting` other than `auto` wins over the environment, and that over the device. Raises `ChoiceError`.
    """
    place, where = str(device), "as it was set"
    on_cuda = place.partition(":")[0] == "cuda"
    if setting == "auto" and environ.get(VARIABLE):
        setting, where = environ[VARIABLE], f"as {VARIABLE} says"
    if setting not in COPIERS:
        raise ChoiceError(f"there is no copier {setting!r} ({where}); give one of {', '.join(COPIERS)}")
    if setting == "auto":
        if on_cuda:
            return Choice("cuda", f"the device pool lies on {place}")
        return Choice("threads", f"the device pool lies on {place}, where threads copy")
    if setting != "threads" and not on_cuda:
        raise ChoiceError(
            f"copier {setting} ({where}) needs a device pool on a CUDA device, and this one is on {place}"
        )
    return Choice(setting, where)


def make_copier(
    memory: Memory,
    inbox: Inbox,
    *,
    name: str = "cpu",
    setting: str = "auto",
    integrity: Integrity | None = None,
    threads: int = 2,
    after: After | None = None,
) -> Copier:
    """The copier that `choose` names for the first pool of `memory`, which is the device's.

    name: what `Work.copier` says, the same for all kinds
    integrity: BOUNDARY, if it is not said
    threads: of a copier by threads; one on a GPU has its own
    after: the event behind a compute step, for one on a GPU (see `CudaCopier`)

    Raises `ChoiceError`, and what the copier raises where memory does not fit it.
    """
    from kvstate.runtime.copiers.cuda import CudaCopier
    from kvstate.runtime.copiers.cuda_driver import CudaDriver
    from kvstate.runtime.copiers.threads import ThreadCopier
    from kvstate.runtime.copy import Integrity

    device, integrity = memory.pools[0].device, integrity or Integrity.BOUNDARY
    chosen = choose(device, setting).copier
    if chosen == "threads":
        return ThreadCopier(memory, inbox, threads, name=name, integrity=integrity)
    driver = CudaDriver(device, batched=chosen == "cuda")
    return CudaCopier(memory, inbox, driver, name=name, integrity=integrity, after=after)
