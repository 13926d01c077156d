"""The commands that are the world: how it begins, what lands, what is reported, what time it is.

Errors: each raises `Mistake` for words that name nothing, and for what can't happen.
"""

from __future__ import annotations

from kvstate.errors import Code, outcome_of, translate
from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.machines.messages import Failure, Kind, Report, Token
from kvstate.machines.verdicts import Refusal
from kvstate.testing import past  # noqa: F401  it registers a command
from kvstate.testing.commands import Words, command
from kvstate.testing.groups import read_groups, shown
from kvstate.testing.matter import JUNK, NOTHING, Bytes
from kvstate.testing.names import Mistake
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


@command(
    "ledger POOL=BLOCK,BLOCK... [foreign] [durable] [unverified] [keeps=POOL] [shared=POOL | offered=POOL] "
    "[groups=NAME:TOKENS[:WINDOW],...] [SETTING=NUMBER...]",
    options=" ".join((*SETTINGS, "groups", "keeps", "shared", "offered")),
    fewest=1,
)
def ledger(stage: Stage, words: Words) -> list[str]:
    """A new ledger in a new world. The first pool is the device; lower tiers are verified when they are loaded from.

    `foreign`: the engine has an allocator of its own for the device. What it does is told with `engine`. `keeps` names
    the lowest tier if it is durable and its objects are played, too: they outlive the process, and a fetch checks them.
    `shared` names a store that others write to as well, `offered` what a peer offers: one of the lower tiers.
    """
    settings: dict[str, float] = dict(CALM)
    groups = read_groups(words.options.pop("groups", ""))
    keeper, store = words.options.pop("keeps", ""), words.options.pop("shared", "")
    common = store or words.options.pop("offered", "")
    for option, value in words.options.items():
        whole = SETTINGS[option] not in CALM
        settings[SETTINGS[option]] = words.number(value) if whole else words.seconds(value)
    flags = [word for word in words.list if word in ("foreign", "durable", "unverified")]
    words.list = [word for word in words.list if word not in flags]
    pools: list[PoolConfig] = []
    blocks: list[str] = []
    for name, listed in words.pairs():
        names = listed.split(",")
        blocks += names
        lower = bool(pools)
        durable = lower and ("durable" in flags or name in (keeper, store))
        verify = lower and "unverified" not in flags and name != keeper
        foreign = not lower and "foreign" in flags
        pools.append(PoolConfig(name, len(names), durable, verify, COPIER, foreign, name == common))
    twice = next((name for name in blocks if blocks.count(name) > 1), None)
    if twice is not None:
        raise Mistake(f"block {twice} is named twice")
    if keeper and keeper != pools[-1].name:
        raise Mistake(f"{keeper} can't keep objects; only the lowest tier can, which is {pools[-1].name}")
    try:
        config = LedgerConfig(tuple(pools), groups=groups, **settings)  # type: ignore[arg-type]  # see `whole`
    except ConfigError as error:
        raise Mistake(str(error)) from None
    stage.begin(config, blocks)
    total = len(blocks)
    physics = stage.play.physics
    physics.objects.blocks = range(total - pools[-1].blocks if keeper else total, total)
    if common:
        physics.others.blocks = _blocks_of(pools, common)
    return ["ledger with " + "; ".join((*_pools(pools, blocks), *map(shown, groups)))]


def _blocks_of(pools: list[PoolConfig], name: str) -> range:
    """The blocks of a tier below the device. Errors: `Mistake` for what is none."""
    places = [place for place, pool in enumerate(pools) if place and pool.name == name]
    if not places:
        raise Mistake(f"{name} can't be shared: it is no tier below the device")
    first = sum(pool.blocks for pool in pools[: places[0]])
    return range(first, first + pools[places[0]].blocks)


def _pools(pools: list[PoolConfig], blocks: list[str]) -> list[str]:
    left = iter(blocks)
    return [f"{pool.name} {' '.join(next(left) for _ in range(pool.blocks))}" for pool in pools]


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
    play.physics.others.sayings.passed(play.now)
    play.ledger.tick(play.now)
    return [f"it is {play.now:g} s"]


@command("reset [keep]", most=1)
def reset(stage: Stage, words: Words) -> list[str]:
    """A new epoch: no key of before is a hit again. Objects go, too, unless they are to be kept."""
    keep = bool(words.list)
    if keep:
        words.keyword("keep")
    elif stage.play.ledger.fatal is None:
        stage.play.physics.objects.expire(stage.play.ledger.books.serial)
    stage.play.physics.others.sayings.reset()
    answer = stage.play.ledger.reset(keep_durable=keep)
    return [stage.play.refused(answer) if isinstance(answer, Refusal) else f"keys dropped: {answer}"]


@command("drain", most=0)
def drain(stage: Stage, _: Words) -> list[str]:
    """No new work."""
    stage.play.physics.others.sayings.called_off()
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
