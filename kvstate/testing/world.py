"""The commands that are the world: how it begins, what lands, what is reported, what time it is.

Errors: each raises `Mistake` for words that name nothing, and for what can't happen.
"""

from __future__ import annotations

from itertools import takewhile

from kvstate.errors import Code, outcome_of, translate
from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.machines.messages import Failure, Kind, Outcome, Report, Token
from kvstate.machines.verdicts import Grant, Refusal, Short, Stored
from kvstate.testing.commands import Words, command
from kvstate.testing.names import COMMON, Mistake
from kvstate.testing.physics import JUNK, NOTHING, Bytes
from kvstate.testing.stage import Play, Stage

SETTINGS = {
    "ranks": "ranks",
    "attempts": "attempts",
    "part": "part_blocks",
    "batch": "batch_blocks",
    "jobs": "max_jobs",
    "grace": "grace",
    "retry": "retry_delay",
    "cool": "cool_for",
    "pending": "pending_for",
    "step": "step_for",
}
"""The settings of a ledger that a scenario may choose, and their names in the configuration."""
CALM = {"grace": 1.0, "retry_delay": 0.5, "cool_for": 3.0, "pending_for": 2.0, "step_for": 60.0}
"""Seconds that read well in a scenario, where it does not choose them itself."""
COPIER = "cpu"
"""The name of the only copier."""


# -- the beginning -----------------------------------------------------------------------------------------------------


@command("ledger POOL=BLOCK,BLOCK... [durable] [unverified] [SETTING=NUMBER...]", options=" ".join(SETTINGS), fewest=1)
def ledger(stage: Stage, words: Words) -> list[str]:
    """A new ledger in a new world. The first pool is the device; lower tiers are verified when they are loaded from."""
    settings: dict[str, float] = dict(CALM)
    for option, value in words.options.items():
        whole = SETTINGS[option] not in CALM
        settings[SETTINGS[option]] = words.number(value) if whole else words.seconds(value)
    flags = [word for word in words.list if word in ("durable", "unverified")]
    words.list = [word for word in words.list if word not in flags]
    pools: list[PoolConfig] = []
    blocks: list[str] = []
    for name, listed in words.pairs():
        names = listed.split(",")
        blocks += names
        lower = bool(pools)
        durable, verify = lower and "durable" in flags, lower and "unverified" not in flags
        pools.append(PoolConfig(name, len(names), durable=durable, verify=verify, copier=COPIER))
    twice = next((name for name in blocks if blocks.count(name) > 1), None)
    if twice is not None:
        raise Mistake(f"block {twice} is named twice")
    try:
        config = LedgerConfig(tuple(pools), **settings)  # type: ignore[arg-type]  # whole where it must be, see above
    except ConfigError as error:
        raise Mistake(str(error)) from None
    stage.begin(config, blocks)
    return ["ledger with " + "; ".join(_pools(pools, blocks))]


def _pools(pools: list[PoolConfig], blocks: list[str]) -> list[str]:
    left = iter(blocks)
    return [f"{pool.name} {' '.join(next(left) for _ in range(pool.blocks))}" for pool in pools]


@command("given KEY... in POOL [space=TENANT]", options="space", fewest=3)
def given(stage: Stage, words: Words) -> list[str]:
    """Somebody has stored these keys there long ago. It is done with real offloads; nothing stays on the device."""
    play, space = stage.play, words.options.get("space", COMMON)
    fired = stage.fired.copy()
    keys = list(takewhile(lambda word: word != "in", words.list))
    words.list = words.list[len(keys) :]
    words.keyword("in")
    pool = play.names.find_pool(words.take())
    lines = [_store_long_ago(play, key, space, pool) for key in keys]
    _clear_the_device(play, space)
    stage.fired.clear()
    stage.fired.update(fired)
    return lines


def _clear_the_device(play: Play, space: str) -> None:
    """Evict what is cached there, and give the blocks back so that the lowest number is handed out first again."""
    lease = play.ledger.open(space)
    short = play.ledger.allocate(lease, 10**9) if isinstance(lease, int) else None
    if isinstance(lease, int) and isinstance(short, Short):
        grant = play.ledger.allocate(lease, short.free)
        play.ledger.release(lease, sorted(grant.blocks) if isinstance(grant, Grant) else [])
        play.ledger.finish(lease)
    play.harvest(rows=False)
    for block in range(play.ledger.books.config.pools[0].blocks):
        play.physics.put(block, NOTHING)


def _store_long_ago(play: Play, key: str, space: str, pool: int) -> str:
    lease = play.ledger.open(space)
    grant = play.ledger.allocate(lease, 1) if isinstance(lease, int) else None
    if not isinstance(lease, int) or not isinstance(grant, Grant):
        raise Mistake(f"there is no room on the device to compute {key}; `given` belongs at the beginning")
    life = play.names.opened(lease, "past", space)
    play.physics.handed(ref.block for ref in grant.blocks)
    play.physics.put(grant.blocks[0].block, Bytes(space, key, str(life.request)))
    play.ledger.seal(lease, grant.blocks, [key.encode()])
    stored = play.ledger.offload(lease, grant.blocks, pool=pool)
    if not isinstance(stored, Stored):
        raise Mistake(f"{key} can't be stored in {play.ledger.books.pools[pool].config.name}: {stored.reason}")
    slot = next(part for part in play.ledger.books.parts.live() if part.writes)
    where = play.names.block(slot.writes[0])
    before = set(play.physics.flights)
    for _ in (Kind.STORE, Kind.PERSIST):
        play.harvest(rows=False)
        for serial in [serial for serial in play.physics.flights if serial not in before]:
            before.add(serial)
            play.physics.land(f"t{serial}")
            play.ledger.report(play.physics.say(f"t{serial}", Outcome.DONE, ()))
    play.ledger.finish(lease)
    play.harvest(rows=False)
    del play.names.jobs[stored.job]
    return f"{where} holds {key} by {life.request}"


# -- what happens to bytes ---------------------------------------------------------------------------------------------


@command("land TOKEN... | land step NUMBER", fewest=1)
def land(stage: Stage, words: Words) -> list[str]:
    """The copies do what they were sent for; nobody hears of it yet."""
    physics = stage.play.physics
    if words.list[0] == "step":
        words.take()
        return physics.land_step(words.number(words.take()))
    return [line for word in words.rest() for line in physics.land(word)]


@command("corrupt BLOCK...", fewest=1)
def corrupt(stage: Stage, words: Words) -> list[str]:
    """The bytes of these blocks go bad, and nobody notices."""
    return _befalls(stage, words, JUNK)


@command("remove BLOCK...", fewest=1)
def remove(stage: Stage, words: Words) -> list[str]:
    """What these blocks held is gone, and nobody was told."""
    return _befalls(stage, words, NOTHING)


def _befalls(stage: Stage, words: Words, content: Bytes) -> list[str]:
    blocks = [stage.play.names.find_block(word) for word in words.rest()]
    for block in blocks:
        stage.play.physics.put(block, content)
    return [f"{stage.play.names.block(block)} holds {content.key}" for block in blocks]


# -- what is reported --------------------------------------------------------------------------------------------------

DETAILS = "line stage driver raw type message transient"
"""What can be said of a failure, as `line=2`."""


@command("deliver TOKEN [again | OUTCOME] [line=N] [driver=D raw=R] [CODE]...", options="incarnation", fewest=1)
def deliver(stage: Stage, words: Words) -> list[str]:
    """A report arrives: the true one of a copy that has landed, the last one again, or what the line says."""
    play = stage.play
    name = words.take()
    incarnation = words.options.get("incarnation")
    report = _report(play, name, words)
    if incarnation is not None:
        report = report._replace(token=Token(words.number(incarnation), report.token.serial))
    books = play.ledger.books
    stale, unknown, poisoned = books.stale, books.unknown, play.ledger.fatal
    play.ledger.report(report)
    heard = "stale" if books.stale > stale else "unknown" if books.unknown > unknown else "heard"
    codes = " ".join(_code_name(failure.code) for failure in report.failures)
    said = f"{play.names.token(report.token)} {report.outcome}{f' {codes}' if codes else ''}"
    return [f"{said}: {'the ledger is poisoned' if poisoned else heard}"]


def _code_name(code: int) -> str:
    return Code(code).name if code in {int(one) for one in Code} else str(code)


def _report(play: Play, name: str, words: Words) -> Report:
    if not words.list:
        return play.physics.say(name, *play.physics.truth(name))
    if words.list == ["again"]:
        said = play.physics.flight(name).said
        if said is None:
            raise Mistake(f"nothing was reported of {name} yet, so it can't be said again")
        return said
    outcome = words.take() if words.list[0].islower() and "=" not in words.list[0] else ""
    failures = _failures(play, name, words)
    return play.physics.say(name, outcome or outcome_of(failures), failures)


def _failures(play: Play, name: str, words: Words) -> tuple[Failure, ...]:
    """`line=0 CRC_MISMATCH` is one failure, `driver=http raw=404` another; details stand before what they belong to."""
    serial = play.names.find_token(name).serial
    flight = play.physics.flights.get(serial)
    stages = {Kind.VERIFY: "verify", Kind.STORE: "store", Kind.PERSIST: "store"}
    usual = stages.get(Kind(flight.work.kind), "fetch") if flight is not None else "fetch"
    found: list[Failure] = []
    details: dict[str, str] = {}
    for word in words.rest():
        option, sign, value = word.partition("=")
        if sign and option not in DETAILS.split():
            raise words.wrong(f"{option} is no detail of a failure (there are {DETAILS})")
        if sign and option != "raw":
            details[option] = value
            continue
        line, where = words.number(details.pop("line", "0")) if "line" in details else -1, details.pop("stage", usual)
        if sign:
            driver = details.pop("driver", "generic")
            raw: object = int(value) if value.isdecimal() else value
            found.append(translate(driver, raw, stage=where, line=line, message=details.pop("message", "")))
            continue
        if word not in Code.__members__ and not word.isdecimal():
            raise Mistake(f"there is no error code {word}; there are {', '.join(Code.__members__)}")
        number = int(word) if word.isdecimal() else int(Code[word])
        again = details.pop("transient", "no") == "yes"
        found.append(Failure(line, number, where, transient=again, **details))
        details = {}
    if details:
        raise words.wrong(f"{', '.join(details)} belongs to no failure")
    return tuple(found)


@command("fence [TOKEN]", most=1)
def fence(stage: Stage, words: Words) -> list[str]:
    """Everything that was sent up to this token (up to now) is proved over: the copier's threads have been joined."""
    play = stage.play
    serial = play.names.find_token(words.take()).serial if words.list else play.ledger.books.serial
    play.physics.fence(serial)
    answers = [play.ledger.fenced(rank, COPIER, serial) for rank in range(play.ledger.books.config.ranks)]
    if isinstance(answers[0], Refusal):
        return [play.refused(answers[0])]
    return [f"proved over: {sum(answer for answer in answers if isinstance(answer, int))}"]


# -- time and the whole ------------------------------------------------------------------------------------------------


@command("tick SECONDS", fewest=1, most=1)
def tick(stage: Stage, words: Words) -> list[str]:
    """So much time passes."""
    play = stage.play
    play.now = round(play.now + words.seconds(words.take()), 6)
    play.ledger.tick(play.now)
    return [f"it is {play.now:g} s"]


@command("reset", most=0)
def reset(stage: Stage, _: Words) -> list[str]:
    """A new epoch: no key of before is a hit again."""
    answer = stage.play.ledger.reset()
    return [stage.play.refused(answer) if isinstance(answer, Refusal) else f"keys dropped: {answer}"]


@command("drain", most=0)
def drain(stage: Stage, _: Words) -> list[str]:
    """No new work."""
    answer = stage.play.ledger.drain()
    return [stage.play.refused(answer) if isinstance(answer, Refusal) else "draining"]


@command("shut", most=0)
def shut(stage: Stage, _: Words) -> list[str]:
    """Close a drained ledger that is at rest."""
    answer = stage.play.ledger.shut()
    return [stage.play.refused(answer) if isinstance(answer, Refusal) else "closed"]


@command("expect fatal", fewest=1, most=1)
def expect(stage: Stage, words: Words) -> list[str]:
    """This scenario ends with a poisoned ledger."""
    words.keyword("fatal")
    stage.expects_fatal = True
    return ["a poisoned ledger is expected"]
