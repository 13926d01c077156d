"""Two real ledgers hand blocks to each other over a wire that loses, doubles and reorders, for random walks.

Rules are total: one that does not apply does nothing, and a number chooses among what there is. What a request is told
to go on with is compared with the bytes themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from kvstate.errors.codes import Code
from kvstate.peers.party import Party
from kvstate.peers.words import Forward
from tests.peers.two import Two

NUMBER = st.integers(0, 99)
SEEN: Counter[str] = Counter()
"""What the walks have come by, so that one that never gets there does not pass."""


class Handing(RuleBasedStateMachine):
    """A producer, a consumer, and everything that can go wrong between them."""

    def __init__(self) -> None:
        super().__init__()
        self.two = Two()
        self.requests = 0
        self.told: list[tuple[object, ...]] = []
        """Every verdict on a handoff, of all lives: handoff and side."""

    @rule(lines=st.integers(0, 2))
    def offer(self, lines: int) -> None:
        self.requests += 1
        name = b"r%d" % self.requests
        self.two.producer.prefill(name, [b"%s.%d" % (name, line) for line in range(lines)])
        self.two.producer.finish(name)
        self.after()

    @rule(number=NUMBER)
    def request(self, number: int) -> None:
        offers = list(self.two.consumer.goods)
        if offers:
            self.two.consumer.request(offers[-1 - number % min(3, len(offers))], until=self.two.now + 20)
            self.after()

    @rule(number=NUMBER)
    def withdraw(self, number: int) -> None:
        offers = list(self.two.producer.party.books.lends.values())
        if offers:
            self.two.producer.party.withdraw(self.two.producer.party.acts.handoff_of(offers[number % len(offers)]))
            self.after()

    @rule(number=NUMBER)
    def abort(self, number: int) -> None:
        going = [one for one in self.two.consumer.loads if one not in self.ended()]
        if going:
            self.two.consumer.abort(going[number % len(going)])
            self.after()

    @rule(number=NUMBER, keep=st.booleans())
    def deliver(self, number: int, keep: bool) -> None:
        if self.two.wire:
            self.two.deliver(number % len(self.two.wire), keep=keep and len(self.two.wire) < 30)
            self.after()

    @rule()
    def deliver_all(self) -> None:
        self.two.deliver_all()
        self.after()

    @rule(number=NUMBER)
    def lose(self, number: int) -> None:
        if self.two.wire:
            self.two.wire.pop(number % len(self.two.wire))

    @rule(number=NUMBER)
    def land(self, number: int) -> None:
        if self.two.consumer.flights:
            self.two.consumer.land(number % len(self.two.consumer.flights))

    @rule(number=NUMBER, outcome=st.sampled_from(["done", "done", "done", "failed", "broken"]))
    def report(self, number: int, outcome: str) -> None:
        if self.two.consumer.flights:
            self.two.consumer.report(number % len(self.two.consumer.flights), outcome)
            self.after()

    @rule()
    def overwrite(self) -> None:
        self.two.producer.overwrite()
        self.after()

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 8.0]), who=st.sampled_from(["both", "producer", "consumer"]))
    def tick(self, seconds: float, who: str) -> None:
        self.two.tick(seconds, producer=who != "consumer", consumer=who != "producer")
        self.after()

    @rule(number=NUMBER, late=st.booleans())
    def flow(self, number: int, late: bool) -> None:
        """All goes well for a while: what is offered is asked for and copied; or the producer's clock is far ahead."""
        self.offer(1 + number % 2)
        self.two.deliver_all()
        self.request(0)
        if late:
            self.tick(8.0, "producer")
            self.overwrite()
        while self.two.wire or self.two.consumer.flights:
            self.two.deliver_all()
            self.two.run_copies()
        self.after()

    @rule(number=NUMBER)
    def lost(self, number: int) -> None:
        if number % 8 < 2:
            (self.two.producer if number % 2 else self.two.consumer).party.peer_lost("C" if number % 2 else "P")
            self.meet()

    @rule(number=NUMBER)
    def restart(self, number: int) -> None:
        if self.two.lives < 103 and number % 5 == 0:
            self.told += [(one.handoff, one.side) for one in self.two.producer.ends]
            SEEN.update(f"lend {one.end}" for one in self.two.producer.ends)
            self.two.restart()
            self.after()

    @rule()
    def meet(self) -> None:
        self.two.producer.party.greet("C")
        self.two.consumer.party.greet("P")
        self.after()

    # -- what is looked at ---------------------------------------------------------------------------------------------

    def ended(self) -> set[int]:
        return {verdict.load for verdict in self.two.consumer.verdicts}

    def after(self) -> None:
        self.two.settle()
        self.look()

    def look(self) -> None:
        """No wrong byte, no second verdict, nothing broken, nothing held that is not offered."""
        two = self.two
        assert two.consumer.wrong == []
        told = self.told + [(one.handoff, one.side) for one in (*two.producer.ends, *two.consumer.ends)]
        assert len(told) == len(set(told)), "P1.one_end"
        for side in (two.producer, two.consumer):
            assert side.party.broken == ""
            assert side.ledger.fatal is None

    def teardown(self) -> None:
        """The clocks alone end everything; then both come to rest, and every handoff has its verdict."""
        two = self.two
        two.wire.clear()
        for _ in range(60):
            two.tick(2)
            two.wire.clear()
            two.run_copies()
        self.after()
        for side in (two.producer, two.consumer):
            books = side.party.books
            assert (books.lends, books.borrows, books.checks) == ({}, {}, {}), "P6.clock"
            assert [line for line in side.ledger.rest() if "lease" not in line] == []
        assert {one.handoff for one in two.consumer.ends} == set(two.consumer.goods)
        SEEN.update(f"lend {one.end}" for one in two.producer.ends)
        SEEN.update(f"borrow {one.end}" for one in two.consumer.ends)
        SEEN.update(f"{one.ending} {min(one.blocks, 1)}" for one in two.consumer.verdicts)
        SEEN.update(Code(error.code).name for one in two.consumer.verdicts for error in one.errors)
        super().teardown()


QUICK = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    derandomize=True,
)


def test_walks() -> None:
    SEEN.clear()
    run_state_machine_as_test(Handing, settings=QUICK)
    wanted = ["lend delivered", "lend withdrawn", "lend expired", "borrow taken", "borrow expired", "proceed 1"]
    assert [what for what in (*wanted, "LEASE_EXPIRED", "recompute 0") if not SEEN[what]] == [], SEEN


@pytest.mark.long
def test_long_walks() -> None:
    run_state_machine_as_test(Handing, settings=settings(QUICK, max_examples=150, stateful_step_count=80))


# --- What is broken is found ----------------------------------------------------------------------------------------


def lets_through(self: Party, report: object) -> None:
    """A report goes on without the producer's word."""
    self.books.actions.append(Forward(report))  # type: ignore[arg-type]


PLANTS = [(Party, "report", lets_through)]


@pytest.mark.parametrize(("owner", "method", "plant"), PLANTS, ids=[plant[1] for plant in PLANTS])
def test_a_walk_sees_wrong_bytes(
    owner: type, method: str, plant: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, method, plant)
    with pytest.raises(AssertionError, match="holds b"):
        run_state_machine_as_test(Handing, settings=settings(QUICK, max_examples=300, stateful_step_count=60))
