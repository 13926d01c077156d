"""What the two processes of a replay with peers do: one prefills and offers, the other takes and decodes."""

from __future__ import annotations

from random import Random
from time import monotonic
from typing import Final

from kvstate.errors import code_of
from kvstate.replay.peers.config import DECODE, PeersConfig
from kvstate.replay.peers.prompts import Prompt, Prompts, prompt_of
from kvstate.replay.trace import Request
from kvstate.runtime.answers import Done
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.peers.news import HandoffVerdict, Offered

OFFER_SECONDS: Final = 2.0
"""So long a decode waits for an offer; then it does without."""


class Prefill(Prompts):
    """Brings prompts onto its device and offers their blocks; its own lease ends at once."""

    def __init__(self, kv: KVRuntime, config: PeersConfig) -> None:
        super().__init__(kv, config)
        self.began: dict[int, float] = {}
        """When each offer of ours was made, by its number."""
        self.longest = 0.0
        """Seconds that an offer took at most."""
        self._dice = Random(config.seed ^ 0xFACE)

    def serve(self, request: Request) -> None:
        """A request has come."""
        self.begin(prompt_of(request))

    def turn(self, done: Done) -> None:
        """Hear how handoffs ended; one in so many is called off."""
        self._news(done)
        super().turn(done)
        for number in list(self.began):
            if self._dice.random() < self.config.abort / 20:
                self.counts.aborts += 1
                self.kv.withdraw(number)

    def _news(self, done: Done) -> None:
        for verdict in done.handoffs:
            self.counts.handoffs[named(verdict)] += 1
            self.longest = max(self.longest, monotonic() - self.began.pop(verdict.number, monotonic()))

    def there(self, prompt: Prompt) -> None:
        """Offer it, and be done with it: what is offered is held."""
        number = self.kv.offer(
            prompt.lease, prompt.blocks, to=DECODE, request=b"%d" % prompt.request.line,
            tokens=prompt.request.input_length, keys=prompt.keys,
        )  # fmt: skip
        if isinstance(number, int):
            self.began[number] = monotonic()
        else:
            self.counts.handoffs[f"refused: {number.reason[:60]}"] += 1
        self.end(prompt)

    def over(self, prompt: Prompt) -> None:
        """Tell the parent."""
        self.said.append(("prefilled", prompt.request.line))

    def under_way(self) -> int:
        """What still has to end."""
        return len(self.waiting) + len(self.began)


class Decode(Prompts):
    """Waits for the offer of each request, loads what is offered, computes what is not, and decodes."""

    def __init__(self, kv: KVRuntime, config: PeersConfig) -> None:
        super().__init__(kv, config)
        self.longest = 0.0
        """Seconds that an offer was known at most."""
        self._dice = Random(config.seed ^ 0xDEC0)
        self._expected: dict[int, tuple[Prompt, float]] = {}
        self._offers: dict[int, Offered] = {}
        self._known: dict[int, float] = {}

    def serve(self, request: Request) -> None:
        """A request has come; its blocks are on their way, or are not."""
        self._expected[request.line] = (prompt_of(request), monotonic() + OFFER_SECONDS)

    def turn(self, done: Done) -> None:
        """Take offers, let requests begin that have theirs or have waited enough, and hear how loads ended."""
        for offered in done.offers:
            self._offers[int(offered.request)] = offered
            self._known[offered.number] = monotonic()
        for verdict in done.handoffs:
            self.counts.handoffs[named(verdict)] += 1
            self.longest = max(self.longest, monotonic() - self._known.pop(verdict.number, monotonic()))
            self._offers = {line: one for line, one in self._offers.items() if one.number != verdict.number}
        for line, (prompt, until) in list(self._expected.items()):
            offered_now = self._offers.get(line)
            if offered_now is not None or monotonic() > until:
                del self._expected[line]
                prompt.offer = 0 if offered_now is None else offered_now.number
                self.begin(prompt)
        super().turn(done)
        if self.waiting and self._dice.random() < self.config.abort / 10:
            self.abort(self._dice.choice(list(self.waiting.values())))
        self._drop_late()

    def _drop_late(self) -> None:
        """Nobody waits for an offer that came after its request had begun."""
        wanted = {prompt.offer for prompt in self.waiting.values()}
        for line, offered in list(self._offers.items()):
            if line not in self._expected and offered.number not in wanted:
                del self._offers[line]
                self.kv.close_offer(offered.number, taken=False)

    def there(self, prompt: Prompt) -> None:
        """The prefill may let go of its blocks; ours decode for a while."""
        self.over(prompt)
        super().there(prompt)

    def over(self, prompt: Prompt) -> None:
        """Whatever was offered for it is not needed any more, and the parent may send another."""
        if not prompt.answered:
            prompt.answered = True
            self.said.append(("decoded", prompt.request.line))
        if prompt.offer:
            self._offers.pop(prompt.request.line, None)
            closed = self.kv.close_offer(prompt.offer, taken=prompt.taken)
            if closed is not True and prompt.taken:
                self.kv.close_offer(prompt.offer, taken=False)
            prompt.offer = 0

    def under_way(self) -> int:
        """What still has to end."""
        return len(self.waiting) + len(self._expected) + len(self._known)


def named(verdict: HandoffVerdict) -> str:
    """How a handoff ended, and why if there is a reason."""
    return verdict.end if not verdict.code else f"{verdict.end} ({code_of(verdict.code).name})"
