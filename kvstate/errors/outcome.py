"""From what went wrong in a part to the one outcome that its copier reports.

A part has many lines and may fail in several ways at once; its report has one outcome. The order in which they win:

1. *timeout*, if the copier cannot say that every copy of the part is over, or if a failure itself says that nothing
   was heard (LOAD_TIMEOUT, PEER_LOST) and the copier does not know better. All other outcomes prove that the part
   will never touch memory again; claiming that while one line of it may still be written is the one mistake that
   costs another request's data. What is known of the other lines is not lost: when the copier later learns that all
   is over, it reports again, and a late *broken* still condemns the key (row P16).
2. *denied*, if a failure is fatal. A broken device reads garbage, so a checksum that does not match says nothing about
   the stored bytes, and no key is condemned on its word.
3. *broken*, if a failure condemns its key. It stands above *denied* and *failed*, since an index that goes on
   promising bad bytes gives every later request the same failure, while a retry that is not taken costs one recompute.
4. *cancelled*, if every failure is that. A cancellation beside another failure is its consequence (one line failed, the
   rest was stopped) or came too late to matter, and the failure is what the owner wants to know.
5. *failed*, if every remaining failure may be tried again. A retry runs the whole part anew, so one failure that
   would come back makes it pointless:
6. *denied* otherwise.

No failure at all is *denied*, as UNKNOWN is. Success is not concluded from the absence of complaints, of which there
may be none because they were lost: whoever knows that every line was copied says *done* itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvstate.errors.kverror import may_retry, properties_of
from kvstate.machines.messages import Failure, Outcome


def outcome_of(failures: Iterable[Failure], *, proved: bool | None = None) -> Outcome:
    """The outcome to report for a part with these failures (the reasons stand above).

    `proved`: does the copier know that every copy of the part is over? True where its thread has returned from them or
    its stream was synchronised; False where it gave up waiting; None lets the codes say it.
    """
    failures = tuple(failures)
    has = [properties_of(failure.code) for failure in failures]
    if proved is False or (proved is None and any(one.outcome == Outcome.TIMEOUT for one in has)):
        return Outcome.TIMEOUT
    if not failures or any(one.fatal for one in has):
        return Outcome.DENIED
    if any(one.condemns for one in has):
        return Outcome.BROKEN
    left = [failure for failure, one in zip(failures, has, strict=True) if one.outcome != Outcome.CANCELLED]
    if not left:
        return Outcome.CANCELLED
    return Outcome.FAILED if all(map(may_retry, left)) else Outcome.DENIED
