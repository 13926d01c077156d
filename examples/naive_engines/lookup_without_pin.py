"""A lookup answers with blocks, and holds none of them (compare vllm 54914).

They are held when the request is admitted, which is after room was made for the rest of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.naive_engines.tiny import Life, Tiny


class Engine(Tiny):
    """See the module."""

    def admit(self, request: str, keys: Sequence[str]) -> bool:
        hits, slots = self.lookup(keys)
        self.unpin(hits, slots)  # looking is not touching
        fresh = self.device.take(len(keys) - len(hits))
        if fresh is None:
            return False
        for block in hits:
            self.device.hold(block)
        for slot in slots:
            self.host.hold(slot)
        ready = [place < len(hits) for place in range(len(keys))]
        life = self.lives[request] = Life(request, list(keys), hits + fresh, ready)
        if slots:
            self.load(life, len(hits), slots)
        return True
