# Generated from spec/errors.toml by `make tables`; do not edit.
"""The error codes, what is true of each, and how drivers' own codes translate. Nothing is parsed at import."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

STAGES: Final = ("lookup", "reserve", "fetch", "verify", "write", "commit", "rollback", "store")
"""Where an error can happen, in the order of a block's way."""


class Code(IntEnum):
    """Why something did not work. The numbers are stable for ever."""

    BLOCK_NOT_FOUND = 2101
    """The tier does not hold the block that its index promised."""
    LEASE_EXPIRED = 2102
    """The peer no longer held the blocks for this copy when the copy had ended."""
    CRC_MISMATCH = 2201
    """The bytes do not match the checksum that they were sealed with."""
    VERSION_MISMATCH = 2202
    """The block was written in a format version that this process does not read."""
    LAYOUT_MISMATCH = 2203
    """The block was written with another layout, dtype or shape than this process uses."""
    KEY_MISMATCH = 2204
    """The bytes belong to another key, or to another life of the block."""
    SHORT_READ = 2205
    """There were fewer bytes than the block has."""
    KV_OOM = 2301
    """There was no memory for the blocks or for a buffer on their way."""
    NO_SPACE = 2302
    """The tier is full, or the quota is used up."""
    SLOT_CONFLICT = 2303
    """Something else is stored already where the block was to go."""
    BLOCK_TAKEN = 2304
    """The engine took its block back, or gave it to another, before the copy was over."""
    LOAD_TIMEOUT = 2401
    """Nothing was heard in time; a copy that was begun may still touch the memory."""
    PEER_LOST = 2402
    """The other process or machine is gone; what it had begun may still touch the memory."""
    BUSY = 2403
    """The other side is there and did not take the request this time."""
    PERMISSION_DENIED = 2501
    """The process may not read or write there."""
    DEVICE_ERROR = 2601
    """The device reported an error that does not go away; nothing that it holds can be trusted."""
    CANCELLED = 2701
    """It was stopped because somebody asked for that."""
    INTERNAL = 2901
    """An exception was raised where none was expected, in a copier, a tier or a translator."""
    UNKNOWN = 2902
    """The driver gave a code that this registry does not know; its own value is kept."""


class Properties(NamedTuple):
    """What the registry says of one code."""

    outcome: str
    """What a copier reports for a part that failed for this reason alone (`kvstate.machines.messages.Outcome`)."""
    stages: tuple[str, ...]
    """Where the code may be used."""
    retryable: bool
    """The part may be tried again at once. Beyond these, what a driver marks transient."""
    fatal: bool
    """The runtime cannot go on."""
    condemns: bool
    """The key is to blame: a miss until it is stored anew."""
    sentence: str
    """What happened, in one line."""
    remedy: str
    """What to do, in one line."""


PROPERTIES: Final[dict[Code, Properties]] = {
    Code.BLOCK_NOT_FOUND: Properties(
        outcome="broken",
        stages=("lookup", "fetch", "verify"),
        retryable=False,
        fatal=False,
        condemns=True,
        sentence="The tier does not hold the block that its index promised.",
        remedy="Nothing: it is recomputed and stored anew. If it is frequent, something else deletes from the tier.",
    ),
    Code.LEASE_EXPIRED: Properties(
        outcome="broken",
        stages=("fetch", "verify"),
        retryable=False,
        fatal=False,
        condemns=True,
        sentence="The peer no longer held the blocks for this copy when the copy had ended.",
        remedy="Give a longer lease or more renewals, or fetch sooner; if the peer called the offer off, nothing.",
    ),
    Code.CRC_MISMATCH: Properties(
        outcome="broken",
        stages=("fetch", "verify"),
        retryable=False,
        fatal=False,
        condemns=True,
        sentence="The bytes do not match the checksum that they were sealed with.",
        remedy="Look at the health of the disk, the memory or the link that the block came from.",
    ),
    Code.VERSION_MISMATCH: Properties(
        outcome="broken",
        stages=("lookup", "fetch", "verify"),
        retryable=False,
        fatal=False,
        condemns=True,
        sentence="The block was written in a format version that this process does not read.",
        remedy="Finish the upgrade, or give each version a namespace of its own.",
    ),
    Code.LAYOUT_MISMATCH: Properties(
        outcome="broken",
        stages=("lookup", "fetch", "verify"),
        retryable=False,
        fatal=False,
        condemns=True,
        sentence="The block was written with another layout, dtype or shape than this process uses.",
        remedy="Put whatever differs into the fingerprint of the namespace.",
    ),
    Code.KEY_MISMATCH: Properties(
        outcome="broken",
        stages=("fetch", "verify"),
        retryable=False,
        fatal=False,
        condemns=True,
        sentence="The bytes belong to another key, or to another life of the block.",
        remedy="Report it: somebody reused the memory or the file while it was still promised.",
    ),
    Code.SHORT_READ: Properties(
        outcome="broken",
        stages=("fetch", "verify"),
        retryable=False,
        fatal=False,
        condemns=True,
        sentence="There were fewer bytes than the block has.",
        remedy="Look for writers that do not publish by rename, and for a disk that was full.",
    ),
    Code.KV_OOM: Properties(
        outcome="failed",
        stages=STAGES,
        retryable=True,
        fatal=False,
        condemns=False,
        sentence="There was no memory for the blocks or for a buffer on their way.",
        remedy="Make the pools smaller than what the process may have, or load less at a time.",
    ),
    Code.NO_SPACE: Properties(
        outcome="denied",
        stages=("reserve", "write", "commit", "store"),
        retryable=False,
        fatal=False,
        condemns=False,
        sentence="The tier is full, or the quota is used up.",
        remedy="Make room in the tier, or lower its limit so that it evicts earlier.",
    ),
    Code.SLOT_CONFLICT: Properties(
        outcome="denied",
        stages=("reserve", "write", "commit", "store"),
        retryable=False,
        fatal=False,
        condemns=False,
        sentence="Something else is stored already where the block was to go.",
        remedy="Nothing, if another writer stored the same key; else look for two runtimes that share one directory.",
    ),
    Code.BLOCK_TAKEN: Properties(
        outcome="denied",
        stages=("fetch", "verify", "write", "commit", "store"),
        retryable=False,
        fatal=False,
        condemns=False,
        sentence="The engine took its block back, or gave it to another, before the copy was over.",
        remedy="Nothing if its request was preempted or ended; else see why the engine kept no hold.",
    ),
    Code.LOAD_TIMEOUT: Properties(
        outcome="timeout",
        stages=STAGES,
        retryable=True,
        fatal=False,
        condemns=False,
        sentence="Nothing was heard in time; a copy that was begun may still touch the memory.",
        remedy="Look at the load of the tier; raise the deadline only if recomputing is slower than waiting.",
    ),
    Code.PEER_LOST: Properties(
        outcome="timeout",
        stages=STAGES,
        retryable=True,
        fatal=False,
        condemns=False,
        sentence="The other process or machine is gone; what it had begun may still touch the memory.",
        remedy="See why the peer died; its blocks come back when its memory is deregistered (a fence).",
    ),
    Code.BUSY: Properties(
        outcome="denied",
        stages=STAGES,
        retryable=False,
        fatal=False,
        condemns=False,
        sentence="The other side is there and did not take the request this time.",
        remedy="Slow down, or give the tier more connections, handles or bandwidth.",
    ),
    Code.PERMISSION_DENIED: Properties(
        outcome="denied",
        stages=STAGES,
        retryable=False,
        fatal=False,
        condemns=False,
        sentence="The process may not read or write there.",
        remedy="Mend the rights of the directory, the mount or the credentials.",
    ),
    Code.DEVICE_ERROR: Properties(
        outcome="denied",
        stages=STAGES,
        retryable=False,
        fatal=True,
        condemns=False,
        sentence="The device reported an error that does not go away; nothing that it holds can be trusted.",
        remedy="Restart the process; look at the device's own log (for CUDA: the Xid in the kernel log).",
    ),
    Code.CANCELLED: Properties(
        outcome="cancelled",
        stages=STAGES,
        retryable=False,
        fatal=False,
        condemns=False,
        sentence="It was stopped because somebody asked for that.",
        remedy="Nothing.",
    ),
    Code.INTERNAL: Properties(
        outcome="denied",
        stages=STAGES,
        retryable=False,
        fatal=False,
        condemns=False,
        sentence="An exception was raised where none was expected, in a copier, a tier or a translator.",
        remedy="Report it, with its type, its message and its first cause.",
    ),
    Code.UNKNOWN: Properties(
        outcome="denied",
        stages=STAGES,
        retryable=False,
        fatal=False,
        condemns=False,
        sentence="The driver gave a code that this registry does not know; its own value is kept.",
        remedy="Find the raw code in the driver's documentation and add it to its table.",
    ),
}
"""For each code: what the registry says of it."""

TRANSLATIONS: Final[dict[str, dict[str, Code]]] = {
    "errno": {
        "ENOENT": Code.BLOCK_NOT_FOUND,
        "ENOMEM": Code.KV_OOM,
        "ENOSPC": Code.NO_SPACE,
        "EDQUOT": Code.NO_SPACE,
        "EEXIST": Code.SLOT_CONFLICT,
        "ETIMEDOUT": Code.LOAD_TIMEOUT,
        "EPIPE": Code.PEER_LOST,
        "ENOTCONN": Code.PEER_LOST,
        "ESHUTDOWN": Code.PEER_LOST,
        "ECONNABORTED": Code.PEER_LOST,
        "ECONNREFUSED": Code.PEER_LOST,
        "ECONNRESET": Code.PEER_LOST,
        "EHOSTDOWN": Code.PEER_LOST,
        "EHOSTUNREACH": Code.PEER_LOST,
        "ENETDOWN": Code.PEER_LOST,
        "ENETRESET": Code.PEER_LOST,
        "ENETUNREACH": Code.PEER_LOST,
        "EAGAIN": Code.BUSY,
        "EBUSY": Code.BUSY,
        "EINTR": Code.BUSY,
        "EMFILE": Code.BUSY,
        "ENFILE": Code.BUSY,
        "EACCES": Code.PERMISSION_DENIED,
        "EPERM": Code.PERMISSION_DENIED,
        "EROFS": Code.PERMISSION_DENIED,
        "ECANCELED": Code.CANCELLED,
        "EWOULDBLOCK": Code.BUSY,
    },
    "http": {
        "404": Code.BLOCK_NOT_FOUND,
        "410": Code.BLOCK_NOT_FOUND,
        "416": Code.SHORT_READ,
        "507": Code.NO_SPACE,
        "409": Code.SLOT_CONFLICT,
        "412": Code.SLOT_CONFLICT,
        "408": Code.LOAD_TIMEOUT,
        "504": Code.LOAD_TIMEOUT,
        "502": Code.PEER_LOST,
        "429": Code.BUSY,
        "503": Code.BUSY,
        "401": Code.PERMISSION_DENIED,
        "403": Code.PERMISSION_DENIED,
        "407": Code.PERMISSION_DENIED,
    },
    "obstore": {
        "Connect": Code.PEER_LOST,
        "Request": Code.PEER_LOST,
        "Interrupted": Code.PEER_LOST,
        "Timeout": Code.LOAD_TIMEOUT,
        "obstore.exceptions.AlreadyExistsError": Code.SLOT_CONFLICT,
        "obstore.exceptions.PreconditionError": Code.SLOT_CONFLICT,
        "obstore.exceptions.PermissionDeniedError": Code.PERMISSION_DENIED,
        "obstore.exceptions.UnauthenticatedError": Code.PERMISSION_DENIED,
    },
    "cuda": {
        "cudaErrorMemoryAllocation": Code.KV_OOM,
        "cudaErrorTimeout": Code.LOAD_TIMEOUT,
        "cudaErrorInitializationError": Code.DEVICE_ERROR,
        "cudaErrorCudartUnloading": Code.DEVICE_ERROR,
        "cudaErrorDevicesUnavailable": Code.DEVICE_ERROR,
        "cudaErrorNoDevice": Code.DEVICE_ERROR,
        "cudaErrorInvalidDevice": Code.DEVICE_ERROR,
        "cudaErrorECCUncorrectable": Code.DEVICE_ERROR,
        "cudaErrorNvlinkUncorrectable": Code.DEVICE_ERROR,
        "cudaErrorIllegalAddress": Code.DEVICE_ERROR,
        "cudaErrorLaunchTimeout": Code.DEVICE_ERROR,
        "cudaErrorContextIsDestroyed": Code.DEVICE_ERROR,
        "cudaErrorAssert": Code.DEVICE_ERROR,
        "cudaErrorHardwareStackError": Code.DEVICE_ERROR,
        "cudaErrorIllegalInstruction": Code.DEVICE_ERROR,
        "cudaErrorMisalignedAddress": Code.DEVICE_ERROR,
        "cudaErrorInvalidAddressSpace": Code.DEVICE_ERROR,
        "cudaErrorInvalidPc": Code.DEVICE_ERROR,
        "cudaErrorLaunchFailure": Code.DEVICE_ERROR,
        "cudaErrorUnknown": Code.DEVICE_ERROR,
        "2": Code.KV_OOM,
        "3": Code.DEVICE_ERROR,
        "4": Code.DEVICE_ERROR,
        "46": Code.DEVICE_ERROR,
        "100": Code.DEVICE_ERROR,
        "101": Code.DEVICE_ERROR,
        "214": Code.DEVICE_ERROR,
        "220": Code.DEVICE_ERROR,
        "700": Code.DEVICE_ERROR,
        "702": Code.DEVICE_ERROR,
        "709": Code.DEVICE_ERROR,
        "710": Code.DEVICE_ERROR,
        "714": Code.DEVICE_ERROR,
        "715": Code.DEVICE_ERROR,
        "716": Code.DEVICE_ERROR,
        "717": Code.DEVICE_ERROR,
        "718": Code.DEVICE_ERROR,
        "719": Code.DEVICE_ERROR,
        "909": Code.LOAD_TIMEOUT,
        "999": Code.DEVICE_ERROR,
        "CUDA_ERROR_OUT_OF_MEMORY": Code.KV_OOM,
        "CUDA_ERROR_NOT_INITIALIZED": Code.DEVICE_ERROR,
        "CUDA_ERROR_DEINITIALIZED": Code.DEVICE_ERROR,
        "CUDA_ERROR_DEVICE_UNAVAILABLE": Code.DEVICE_ERROR,
        "CUDA_ERROR_NO_DEVICE": Code.DEVICE_ERROR,
        "CUDA_ERROR_INVALID_DEVICE": Code.DEVICE_ERROR,
        "CUDA_ERROR_ECC_UNCORRECTABLE": Code.DEVICE_ERROR,
        "CUDA_ERROR_NVLINK_UNCORRECTABLE": Code.DEVICE_ERROR,
        "CUDA_ERROR_ILLEGAL_ADDRESS": Code.DEVICE_ERROR,
        "CUDA_ERROR_LAUNCH_TIMEOUT": Code.DEVICE_ERROR,
        "CUDA_ERROR_CONTEXT_IS_DESTROYED": Code.DEVICE_ERROR,
        "CUDA_ERROR_ASSERT": Code.DEVICE_ERROR,
        "CUDA_ERROR_HARDWARE_STACK_ERROR": Code.DEVICE_ERROR,
        "CUDA_ERROR_ILLEGAL_INSTRUCTION": Code.DEVICE_ERROR,
        "CUDA_ERROR_MISALIGNED_ADDRESS": Code.DEVICE_ERROR,
        "CUDA_ERROR_INVALID_ADDRESS_SPACE": Code.DEVICE_ERROR,
        "CUDA_ERROR_INVALID_PC": Code.DEVICE_ERROR,
        "CUDA_ERROR_LAUNCH_FAILED": Code.DEVICE_ERROR,
        "CUDA_ERROR_TIMEOUT": Code.LOAD_TIMEOUT,
        "CUDA_ERROR_UNKNOWN": Code.DEVICE_ERROR,
    },
    "python": {
        "builtins.FileNotFoundError": Code.BLOCK_NOT_FOUND,
        "asyncio.exceptions.IncompleteReadError": Code.SHORT_READ,
        "http.client.IncompleteRead": Code.SHORT_READ,
        "builtins.MemoryError": Code.KV_OOM,
        "torch.OutOfMemoryError": Code.KV_OOM,
        "builtins.FileExistsError": Code.SLOT_CONFLICT,
        "builtins.TimeoutError": Code.LOAD_TIMEOUT,
        "builtins.ConnectionError": Code.PEER_LOST,
        "torch.distributed.DistBackendError": Code.PEER_LOST,
        "torch.distributed.DistNetworkError": Code.PEER_LOST,
        "builtins.BlockingIOError": Code.BUSY,
        "builtins.InterruptedError": Code.BUSY,
        "builtins.PermissionError": Code.PERMISSION_DENIED,
        "torch.AcceleratorError": Code.DEVICE_ERROR,
        "asyncio.exceptions.CancelledError": Code.CANCELLED,
        "concurrent.futures._base.CancelledError": Code.CANCELLED,
        "torch.cuda.OutOfMemoryError": Code.KV_OOM,
    },
    "raw": {
        "404": Code.BLOCK_NOT_FOUND,
        "1001": Code.CRC_MISMATCH,
        "507": Code.KV_OOM,
        "504": Code.LOAD_TIMEOUT,
    },
}
"""For each driver: its raw code, by name or number as a text, and what it means."""

TRANSIENT: Final[dict[str, frozenset[str]]] = {
    "errno": frozenset({"EAGAIN", "EBUSY", "EINTR", "EMFILE", "ENFILE", "EWOULDBLOCK"}),
    "http": frozenset({"429", "500", "503"}),
    "obstore": frozenset(),
    "cuda": frozenset(),
    "python": frozenset({"builtins.BlockingIOError", "builtins.InterruptedError"}),
    "raw": frozenset(),
}
"""For each driver: the raw codes that may work another time."""
