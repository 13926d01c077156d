"""`kvstate spec`: the machines as tables for people and as data for programs, and the check of a file of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvstate.cli.output import console, print_json, reflowed
from kvstate.cli.spec_diff import diff
from kvstate.cli.words import counted, find_machine, own_spec, peers_spec

if TYPE_CHECKING:
    from rich.table import Table

    from kvstate.spec.model import Machine, Row, Spec


PEERS = "peers"
"""The word for the spec of handoffs, where a machine would be named."""


class _ShowGroup(click.Group):
    """A group whose first word may be a machine: `kvstate spec block` is `kvstate spec show block`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group("spec", cls=_ShowGroup, subcommand_metavar="[MACHINE | FILE] [--json] | check FILE | diff OLD NEW")
def command() -> None:
    """Show the machines, check a machine file of your own, or compare two versions.

    \b
    kvstate spec               which machines there are, and what couples them
    kvstate spec block         the rows of one machine (or of a file of your own)
    kvstate spec peers         the machines of two processes that hand blocks to each other
    kvstate spec --json        all of it as data, for a program in any language
    kvstate spec check FILE    the loader's rules and the provers on a file of your own
    kvstate spec diff OLD NEW  two directories or files: compatible or breaking, row by row
    """


@command.command("show")
@click.argument("machine", required=False, metavar="[MACHINE | FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option("--why", is_flag=True, help="Print below the tables why each row of MACHINE is there.")
def show(machine: str | None, as_json: bool, why: bool) -> None:
    """Show the rows of one machine, or the list of machines. The word `show` may be left out.

    A name with .toml or with a folder before it is a file of your own.
    """
    if as_json:
        from kvstate.cli.data import machine_data, spec_data

        whole = {None: own_spec, PEERS: peers_spec}.get(machine)
        print_json(spec_data(whole()) if whole else machine_data(find_machine(str(machine))))
    elif machine == PEERS:
        _show_spec(peers_spec())
    elif machine:
        _show_machine(find_machine(machine), why)
    else:
        _show_spec(own_spec())


def _show_spec(spec: Spec) -> None:
    from rich import box
    from rich.table import Table

    machines = Table("machine", "what it is", "states", "events", "rows", box=box.SIMPLE_HEAD)
    for machine in spec.machines:
        counts = (str(len(part)) for part in (machine.states, machine.events, machine.rows))
        machines.add_row(machine.name, machine.title, *counts)
    couplings = Table("id", "effect", "is", "over", "asked", box=box.SIMPLE_HEAD)
    for link in spec.couplings:
        effect, event = f"{link.machine}.{link.effect}", f"{link.target}.{link.event}"
        couplings.add_row(link.id, effect, event, link.over, "yes" if link.ask else "")
    for act in spec.acts:
        couplings.add_row(act.id, f"{act.machine}.{act.effect}", f"act {act.act}", act.order, "")
    out = console()
    out.print(f"spec {spec.version}")
    out.print(machines)
    out.print("An effect of one machine is an event of another, or an act of the ledger:")
    out.print(couplings)


def _show_machine(machine: Machine, why: bool) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(f"{machine.name}: {machine.title}", style="bold"))
    out.print(Text(reflowed(machine.doc)))
    out.print()
    out.print(_facts(machine))
    out.print(_states(machine))
    out.print(_rows(machine))
    if why:
        out.print(_whys(machine))


def _facts(machine: Machine) -> str:
    """The variables, params and events of a machine in a line each."""
    from rich.markup import escape

    lines = [
        "vars      " + (", ".join(f"{var.name}: {var.type}" for var in machine.vars) or "none"),
        "params    " + (", ".join(f"{param.name} = {param.default}" for param in machine.params) or "none"),
    ]
    for kind in ("request", "report", "signal"):
        names = ", ".join(event.name for event in machine.events if event.kind == kind)
        lines.append(f"{kind + 's':<10}{names or 'none'}")
    return escape("\n".join(lines))


def _states(machine: Machine) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("state", "", "always true here", box=box.SIMPLE_HEAD)
    for state in machine.states:
        marks = ("initial ", state.name == machine.initial), ("home", state.home)
        table.add_row(state.name, "".join(mark for mark, on in marks if on), Text(str(state.invariant.source)))
    return table


def _rows(machine: Machine) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("id", "from", "event", "when", "to", "set", "effects, in order", box=box.SIMPLE_HEAD)
    for row in machine.rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    return table


def _whys(machine: Machine) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("id", "why", box=box.SIMPLE_HEAD)
    for row in machine.rows:
        table.add_row(row.id, Text(" ".join(row.why.split())))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    """A row as the seven cells of a line of the table."""
    when = "" if row.when.is_true else row.when.source
    sets = "; ".join(f"{name} = {right.source}" for name, right in row.sets)
    return row.id, " ".join(row.sources), " ".join(row.events), when, row.to or "=", sets, " ".join(row.effects)


@command.command("check", short_help="Check a machine file of your own.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--notes",
    is_flag=True,
    help="Say also what decides nothing: parts of guards that follow from the rest, writes that change nothing.",
)
def check(file: Path, notes: bool) -> int:
    """Check a machine file: the loader's rules, then guards and invariants by z3 where that is installed.

    What is wrong is one sentence each, with the place. The status is 1 for a file that is refused; where z3 is missing
    it is 0, and the last line says what was not checked.
    """
    from kvstate.spec.loader import load_machine
    from kvstate.spec.reading import SpecErrors

    try:
        machine = load_machine(file)
    except SpecErrors as faults:
        for fault in faults.errors:
            click.echo(str(fault))
        click.echo(f"{file}: refused, {counted(len(faults.errors), 'fault')}; nothing was proved.")
        return 1
    return _prove(file, machine, notes)


def _prove(file: Path, machine: Machine, notes: bool) -> int:
    """What the provers say of a machine that keeps the loader's rules; the status of the command."""
    from kvstate.proof.rows import check_rows, lints
    from kvstate.proof.terms import ProverMissingError

    size = f"{counted(len(machine.states), 'state')}, {counted(len(machine.rows), 'row')}"
    try:
        found = check_rows(machine)
        remarks = lints(machine) if notes and not found else []
    except ProverMissingError:
        click.echo(f"{file}: the loader's rules hold ({size}).")
        click.echo(
            "NOT CHECKED: that guards neither overlap nor leave a gap, and that rows keep the invariants. "
            "That needs z3: pip install 'kvstate[proof]'."
        )
        return 0
    for sentence in found:
        click.echo(sentence)
    if found:
        click.echo(f"{file}: refused, {counted(len(found), 'fault')} of guards or invariants.")
        return 1
    for remark in remarks:
        click.echo(f"note: {remark}")
    click.echo(f"{file}: the loader's rules hold; guards are disjoint and whole, invariants kept ({size}).")
    return 0


command.add_command(diff)
