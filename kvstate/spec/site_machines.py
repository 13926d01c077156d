"""The pages of the site that are made from the machines: one for each, and one for what couples them."""

from __future__ import annotations

from typing import NamedTuple

from kvstate.spec.model import Event, Machine, Row, Spec, State
from kvstate.spec.site_words import Words, anchor, below, code, table, target

_KINDS = {
    "request": "A *request* comes from a caller; where no row holds it is refused.",
    "report": "A *report* comes from the world; every state answers it.",
    "signal": "A *signal* comes from another machine; it must never be refused.",
}
_ROWS = """\
In any of the states of *from*, on any of the events, when *when* holds: go to *to*. The *changes* are computed from the
old values, then the *effects* happen in their order."""
_EFFECTS = """\
What the rows set off, in this order. The reason of each stands with the [couplings](../{}.md)."""
_COUPLINGS = """\
A row names effects and knows nothing more. Here stands what each of them is: an event of another machine, fired on
every record that a relation yields, or an act of the ledger. Effects happen in the order of the row. Within one, acts
that say *before* come first, then the couplings in this order, then acts that say *after*; each goes to its end before
the next begins."""
_RELATIONS = """\
A relation leads from a record of one machine to records of one other. It compares identities, and never decides by a
counter."""


class Source(NamedTuple):
    """A folder of the spec and the page of what couples its machines, with the `title` of that page."""

    folder: str
    couplings: str
    title: str


OWN = Source("spec", "couplings", "Couplings: how the machines hear of each other")
PEERS = Source("spec/peers", "peers", "Couplings of a handoff: how its machines hear of each other")
"""`OWN` and this: the two specs."""


def machine_page(machine: Machine, spec: Spec, words: Words, source: Source = OWN) -> str:
    """One machine: what it is, its picture, states, variables, events, rows with their `why`, and effects."""
    page = f"machines/{machine.name}.md"
    file = words.file(f"{source.folder}/{machine.name}.toml", page)
    states = [_state(machine, state, words, page) for state in machine.states]
    events = [_event(machine, event, spec, words, page) for event in machine.events]
    kinds = {event.kind for event in machine.events}
    parts = [
        f"# {machine.name}: {_small(machine.title)}",
        f"Made from {file}. What a column means stands in [How to read a row](../reading-a-row.md).",
        words.link(machine.doc, page).strip(),
        _picture(machine.name, f"The states of {machine.name} and the rows between them"),
        "## States",
        _everywhere(machine),
        table("state | | always true here | what it is", states),
        *_numbers(machine, words, page),
        "## Events",
        " ".join(said for kind, said in _KINDS.items() if kind in kinds),
        table("event | kind | fired by | what it is", events),
        "## Rows",
        f"{len(machine.rows)} rows. {_ROWS}",
        _rows(machine, words, page),
        *_effects(machine, spec, words, source),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def couplings_page(spec: Spec, words: Words, source: Source = OWN) -> str:
    """What each effect of each machine is: events of other machines, acts of the ledger, relations between."""
    page = f"{source.couplings}.md"
    parts = [
        f"# {source.title}",
        f"Made from {words.file(f'{source.folder}/coupling.toml', page)}. {_COUPLINGS}",
        _picture(source.couplings, "Which machine fires events of which other, and with which effects"),
    ]
    for machine in spec.machines:
        if machine.effects:
            made = table("effect | id | what it is | why", _meanings(machine, spec, words, page))
            parts += [f"## Effects of {machine.name}", made]
    relations = [
        (target(each.name, code(each.name)), _machine(each.of), _machine(each.to), words.link(each.doc, page))
        for each in spec.relations
    ]
    parts += ["## Relations", _RELATIONS, table("relation | from | to | which records", relations)]
    return "\n\n".join(parts) + "\n"


def _machine(name: str) -> str:
    return f"[{name}](machines/{name}.md)"


def _meanings(machine: Machine, spec: Spec, words: Words, page: str) -> list[tuple[str, ...]]:
    """What each effect of a machine is, effect by effect, in the order in which it happens."""
    found: list[tuple[int, int, str, str, str]] = []
    for act in spec.acts:
        if act.machine == machine.name:
            place = 0 if act.order == "before" else 2
            said = f"{act.order}: the ledger does `{act.act}`"
            found.append((machine.effects.index(act.effect), place, act.id, said, act.why))
    for each in spec.couplings:
        if each.machine == machine.name:
            said = f"`{each.event}` of {_machine(each.target)} over [`{each.over}`](#{anchor(each.over)})"
            said += ", where a row accepts it" if each.ask else ""
            found.append((machine.effects.index(each.effect), 1, each.id, said, each.why))
    return [
        (code(machine.effects[effect]), target(name), said, words.link(why, page))
        for effect, _, name, said, why in sorted(found)
    ]


def _small(title: str) -> str:
    """A title after a colon."""
    return title[:1].lower() + title[1:]


def _picture(name: str, said: str) -> str:
    folder = "pictures" if name in (OWN.couplings, PEERS.couplings) else "../pictures"
    options = f":alt: {said}\n:width: 100%"
    return f"```{{figure}} {folder}/{name}.svg\n{options}\n\n{said}. A click opens it in full size.\n```"


def _common(machine: Machine) -> list[str]:
    """The parts of the invariant that are the same in every state: those of the machine itself."""
    said = [[part.source for part in state.invariant.conjuncts] for state in machine.states]
    return [part for part in said[0] if all(part in each for each in said)]


def _everywhere(machine: Machine) -> str:
    common = _common(machine)
    return f"True in every state: {', '.join(map(code, common))}." if common else ""


def _state(machine: Machine, state: State, words: Words, page: str) -> tuple[str, ...]:
    marks = [word for word, holds in (("initial", state.name == machine.initial), ("home", state.home)) if holds]
    common = _common(machine)
    own = [part.source for part in state.invariant.conjuncts if part.source not in common]
    return f"*{state.name}*", ", ".join(marks), ", ".join(map(code, own)), words.link(state.doc, page)


def _numbers(machine: Machine, words: Words, page: str) -> list[str]:
    """The variables and params, where there are any."""
    parts = []
    if machine.vars:
        firsts = ["given" if var.initial is None else code(str(var.initial)) for var in machine.vars]
        rows = [
            (code(var.name), var.type, first, words.link(var.doc, page))
            for var, first in zip(machine.vars, firsts, strict=True)
        ]
        parts += ["## Variables", table("variable | type | at first | what it is", rows)]
    if machine.params:
        params = [
            (code(each.name), code(str(each.default)), f"{each.min} to {each.max}", words.link(each.doc, page))
            for each in machine.params
        ]
        parts += ["## Params", table("param | default | proved for | what it is", params)]
    return parts


def _event(machine: Machine, event: Event, spec: Spec, words: Words, page: str) -> tuple[str, ...]:
    fired = [
        f"{each.machine} ({words.name(each.id)})"
        for each in spec.couplings
        if (each.target, each.event) == (machine.name, event.name)
    ]
    return code(event.name), event.kind, ", ".join(fired), words.link(event.doc, page)


def _rows(machine: Machine, words: Words, page: str) -> str:
    """The table of rows. The style sheet sets `why` below the other cells of its row."""
    rows = [_row(machine, row, words, page) for row in machine.rows]
    return below("kv-rows", table("id | from | event | when | to | changes | effects | why", rows))


def _row(machine: Machine, row: Row, words: Words, page: str) -> tuple[str, ...]:
    return (
        target(row.id),
        ", ".join(f"*{state}*" for state in row.sources),
        ", ".join(map(code, row.events)),
        "" if row.when.source == "True" else code(row.when.source),
        "stays" if row.to is None else f"*{row.to}*",
        ", ".join(code(f"{name} = {value.source}") for name, value in row.sets),
        ", ".join(f"[`{effect}`](#{machine.name}-{anchor(effect)})" for effect in row.effects),
        words.link(row.why, page),
    )


def _effects(machine: Machine, spec: Spec, words: Words, source: Source) -> list[str]:
    """What each effect that a row names sets off, in order."""
    rows = []
    for effect in machine.effects:
        here = (machine.name, effect)
        acts = [act for act in spec.acts if (act.machine, act.effect) == here]
        fired = [each for each in spec.couplings if (each.machine, each.effect) == here]
        done = [f"{words.name(act.id)} `{act.act}`" for act in acts if act.order == "before"]
        done += [f"{words.name(each.id)} `{each.event}` of [{each.target}]({each.target}.md)" for each in fired]
        done += [f"{words.name(act.id)} `{act.act}`" for act in acts if act.order == "after"]
        rows.append((f"[`{effect}`]{{#{machine.name}-{anchor(effect)}}}", ", then ".join(done)))
    said = _EFFECTS.format(source.couplings)
    return ["## Effects", said, table("effect | what it sets off", rows)] if rows else []
