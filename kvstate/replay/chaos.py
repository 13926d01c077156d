"""What may go wrong with a part, and how often: rates, and the fate that they give to each part.

A fate is drawn once, when a part is submitted, from a generator of its own that is seeded with (seed, serial, kind).
So it does not depend on which thread ran when; a run that is repeated in another order deals the same cards. All dice
of a fate are thrown in the same order whatever the rates are: to raise one rate leaves the other decisions as they
were, and two runs can be compared.

No fate does what no driver can do: what reports that it is over never touches memory again, and what reports a timeout,
or is never heard of, goes on and lands later.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import Final, NamedTuple

from kvstate.errors import Code, properties_of
from kvstate.machines.messages import Kind, Outcome
from kvstate.runtime.stages import STAGES

Span = tuple[float, float]
"""Seconds, the least and the most."""


class Way(NamedTuple):
    """One way in which a failure shows: a driver's own code, or an exception out of the copy itself.

    `driver` is that of a translation table; `exception` means that `raw` names an exception that is raised inside, and
    an empty driver that the copier says the code by name.
    """

    driver: str
    """Whose code it is."""
    raw: str
    """The code as the driver says it, or the name of an exception, or of a code of the registry."""


EXCEPTIONS: Final[dict[str, type[Exception]]] = {
    "RuntimeError": RuntimeError,
    "ValueError": ValueError,
    "MemoryError": MemoryError,
    "TimeoutError": TimeoutError,
    "ConnectionResetError": ConnectionResetError,
}
"""What may be raised inside of a copy, by the name that `Way.raw` has for it."""

_ANYWHERE: Final[dict[str, tuple[Way, ...]]] = {
    "KV_OOM": (Way("raw", "507"), Way("errno", "ENOMEM"), Way("exception", "MemoryError")),
    "LOAD_TIMEOUT": (Way("raw", "504"), Way("errno", "ETIMEDOUT"), Way("exception", "TimeoutError")),
    "PEER_LOST": (Way("errno", "ECONNRESET"), Way("http", "502"), Way("exception", "ConnectionResetError")),
    "BUSY": (Way("errno", "EAGAIN"), Way("http", "503")),
    "PERMISSION_DENIED": (Way("errno", "EACCES"), Way("http", "403")),
    "INTERNAL": (Way("exception", "RuntimeError"), Way("exception", "ValueError")),
    "UNKNOWN": (Way("errno", "EIO"), Way("raw", "9999"), Way("http", "500")),
}
_READING: Final[dict[str, tuple[Way, ...]]] = {
    "BLOCK_NOT_FOUND": (Way("raw", "404"), Way("http", "404"), Way("errno", "ENOENT")),
    "CRC_MISMATCH": (Way("raw", "1001"),),
    "SHORT_READ": (Way("http", "416"),),
}
_WRITING: Final[dict[str, tuple[Way, ...]]] = {
    "NO_SPACE": (Way("errno", "ENOSPC"), Way("http", "507")),
    "SLOT_CONFLICT": (Way("errno", "EEXIST"), Way("http", "412")),
}
WAYS: Final[dict[str, dict[str, tuple[Way, ...]]]] = {
    Kind.STORE: _ANYWHERE | _WRITING,
    Kind.PERSIST: _ANYWHERE | _WRITING,
    Kind.FETCH: _ANYWHERE | _READING,
    Kind.VERIFY: _ANYWHERE | _READING,
    Kind.SEEK: _ANYWHERE,
}
"""For each kind of part: the codes it may fail with, each as often as the others, and the ways in which each shows.
DEVICE_ERROR is not among them: it is fatal, and a run proves nothing after it. It can be asked for by name."""

_KIND_NUMBERS: Final[dict[str, int]] = {kind: number for number, kind in enumerate(Kind)}
_SERIAL_BITS: Final = 64
_HALF_WAY: Final = 0.5


class Fault(NamedTuple):
    """How a part fails."""

    code: str
    """Which code comes out, by name."""
    way: Way
    """How it shows."""
    half_way: bool
    """After half of its lines, rather than before any byte."""

    @property
    def proves_nothing(self) -> bool:
        """Does it say that nothing was heard? Then the copy goes on behind it."""
        return properties_of(Code[self.code]).outcome == Outcome.TIMEOUT


class Blemish(NamedTuple):
    """Which byte of a part is flipped once its bytes are there, as shares of its lines and of a block's bytes."""

    line: float
    """Which of the lines, from 0 up to 1."""
    byte: float
    """Which byte of the block, from 0 up to 1."""
    mask: int
    """What the byte is xor-ed with; 1 to 255."""


class Fate(NamedTuple):
    """What will happen to one part. Times are seconds, each counted from the event before."""

    land: float
    """From submission until the bytes move, or until it fails, or until a timeout is reported."""
    report: float
    """From the bytes until the report."""
    late_landing: float = 0.0
    """For so much longer the bytes stay away: after a report of a timeout, or instead of any."""
    late_report: float = 0.0
    """For so much longer the report stays away."""
    duplicate: float | None = None
    """The report comes again after so long."""
    lost: bool = False
    """No report that proves anything ever comes."""
    fault: Fault | None = None
    """How it fails, if it does."""
    blemish: Blemish | None = None
    """Which byte is flipped once its bytes are there, if one is."""
    obeys: bool = False
    """A cancel that comes before the bytes is honoured."""
    tie: float = 0.0
    """Orders what is due at the same time."""

    @property
    def proves_nothing(self) -> bool:
        """Is it a report of a timeout, with the copy going on behind it?"""
        return self.fault is not None and self.fault.proves_nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaos:
    """Rates, each a share of parts between 0 and 1, and spans of seconds from which waits are drawn evenly.

    Raises `ValueError`, in a sentence, for a rate that is no share, a code that there is not, and a span that ends
    before it begins.
    """

    fail: float = 0.0
    """Fail with some code, each code as often as the others."""
    fail_codes: tuple[tuple[str, float], ...] = ()
    """Fail with the code that is named, on top of `fail`; of parts that can: none is out of space while it reads."""
    late: float = 0.0
    """Land, or report, after a wait out of `late_by` more; half of them the one, half the other."""
    duplicate: float = 0.0
    """Report twice."""
    lost: float = 0.0
    """Never report. Half of them land late, too."""
    corrupt: float = 0.0
    """Of stores and fetches: one byte of one block is flipped after the copy (and after the seal, of a store)."""
    obey: float = 0.5
    """Honour a cancel that comes before the bytes have moved."""
    delay: Span = (0.0, 0.0)
    """Seconds until the bytes land, and again until the report comes."""
    late_by: Span = (0.5, 3.0)
    """Seconds by which late is late; meant to reach beyond the deadlines and the grace of the run."""
    seed: int = 0
    """Of all dice."""

    def __post_init__(self) -> None:
        for name, value in self._rates():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
                raise ValueError(f"chaos: {name} is {value!r}; a rate is a share from 0 to 1")
        for code, _ in self.fail_codes:
            if code not in Code.__members__:
                raise ValueError(f"chaos: there is no error code {code!r} to fail with")
        if self.fail + sum(rate for _, rate in self.fail_codes) > 1.0:
            raise ValueError("chaos: the rates of failures add up to more than all parts")
        for name in ("delay", "late_by"):
            low, high = getattr(self, name)
            if not 0.0 <= low <= high < float("inf"):
                raise ValueError(f"chaos: {name} is {low:g} to {high:g}; give two numbers, the smaller first")

    def _rates(self) -> list[tuple[str, object]]:
        """Every field that is one number and not the seed, with the rates of single codes."""
        plain = [field.name for field in fields(self) if field.name not in ("fail_codes", "delay", "late_by", "seed")]
        return [(name, getattr(self, name)) for name in plain] + list(self.fail_codes)

    def fate(self, serial: int, kind: str) -> Fate:
        """What happens to the part whose token has this serial. The same for the same seed, serial and kind.

        `kind` is a value of `Kind`, of a part that is copied.
        """
        dice = Random(((self.seed << _SERIAL_BITS) + serial) * len(_KIND_NUMBERS) + _KIND_NUMBERS[kind])
        roll, uniform = dice.random, dice.uniform
        land, report, again = uniform(*self.delay), uniform(*self.delay), uniform(*self.delay)
        late_by = uniform(*self.late_by)
        fails, is_late, is_twice, is_lost, is_bad, obeys = roll(), roll(), roll(), roll(), roll(), roll()
        side, tie = roll(), roll()
        blemish = Blemish(roll(), roll(), dice.randint(1, 255))
        fault = self._fault(fails, dice, kind)
        lost = is_lost < self.lost
        late = is_late < self.late
        proves_nothing = fault is not None and fault.proves_nothing
        lands_late = proves_nothing or ((late or lost) and side < _HALF_WAY)
        return Fate(
            land=land,
            report=report,
            late_landing=late_by if lands_late else 0.0,
            late_report=late_by if late and not lands_late else 0.0,
            duplicate=again if is_twice < self.duplicate else None,
            lost=lost,
            fault=fault,
            blemish=blemish if fault is None and is_bad < self.corrupt and kind in (Kind.STORE, Kind.FETCH) else None,
            obeys=obeys < self.obey,
            tie=tie,
        )

    def _fault(self, share: float, dice: Random, kind: str) -> Fault | None:
        """The failure that a share between 0 and 1 stands for: the rates are laid side by side."""
        which, how, half_way = dice.random(), dice.random(), dice.random() < _HALF_WAY
        ways = WAYS[kind]
        if share < self.fail:
            code = list(ways)[int(which * len(ways))]
            return Fault(code, ways[code][int(how * len(ways[code]))], half_way)
        share -= self.fail
        for code, rate in self.fail_codes:
            if share < rate:
                fits = STAGES[kind] in properties_of(Code[code]).stages
                return Fault(code, Way("", code), half_way) if fits else None
            share -= rate
        return None
