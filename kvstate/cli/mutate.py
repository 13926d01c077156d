"""`kvstate mutate`: plant one fault at a time, and say which check notices it.

The work is done in `kvstate.mutation`; here options become a list of mutants, and results become a table or JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvstate.cli.output import console, print_json
from kvstate.cli.words import counted, did_you_mean, own_spec

if TYPE_CHECKING:
    from kvstate.mutation.checkout import Checkout
    from kvstate.mutation.kills import Result
    from kvstate.mutation.results import Known, Results
    from kvstate.mutation.run import Task

FEW = 40
"""So many results are shown one by one; of more, how many there are of each kind."""
EVERY = 25
"""Results between two writings of the file of `--out`."""


@click.command("mutate")
@click.argument("words", nargs=-1, metavar="[MUTANT]...")
@click.option("--list", "only_list", is_flag=True, help="Only say which mutants there are.")
@click.option("--all", "every", is_flag=True, help="Go on after the first check that kills one; takes long.")
@click.option("--code", is_flag=True, help="Faults that are planted in the code, in place of those in the spec.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="So many, drawn, and all former survivors.")
@click.option("--seed", type=int, default=0, metavar="S", help="Of the draw.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, metavar="N", help="Processes.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the results there.")
@click.option("--resume", is_flag=True, help="Go on where the run stopped that wrote the file of --out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(
    words: tuple[str, ...],
    only_list: bool,
    every: bool,
    code: bool,
    count: int | None,
    seed: int,
    jobs: int,
    out: Path | None,
    resume: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Plant one fault at a time in the spec, or in the code, and say which check notices it.

    MUTANT is a name, as "B21 leads to free", or the id of a row, coupling or act, whose mutants are all meant; all of
    them without. Checks are asked from the cheapest to the dearest, until one kills the mutant. Needs a checkout, for
    its scenarios and walks, and z3.

    The status is 1 if a mutant survives that is not on the list of known survivors, or one that is does not.
    """
    from kvstate.mutation.results import known, write

    if resume and out is None:
        raise click.UsageError("--resume goes on with the file of --out; name it, too", click.get_current_context())
    around = _checkout()
    rows = _rows(around, code=code)
    names = _chosen(rows, words)
    if count is not None:
        from kvstate.mutation.run import sample

        names = sample(names, seed, count, [] if code else known().former)
    if only_list:
        return _list(names, as_json=as_json)
    results = _begun(out, resume, code=code)
    done = {result.name: result for result in (results.code if code else results.mutants)}
    left = [name for name in names if name not in done]
    with _progress(quiet or as_json, len(left)) as progress:

        def heard(result: Result) -> None:
            done[result.name] = result
            progress(result.name, 1)
            if out is not None and (len(done) % EVERY == 0 or done.keys() >= set(names)):
                write(_with(results, [done[name] for name in rows if name in done], code=code), out)

        _run(
            around, left, jobs, heard,
            every=every, code=code, sampled=count is not None, say=lambda what: progress(what, 0),
        )  # fmt: skip
    found = [done[name] for name in names]
    return _told(found, known(), seed if count is not None else None, as_json=as_json)


# -- which -------------------------------------------------------------------------------------------------------------


def _checkout() -> Checkout:
    from kvstate.mutation.checkout import NoCheckoutError, here

    try:
        return here()
    except NoCheckoutError as problem:
        raise click.ClickException(str(problem)) from None


def _rows(around: Checkout, *, code: bool) -> dict[str, str]:
    """Every mutant that there is, in order, with the id of the row, coupling or act that is changed."""
    if code:
        from kvstate.mutation.code import faults

        return dict.fromkeys(faults(around), "")
    from kvstate.mutation.mutants import mutants

    return {mutant.name: mutant.row for mutant in mutants(own_spec())}


def _chosen(rows: dict[str, str], words: Sequence[str]) -> list[str]:
    known = {*rows, *rows.values()} - {""}
    for word in words:
        if word not in known:
            hint = did_you_mean(word, known)
            raise click.UsageError(f"there is no mutant {word!r}{hint}", click.get_current_context())
    return [name for name, row in rows.items() if not words or name in words or row in words]


def _list(names: Sequence[str], *, as_json: bool) -> int:
    if as_json:
        print_json(names)
    else:
        click.echo("\n".join([*names, counted(len(names), "mutant")]))
    return 0


def _begun(out: Path | None, resume: bool, *, code: bool) -> Results:
    """The results that a run goes on from: those in the file, or only those of the other kind of faults."""
    from kvstate.mutation.results import Results, ResultsError, read

    version = own_spec().version
    if out is None or not out.exists():
        return Results(version, ())
    try:
        found = read(out)
    except ResultsError as problem:
        if resume:
            raise click.ClickException(str(problem)) from None
        return Results(version, ())
    if found.spec == version:
        return found if resume else _with(found, (), code=code)
    if resume:
        sentence = f"{out} was made from spec {found.spec}, and this is {version}; run without --resume"
        raise click.ClickException(sentence)
    return Results(version, ())


def _with(results: Results, found: Sequence[Result], *, code: bool) -> Results:
    from dataclasses import replace

    return replace(results, code=tuple(found)) if code else replace(results, mutants=tuple(found))


# -- how ---------------------------------------------------------------------------------------------------------------


def _run(
    around: Checkout,
    names: Sequence[str],
    jobs: int,
    heard: Callable[[Result], None],
    *,
    every: bool,
    code: bool,
    sampled: bool,
    say: Callable[[str], None],
) -> None:
    from kvstate.mutation import baseline, run
    from kvstate.mutation.code import judge
    from kvstate.mutation.graph import NoBaselineError
    from kvstate.proof.terms import ProverMissingError, import_z3

    try:
        import_z3()
    except ProverMissingError:
        raise click.ClickException("nothing was tried: z3 is missing; pip install 'kvstate[proof]'") from None
    if not names:
        return
    try:
        with run.processes(min(jobs, len(names))) as executor:
            if code:
                judge(executor, names, heard)
                return
            tasks = _tasks(around, names, every=every, sampled=sampled)
            run.judge(executor, tasks, lambda: baseline.make(executor, around.root / run.BASELINE, say), heard, say)
    except NoBaselineError as problem:
        raise click.ClickException(str(problem)) from None


def _tasks(around: Checkout, names: Sequence[str], *, every: bool, sampled: bool) -> list[Task]:
    """The mutants, each with what came of it in the last run over all of them.

    Of a sample what made no difference then is held against what ships in those scopes alone that fired its row then.
    """
    from kvstate.mutation.results import FILE, ResultsError, read
    from kvstate.mutation.run import Task, fired_in

    try:
        last = read(around.root / FILE).by_name
    except (OSError, ResultsError):
        last = {}
    tasks = []
    for name in names:
        before = last.get(name)
        hint = before.killed_by[0] if before is not None and before.killed_by else None
        harmless = before is not None and before.verdict == "harmless"
        scopes = fired_in(before.note) if before is not None and harmless and sampled else ()
        tasks.append(Task(name, every, hint, harmless, scopes))
    return tasks


@contextmanager
def _progress(quiet: bool, total: int) -> Iterator[Callable[[str, int], None]]:
    """A line on stderr that says how far it is."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console(stderr=True), disable=quiet, transient=True)
    task = bar.add_task("mutants", total=total)

    def move(what: str, done: int) -> None:
        bar.update(task, description=what[:60], advance=done)

    with bar:
        yield move


# -- what came of it ---------------------------------------------------------------------------------------------------


def _told(found: Sequence[Result], listed: Known, seed: int | None, *, as_json: bool) -> int:
    from kvstate.mutation.code import KIND
    from kvstate.mutation.results import faults

    spec_faults = faults((one for one in found if one.kind != KIND), listed)
    wrong = [*spec_faults, *(f"{one.name}: no walk finds it" for one in found if _unexplained(one, KIND))]
    verdicts = Counter(one.verdict for one in found)
    if as_json:
        told = {"spec": own_spec().version, "seed": seed, "mutants": [one.as_dict() for one in found]}
        print_json({**told, "verdicts": dict(verdicts), "wrong": wrong})
    else:
        _show(found)
        drawn = "" if seed is None else f", drawn with seed {seed}"
        counts = ", ".join(f"{verdicts[word]:,} {word}" for word in ("killed", "harmless", "survived"))
        click.echo(f"{counted(len(found), 'mutant')}{drawn}: {counts}.")
        for sentence in wrong:
            click.echo(f"FAILED: {sentence}", err=True)
    return 1 if wrong else 0


def _unexplained(one: Result, kind: str) -> bool:
    return one.kind == kind and one.verdict == "survived" and not one.note


def _show(found: Sequence[Result]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from kvstate.mutation.kills import MEANS
    from kvstate.mutation.page import tally

    if len(found) <= FEW:
        table = Table("mutant", "verdict", "noticed by", "law", box=box.SIMPLE_HEAD)
        for one in found:
            kills = [(f"{kill.means}: {kill.what}", kill.law) for kill in one.killed_by] or [(one.note, "")]
            for place, (said, law) in enumerate(kills):
                table.add_row(*(("", "") if place else (Text(one.name), one.verdict)), Text(said), law)
    else:
        table = Table("kind", "mutants", *MEANS, "harmless", "survived", box=box.SIMPLE_HEAD)
        for line in tally(found):
            table.add_row(*line)
    console().print(table)
