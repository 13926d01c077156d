"""What can happen next, as branches of the model: the explorer's moves (`kvstate.explore.moves`), word for word.

Each branch says when it can be taken and names the operation that it is; the operations are written in
`model/requests.pml`, `copies.pml`, `steps.pml` and `world.pml`. A move of the clock belongs to a process of its own, so
that it can be treated with fairness.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvstate.promela.shape import KINDS, Shape

OPERATIONS = (
    "open close closed lookup allocate allocated compute publish start_jobs reset land deliver_truth silence "
    "fence corrupt tick due conclude key_done seal"
).split()
"""The inlines `op_...` of every scope."""
OF_LOADS = ("load", "arm_lapse", "cancel_load")
"""Those of a scope with loads."""
OF_STEPS = ("step", "hand_over", "land_step", "retire")
"""Those of a scope with compute steps."""
OF_JOBS = ("store", "accepted", "cancel_job")
"""Those of a scope with jobs."""
AGAIN = ("done", "failed", "timeout")
"""What is said again of a copy that is over."""
WORLD, CLOCK = "_pid % 2 == 0", "_pid % 2 == 1"
"""Which of the two processes makes a move. Their numbers are next to each other, whatever else Spin numbers."""


def operations(shape: Shape) -> list[str]:
    """The inlines of this scope that are operations, without `op_`."""
    return [
        *OPERATIONS,
        *(("drain",) if "service" in shape.count else ()),
        *(OF_STEPS if shape.steps else ()),
        *(OF_LOADS if "load" in shape.count else ()),
        *(OF_JOBS if "offload" in shape.count else ()),
    ]


def reports(shape: Shape) -> dict[str, str]:
    """The operations that are reports on a copy: their names, and what each does to `who`."""
    made = {
        f"OP_deliver_{outcome}": f"op_deliver(who, E_part_{outcome})"
        for outcome in shape.scope.fails
        if outcome != "timeout"
    }
    return made | {f"OP_repeat_{outcome}": f"op_repeat(who, E_part_{outcome})" for outcome in AGAIN}


def moves(shape: Shape) -> Iterator[str]:
    """All of them."""
    yield _move(CLOCK, "n_timer > 0", "tick", 0)
    yield from _requests(shape)
    for part in range(shape.count["part"]):
        yield from _copies(shape, part)
        yield from _steps(part) if shape.steps else ()
    yield from _rest(shape)


def _move(who: str, when: str, operation: str, of: int) -> str:
    return f":: {who} && {when} -> move = OP_{operation}; target = {of}"


def _requests(shape: Shape) -> Iterator[str]:
    for number, request in enumerate(shape.scope.requests):
        yield _move(WORLD, f"!run_open[{number}] && run_lives[{number}] > 0", "open", number)
        if request.ends:
            yield _move(WORLD, f"run_open[{number}]", "close", number)
        for at, word in enumerate(request.program):
            ready = f"run_open[{number}] && run_load[{number}] == 0 && run_at[{number}] == {at}"
            yield _move(WORLD, ready, "close" if word == "finish" else word, number)


def _copies(shape: Shape, part: int) -> Iterator[str]:
    out, kind = f"part_out[{part}]", f"part_kind[{part}]"
    ready = f" && part_after[{part}] == 0 && {kind} != STEP" if shape.steps else ""
    copy = f"{kind} != STEP && " if shape.steps else ""
    yield _move(WORLD, f"{out} == SENT && {kind} != VERIFY{ready}", "land", part)
    yield _move(WORLD, f"{copy}({out} == LANDED || {out} == SENT && {kind} == VERIFY)", "deliver_truth", part)
    can = {"broken": f"{kind} == FETCH", "cancelled": f"part_asked[{part}]", "timeout": f"!part_silent[{part}]"}
    for outcome in shape.scope.fails:
        operation = "silence" if outcome == "timeout" else f"deliver_{outcome}"
        yield _move(WORLD, f"{copy}{out} > 0 && {can.get(outcome, 'true')}", operation, part)
    for outcome in AGAIN:
        yield _move(WORLD, f"{part} < n_part && {out} == 0", f"repeat_{outcome}", part)


def _steps(part: int) -> Iterator[str]:
    """A step lands what it writes; the oldest one may retire then."""
    step = f"part_kind[{part}] == STEP && part_out[{part}]"
    oldest = "".join(f" && part_kind[{older}] != STEP" for older in range(part))
    yield _move(WORLD, f"{step} == SENT", "land_step", part)
    yield _move(WORLD, f"{step} == LANDED{oldest}", "retire", part)


def _rest(shape: Shape) -> Iterator[str]:
    scope, count = shape.scope, shape.count
    if scope.fences:
        copies = (f"part_out[{part}] > 0 && part_kind[{part}] != STEP" for part in range(count["part"]))
        yield _move(WORLD, f"({' || '.join(copies)})", "fence", 0)
    if scope.resets:
        yield _move(WORLD, "resets_left > 0", "reset", 0)
    if scope.drains:
        yield _move(WORLD, "drains_left > 0", "drain", 0)
    for key in range(len(shape.keys), 2 * len(shape.keys)) if scope.corrupt else ():
        yield _move(WORLD, f"corrupt_left > 0 && key_block[{key}] > 0", "corrupt", key)
    if scope.cancels:
        for job in range(count.get("offload", 0)):
            yield _move(WORLD, f"cancels_left > 0 && offload_state[{job}] > 0", "cancel_job", job)
        for load in range(count.get("load", 0)):
            when = f"cancels_left > 0 && load_state[{load}] > 0 && !load_told[{load}]"
            yield _move(WORLD, when, "cancel_load", load)


def constants(shape: Shape) -> Iterator[str]:
    """The numbers of the scope, by the names that the hand-written parts know."""
    config, count = shape.config, shape.count
    yield from (f"#define N_{name.upper()} {count.get(name, 0)}" for name in ("part", "offload", "transfer", "load"))
    numbers = {
        "BLOCKS": count["block"],
        "DEVICE_BLOCKS": config.pools[0].blocks,
        "KEYS": len(shape.keys),
        "KEYS_ALL": 2 * len(shape.keys),
        "REQUESTS": len(shape.scope.requests),
        "LINES": shape.lines,
        "OWNED": shape.lines,
        "BATCH": shape.batch,
        "JOBS": config.max_jobs,
        "N_TIMER": shape.timers,
        "DEADLINE": shape.deadline,
        "GRACE": shape.ticks(config.grace),
        "RETRY": shape.ticks(config.retry_delay),
        "COOL": shape.ticks(config.cool_for),
        "PENDING_FOR": shape.ticks(config.pending_for),
        "ADMITS": "takes_service_admit(0)" if "service" in count else "true",
        "STEPS": shape.steps,
        "STEP_FOR": shape.ticks(config.step_for),
        "N_SERVICE": count.get("service", 0),
        "DURABLE": str(config.pools[1].durable).lower(),
        "VERIFIED": str(config.pools[1].verify).lower(),
        "MAY_STOP": str("cancelled" in shape.scope.fails).lower(),
        **{kind.name: number for number, kind in enumerate(KINDS, 1)},
    }
    yield from (f"#define {name} {value}" for name, value in numbers.items())
