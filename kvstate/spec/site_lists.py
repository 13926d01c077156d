"""The pages of the site that are made from lists: error codes, laws and properties, scenarios, the reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from kvstate.errors.registry import CodeEntry, Registry
from kvstate.spec.properties import Properties, Property
from kvstate.spec.site_words import Words, anchor, below, code, slug, table, target

MODULES = {
    "kvstate.machines.ledger": "all requests and reports by name; here an embedder begins",
    "kvstate.machines.allocator": "what an engine with an allocator of its own reports",
    "kvstate.machines.messages": "what goes down to workers and comes up from them",
    "kvstate.machines.verdicts": "what the scheduler is told, and what a request is answered",
    "kvstate.machines.config": "what a ledger is told at its birth",
    "kvstate.machines.groups": "what a length needs of each KV group, and which length some blocks are enough for",
    "kvstate.machines.policy": "which cached block leaves first",
    "kvstate.machines.adaptive": "eviction that lets go first of what was never asked for again",
    "kvstate.machines.cold": "what a pool would evict next, and what of it is nowhere below",
    "kvstate.machines.ranks": "what goes with a rank whose process has died",
    "kvstate.tiering.tiering": "what is stored in which tier, and when",
    "kvstate.tiering.config": "what is wanted of each tier",
    "kvstate.tiering.counts": "what became of the blocks of a tier",
    "kvstate.runtime.kv": "what a serving engine embeds: ledger, engine and workers behind one object",
    "kvstate.runtime.guarded": "the requests of that object, and who may make them",
    "kvstate.runtime.answers": "what a turn of it brings, and what a shutdown leaves",
    "kvstate.runtime.peers.news": "what it tells of its peers",
    "kvstate.runtime.peers.settings": "who a process is to its peers",
    "kvstate.runtime.settings": "its settings, from code or from a file",
    "kvstate.runtime.worker": "one rank's end in another process",
    "kvstate.runtime.processes": "worker processes of ours",
    "kvstate.runtime.engine": "the loop between ledger and copiers",
    "kvstate.runtime.inbox": "the door between threads",
    "kvstate.runtime.memory": "pools of blocks, and the numbers of blocks through all of them",
    "kvstate.runtime.tensors": "pools over the engine's own tensors",
    "kvstate.runtime.pages": "host pools that a GPU copies from and to by itself",
    "kvstate.runtime.seals": "what a pool remembers of each slot beside its bytes",
    "kvstate.runtime.clock": "real and virtual time",
    "kvstate.runtime.copy": "one copy, its seal and its check",
    "kvstate.runtime.copiers": "what a copier has to be",
    "kvstate.runtime.copiers.threads": "copies by threads",
    "kvstate.runtime.copiers.cuda": "copies on streams of a GPU",
    "kvstate.runtime.copiers.choice": "which copier runs, and why",
    "kvstate.runtime.copiers.hand": "copies that a test lands and reports by hand",
    "kvstate.runtime.recovery": "what durable pools held when the process came up, agreed upon by all ranks",
    "kvstate.runtime.tiers.settings": "where a durable pool lies, and under which promises",
    "kvstate.runtime.tiers.copier": "the copier of a disk tier",
    "kvstate.runtime.tiers.disk": "the slots of a durable pool, and the objects that they hold",
    "kvstate.runtime.tiers.keeper": "what an engine needs of a copier whose pool outlives the process",
    "kvstate.runtime.tiers.folder": "objects as files, whole or absent whenever their writer dies",
    "kvstate.runtime.tiers.sealed": "what an object says of itself, and how that is checked",
    "kvstate.runtime.tiers.survey": "what a folder of objects holds when it is opened",
    "kvstate.trace.record": "a run written down, line by line",
    "kvstate.trace.ring": "the end of a run, kept in memory for the day when something breaks",
    "kvstate.trace.observer": "what an engine tells whoever watches it",
    "kvstate.observe.metrics": "metrics for Prometheus",
    "kvstate.observe.counts": "what they are made from, counted by the loop",
    "kvstate.observe.log": "events that matter, for the standard logging",
    "kvstate.observe.chrome": "a record as a trace for Perfetto",
    "kvstate.errors": "codes, errors as values, translations",
    "kvstate.codec": "effects and reports as bytes",
    "kvstate.wire": "messages between a scheduler and its workers",
    "kvstate.integrations.vllm.settings": "what the connector for vLLM is told, and which versions were tested",
    "kvstate.peers.party": "one process's end of its handoffs with others",
    "kvstate.peers.words": "what a party is told and what it says",
    "kvstate.peers.codec": "the messages between two parties as bytes",
    "kvstate.testing": "text scenarios and the conformance kit, for tests of one's own",
    "kvstate.testing.adapter": "what an engine answers so that the kit can drive it",
    "kvstate.testing.suite": "the kit as a class of tests",
    "kvstate.testing.scenario": "the format of a scenario, and what plays it",
}
"""The public modules, and what each is for."""
FRONTS = frozenset({"kvstate.testing"})
"""Those that only pass on what stands in another of them."""


_ERRORS = """\
A code says what is known and not what is suspected. Whoever sees a failure first translates it once, at the boundary.
`kvstate explain CODE` says the same in a terminal."""
_COLUMNS = """\
*reported as*: what a copier says of a part that failed for this reason alone. *retryable*: the same part may be tried
again at once, with a new token. *condemns*: the key is a miss until it is stored anew. *fatal*: the process can't go on
with this device."""
_DRIVERS = """\
The drivers' own codes, and what they become. One that stands here means this at the stages of its code alone. At
others, and where it does not stand here, it becomes [`UNKNOWN`](#unknown), or `INTERNAL` for an exception."""
_PROPERTIES = """\
A *law* is a promise in a sentence. A *property* is one way in which it could be broken, stated so that a checker can
look for it: *always* true, *never* in any run, *leads-to* from every state that fits, or *sometimes*, in some run. Most
of what checks them looks at walks and runs, which is evidence and no proof; see [Status](status.md)."""
_ASSUMPTIONS = """\
What the ledger takes on trust. Where one is false, the laws that rest on it are no longer promised, and no test of this
project can see it."""
_SCENARIOS = """\
Incidents of real engines and the stories of [Late callbacks](late-callbacks.md), as text files: commands, a line, the
ledger's answer. A test plays each of them and compares every line. How to write one of your own stands in
[`kvstate.testing`](api/kvstate.testing.md)."""


def errors_page(registry: Registry, words: Words) -> str:
    """Every error code with what is known of it, and the drivers' own codes that become it."""
    page = "errors.md"
    families = [(f"{each.first} to {each.first + 99}", each.name, each.doc) for each in registry.families]
    parts = [
        "# Errors: what went wrong, as a code",
        f"Made from {words.file('spec/errors.toml', page)}. {_ERRORS}",
        table(
            "code | number | reported as | stages | retryable | condemns | fatal",
            [_overview(each, registry) for each in registry.codes],
        ),
        _COLUMNS,
        "## Stages",
        table("stage | what it is", [(code(stage.name), words.link(stage.doc, page)) for stage in registry.stages]),
        "## Families",
        "A number is given once. A hundred of them belong together.",
        table("numbers | family | what they have in common", families),
        "## Codes",
        *(_code(each, registry, words, page) for each in registry.codes),
        "## Drivers",
        _DRIVERS,
    ]
    for driver in registry.drivers:
        raw = [
            (code(name), words.name(to, code(to)), "yes" if name in driver.transient else "") for name, to in driver.raw
        ]
        said = words.link(driver.doc, page).strip()
        parts += [f"### Driver {driver.name}", said, table("raw code | becomes | may pass", raw)]
    return "\n\n".join(parts) + "\n"


def _overview(entry: CodeEntry, registry: Registry) -> tuple[str, ...]:
    marks = ("yes" if mark else "" for mark in (entry.retryable, entry.condemns, entry.fatal))
    name = f"[`{entry.name}`](#{anchor(entry.name)})"
    return name, str(entry.number), entry.outcome, _stages(entry, registry), *marks


def _stages(entry: CodeEntry, registry: Registry) -> str:
    return "all" if len(entry.stages) == len(registry.stages) else ", ".join(entry.stages)


def _code(entry: CodeEntry, registry: Registry, words: Words, page: str) -> str:
    """One code: its sentence, remedy and raw codes."""
    marks = [word for word in ("retryable", "condemns", "fatal") if getattr(entry, word)]
    lines = [
        f"({anchor(entry.name)})=",
        f"### {entry.number} {entry.name}",
        "",
        f"{entry.sentence.strip()}",
        "",
        f"* *Reported as*: {entry.outcome}" + "".join(f", {mark}" for mark in marks),
        f"* *At*: {', '.join(map(code, entry.stages))}",
        f"* *Remedy*: {words.link(entry.remedy.strip(), page)}",
    ]
    for driver in registry.drivers:
        raw = [code(name) for name, to in driver.raw if to == entry.name]
        if raw:
            lines.append(f"* *Raw codes of {driver.name}*: {', '.join(raw)}")
    return "\n".join([*lines, "", words.link(entry.doc, page).strip()])


def properties_page(data: Properties, words: Words) -> str:
    """The laws, the properties under each with what checks it, and what is assumed."""
    page = "properties.md"
    parts = [
        "# Properties: what is promised, and who looks",
        f"Made from {words.file('spec/properties.toml', page)}. {_PROPERTIES}",
    ]
    for law in data.laws:
        rows = [_property(each, words, page) for each in data.properties if each.law == law.name]
        parts += [
            f"({anchor(law.name)})=\n## {law.name}: {law.title}",
            words.link(law.sentence, page).strip(),
            below("kv-properties", table("property | kind | sentence | checked by", rows)),
        ]
    assumed = [
        (target(each.name, code(each.name)), each.of, words.link(each.sentence, page)) for each in data.assumptions
    ]
    parts += ["## Assumptions", _ASSUMPTIONS, table("assumption | of | sentence", assumed)]
    return "\n\n".join(parts) + "\n"


def _property(each: Property, words: Words, page: str) -> tuple[str, ...]:
    checks = ", ".join(words.link(code(check), page) for check in each.checked_by)
    said = f"Checked by {checks}." if checks else "Nothing checks it yet."
    return target(each.name), each.kind, words.link(each.sentence, page), said


def names_of(registry: Registry, data: Properties) -> frozenset[str]:
    """All names on these pages that have an anchor."""
    listed = {law.name for law in data.laws} | {each.name for each in data.properties}
    listed |= {each.name for each in data.assumptions}
    return frozenset(listed | {each.name for each in registry.codes})


def header(text: str) -> dict[str, str]:
    """The fields at the top of a scenario (`Story`, `Laws`, `Rows`), and its title as `Title`."""
    lines = re.match(r"(?:#.*\n)+", text)
    found = dict(re.findall(r"(?m)^# (Story|Laws|Rows): (.+)$", lines[0] if lines else ""))
    return {"Title": text.partition("\n")[0].removeprefix("# "), **found}


def scenarios_page(files: Mapping[str, str], words: Words) -> str:
    """Which scenarios there are: `files` are their texts, by path."""
    page = "scenarios.md"
    rows = []
    for path, text in files.items():
        said = header(text)
        story = said.get("Story", "")
        link = words.link(slug(story), page) if story else ""
        title = f"[{said['Title']}]({words.file(path, page).partition('](')[2]}"
        rows.append((title, link, words.link(said.get("Laws", ""), page), words.link(said.get("Rows", ""), page)))
    return f"# Scenarios\n\n{_SCENARIOS}\n\n{table('scenario | story | laws | rows', rows)}\n"


def module_file(name: str, root: Path) -> str:
    """The file of a module, as a path from the root of the checkout."""
    path = name.replace(".", "/")
    return f"{path}/__init__.py" if (root / path).is_dir() else f"{path}.py"


def reference_pages(words: Words) -> dict[str, str]:
    """A page for each public module, which Sphinx fills from its docstrings, and the list of them."""
    rows = [(f"[`{name}`]({name}.md)", said) for name, said in MODULES.items()]
    tree = "\n".join(MODULES)
    pages = {
        "api/index.md": "# Reference\n\nThe modules that an embedder meets. The text is that of their docstrings.\n\n"
        f"{table('module | what for', rows)}\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    }
    for name in MODULES:
        page = f"api/{name}.md"
        source = words.file(module_file(name, words.root), page)
        options = "   :no-members:\n" if name in FRONTS else ""
        directive = f"```{{eval-rst}}\n.. automodule:: {name}\n{options}```"
        pages[page] = f"# {name}\n\nThe text of {source}.\n\n{directive}\n"
    return pages


def source_page(path: str, text: str, words: Words) -> str:
    """A page that shows a file as it is; a scenario with links to its story, laws and rows."""
    page = f"files/{path}.md"
    language = {".py": "python", ".toml": "toml"}.get(Path(path).suffix, "text")
    fields = {} if Path(path).suffix != ".txt" else header(text)
    lines = [f"* {name}: {words.link(fields[name], page)}" for name in ("Laws", "Rows") if name in fields]
    if "Story" in fields:
        lines.insert(0, f"* Story: {words.link(slug(fields['Story']), page)}")
    title = f"{fields['Title']}\n\n`{path}`" if lines else f"`{path}`"
    facts = "\n".join(lines)
    return f"---\norphan: true\n---\n\n# {title}\n\n{facts}\n\n~~~~~~{language}\n{text.rstrip()}\n~~~~~~\n"
