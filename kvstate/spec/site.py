"""The sources of the documentation's site: the documents of the checkout and the pages that are made from `spec/`.

    python -m kvstate.spec.site build/site-source

`make docs` has Sphinx build the site from them. Nothing that is made here is checked in: a page can't be out of date
that is made each time. The documents are copied with their links led to pages of the site, and with links on the words
that have one: a row's id, the name of a story, a law, a file. A file that some page links to and that has no page gets
one that shows it, so that a reader never leaves the site.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from kvstate.errors.registry import load_errors
from kvstate.spec import spec_dir
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Spec
from kvstate.spec.properties import load_properties
from kvstate.spec.reading import SpecErrors
from kvstate.spec.site_lists import (
    MODULES,
    errors_page,
    module_file,
    names_of,
    properties_page,
    reference_pages,
    scenarios_page,
    source_page,
)
from kvstate.spec.site_machines import PEERS, couplings_page, machine_page
from kvstate.spec.site_words import Words, file_page, slug

DOCUMENTS = {
    "README.md": "parts/README.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "spec/README.md": "reading-a-row.md",
}
"""Documents that do not lie in `docs/`, and what the site makes of them."""
INCLUDED = "parts/README.md"
"""Shown in parts, by `docs/index.md` and `docs/start.md`; no page of its own."""


class SiteError(Exception):
    """There is nothing to build a site from; the sentence says what is missing."""


def pages(root: Path) -> dict[str, str]:
    """All Markdown of the site by its place, made from the checkout at `root`.

    Errors: `SiteError` if that is no checkout, or a document links to a file that is not there; `SpecErrors` if the
    spec is refused.
    """
    if not (root / "docs" / "index.md").is_file():
        raise SiteError(f"there is no docs/index.md in {root}: the site is built in a checkout of the project")
    spec = load_spec(root / "spec")
    registry = load_errors(root / "spec" / "errors.toml")
    laws = load_properties(root / "spec" / "properties.toml", root=root)
    documents = DOCUMENTS | {f"docs/{path.name}": path.name for path in sorted((root / "docs").glob("*.md"))}
    peers = load_spec(root / "spec" / "peers")
    ids = {row.id for one in (spec, peers) for machine in one.machines for row in machine.rows}
    ids |= {link.id for one in (spec, peers) for link in one.couplings}
    ids |= {act.id for one in (spec, peers) for act in one.acts}
    handed = _stories(root, "handoff.md", "The ")
    places = _places(root, spec, documents) | _places_of_peers(peers)
    names = names_of(registry, laws) | ids
    words = Words(root, names, _stories(root) | handed, places, dict.fromkeys(handed, "handoff.md"))
    made = {
        "couplings.md": couplings_page(spec, words),
        "peers.md": couplings_page(peers, words, PEERS),
        "errors.md": errors_page(registry, words),
        "properties.md": properties_page(laws, words),
        "scenarios.md": scenarios_page(_scenarios(root), words),
        **reference_pages(words),
    }
    made |= {f"machines/{machine.name}.md": machine_page(machine, spec, words) for machine in spec.machines}
    made |= {f"machines/{machine.name}.md": machine_page(machine, peers, words, PEERS) for machine in peers.machines}
    for path, page in documents.items():
        text = (root / path).read_text(encoding="utf-8").replace("{include} ../", "{include} parts/")
        made[page] = words.document(text, path, "index.md" if page == INCLUDED else page)
    for path in sorted(words.shown):
        if not (root / path).is_file():
            raise SiteError(f"some document links to {path}, which is not a file of {root}; mend the link")
        made[file_page(path)] = source_page(path, (root / path).read_text(encoding="utf-8"), words)
    return made


def _stories(root: Path, page: str = "late-callbacks.md", begins: str = "") -> frozenset[str]:
    text = (root / "docs" / page).read_text(encoding="utf-8")
    return frozenset(slug(line[3:]) for line in text.splitlines() if line.startswith(f"## {begins}"))


def _places(root: Path, spec: Spec, documents: dict[str, str]) -> dict[str, str]:
    """Which page is made from which file, and so is where a link to it leads."""
    places = documents | {"README.md": "start.md", "docs/pictures/couplings.svg": "couplings.md"}
    places |= {f"spec/{name}.toml": f"{name}.md" for name in ("errors", "properties")}
    places["spec/coupling.toml"] = "couplings.md"
    for machine in spec.machines:
        page = f"machines/{machine.name}.md"
        places |= {f"spec/{machine.name}.toml": page, f"docs/pictures/{machine.name}.svg": page}
    return places | {module_file(name, root): f"api/{name}.md" for name in MODULES}


def _places_of_peers(peers: Spec) -> dict[str, str]:
    places = {"spec/peers/coupling.toml": "peers.md", "docs/pictures/peers.svg": "peers.md"}
    for machine in peers.machines:
        page = f"machines/{machine.name}.md"
        places |= {f"spec/peers/{machine.name}.toml": page, f"docs/pictures/{machine.name}.svg": page}
    return places


def _scenarios(root: Path) -> dict[str, str]:
    found = [*sorted((root / "tests" / "scenarios").glob("*.txt")), *sorted((root / "tests" / "docs").glob("*.txt"))]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in found}


def write(root: Path, folder: Path) -> list[str]:
    """Make `folder` hold the sources and nothing else; returns the pages that are new or have changed.

    Errors: `SiteError` as `pages`, and if the folder holds files that are no such sources.
    """
    made = {name: text.encode() for name, text in pages(root).items()}
    made |= {f"pictures/{path.name}": path.read_bytes() for path in sorted((root / "docs" / "pictures").glob("*.svg"))}
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    if there and INCLUDED not in there:
        raise SiteError(f"{folder} holds other files, which would be removed; name an empty folder, or a new one")
    for name in there.keys() - made.keys():
        there[name].unlink()
    changed = [name for name, data in made.items() if name not in there or there[name].read_bytes() != data]
    for name in changed:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made[name])
    return changed


def main(args: Sequence[str] | None = None) -> int:
    """Write the sources; the status is 1, after a sentence for each reason, if they can't be made or written."""
    parser = argparse.ArgumentParser(description="Write the sources of the documentation's site.")
    parser.add_argument("folder", type=Path, help="where to; what else lies there is removed")
    options = parser.parse_args(args)
    try:
        write(spec_dir().parent, options.folder)
    except (SiteError, SpecErrors) as refused:
        sentences = refused.errors if isinstance(refused, SpecErrors) else [f"{refused}."]
        print(*sentences, sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
