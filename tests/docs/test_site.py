"""The documentation's site: it builds without a warning, says what spec/ says, and no link in it leads nowhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from kvstate.errors.registry import load_errors
from kvstate.spec.loader import load_spec
from kvstate.spec.site import SiteError, main, pages, write
from kvstate.spec.site_words import Words, slug, table
from tests.tidy.files import ROOT

SPEC = load_spec(check=False)
STORIES = {slug(line[3:]) for line in (ROOT / "docs" / "late-callbacks.md").read_text("utf-8").splitlines()
           if line.startswith("## ")}  # fmt: skip

PLAIN = ("-D", "html_theme=basic", "-D", "extensions=myst_parser,sphinx.ext.autodoc")
"""Without a list of all pages in each page, and without pages of source, which take two thirds of the time."""


@dataclass
class Page(HTMLParser):
    """What a page of the site has: anchors, links, pictures, words."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "img":
            self.images.append(found["src"])

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def says(self, text: str) -> bool:
        """Does the page have this text, whatever marks, quotes and spaces are in it?"""
        return bare(text) in bare("".join(self.words))


def bare(text: str) -> str:
    return re.sub(r"\W+", "", text)


def read(site: Path) -> dict[Path, Page]:
    found = {}
    for path in sorted(site.rglob("*.html")):
        found[path] = Page()
        found[path].feed(path.read_text(encoding="utf-8"))
    return found


def broken(read_pages: dict[Path, Page]) -> list[str]:
    """Links and pictures that lead nowhere, a sentence each."""
    wrong = []
    for path, page in read_pages.items():
        for link in [*page.links, *page.images]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.is_file():
                wrong.append(f"{path.name} links to {link}, which is not there")
            elif parts.fragment and there in read_pages and unquote(parts.fragment) not in read_pages[there].ids:
                wrong.append(f"{path.name} links to {link}, which has no such anchor")
    return wrong


def said_of_machines(site: Path, found: dict[Path, Page]) -> list[str]:
    """What the pages of the machines lack."""
    wrong = []
    for machine in SPEC.machines:
        page = found[site / "machines" / f"{machine.name}.html"]
        if f"../_images/{machine.name}.svg" not in page.images:
            wrong.append(f"the page of {machine.name} has no picture")
        texts = [state.doc for state in machine.states] + [event.doc for event in machine.events]
        wrong += [f"the page of {machine.name} does not say: {text}" for text in texts if not page.says(text)]
        for row in machine.rows:
            if row.id.lower() not in page.ids or not page.says(row.why):
                wrong.append(f"row {row.id} or its why is missing")
            named = [story for story in STORIES if story in row.why.lower()]
            wrong += [
                f"row {row.id} has no link to {story}"
                for story in named
                if f"../late-callbacks.html#{story}" not in page.links
            ]
    return wrong


def said_of_lists(site: Path, found: dict[Path, Page]) -> list[str]:
    """What the pages of couplings, errors and properties lack."""
    wrong = []
    couplings, errors, laws = (found[site / f"{name}.html"] for name in ("couplings", "errors", "properties"))
    whys = [(each.id, each.why) for each in SPEC.couplings] + [(act.id, act.why) for act in SPEC.acts]
    wrong += [
        f"{name} or its why is missing"
        for name, why in whys
        if name.lower() not in couplings.ids or not couplings.says(why)
    ]
    wrong += [f"relation {each.name} is missing" for each in SPEC.relations if not couplings.says(each.doc)]
    for code in load_errors(ROOT / "spec" / "errors.toml").codes:
        if slug(code.name.replace("_", "-")) not in errors.ids or not errors.says(f"{code.number} {code.name}"):
            wrong.append(f"code {code.name} is missing")
        wrong += [f"{code.name}: {text}" for text in (code.sentence, code.remedy, code.doc) if not errors.says(text)]
    data = tomllib.loads((ROOT / "spec" / "properties.toml").read_text(encoding="utf-8"))
    for each in [*data["law"], *data["property"], *data["assumption"]]:
        if not laws.says(each["sentence"]) or re.sub(r"[._]", "-", each["name"].lower()) not in laws.ids:
            wrong.append(f"{each['name']} or its sentence is missing")
        wrong += [f"{each['name']}: {check}" for check in each.get("checked_by", ()) if not laws.says(check)]
    return wrong


@pytest.mark.long
def test_the_site_is_built_and_whole(tmp_path: Path) -> None:
    """In one test, since each that wanted the site would build it anew."""
    pytest.importorskip("sphinx", reason="the site is built by Sphinx: pip install 'kvstate[docs]'")
    pytest.importorskip("torch", reason="the reference of the runtime is read from its modules, which need torch")
    source, site = tmp_path / "source", tmp_path / "site"
    write(ROOT, source)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", *PLAIN, "-c", str(ROOT / "docs"), "-d"]
    built = subprocess.run(
        [*command, str(tmp_path / "read"), str(source), str(site)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert '"quarantin' in index
    options = (site / "_static" / "documentation_options.js").read_text(encoding="utf-8")
    assert re.search(r"SHOW_SEARCH_SUMMARY: false", options), "a page that is opened from a file can't fetch excerpts"
    found = read(site)
    assert len(found) > 80
    assert broken(found) == []
    assert said_of_machines(site, found) == []
    assert said_of_lists(site, found) == []
    told = {link.partition("late-callbacks.html#")[2] for link in found[site / "scenarios.html"].links}
    assert told >= STORIES, "a story is played, and the list of scenarios has no link to it"
    assert found[site / "index.html"].says("What it does not protect from")
    ledger = found[site / "api" / "kvstate.machines.ledger.html"]
    assert ledger.says("load(lease: int, hit: Hit, into: Sequence[BlockRef], *, deadline: float)"), "not its signature"
    assert "kvstate.machines.ledger.Ledger.load" in ledger.ids


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"><a href="#here"><a href="b.html#x"><a href="b.html#y"><img src="c">')
    (tmp_path / "b.html").write_text('<p id="x"><a href="gone.html"><a href="https://example.org/">')
    assert broken(read(tmp_path)) == [
        "a.html links to b.html#y, which has no such anchor",
        "a.html links to c, which is not there",
        "b.html links to gone.html, which is not there",
    ]


# -- what the pages are made from --------------------------------------------------------------------------------------


def words() -> Words:
    names = frozenset({"B21", "L3", "L5.innocent", "KV_OOM", "copier.proof"})
    places = {"docs/design.md": "design.md", "spec/block.toml": "machines/block.md"}
    return Words(ROOT, names, frozenset({"the-lost-report"}), places)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("B21 and B22 keep L3.", "[B21](#b21) and B22 keep [L3](#l3)."),
        ("`B21`, `KV_OOM`, KV_OOM, `B22`", "[`B21`](#b21), [`KV_OOM`](#kv-oom), [KV_OOM](#kv-oom), `B22`"),
        ("L5.innocent, `copier.proof`", "[L5.innocent](#l5-innocent), [`copier.proof`](#copier-proof)"),
        ("The-lost-report.", "[The-lost-report](../late-callbacks.md#the-lost-report)."),
        ("# B21\nB21", "# B21\n[B21](#b21)"),
        ("```sh\nB21 `x`\n```\nB21", "```sh\nB21 `x`\n```\n[B21](#b21)"),
        ("[B21](x.md) B21", "[B21](x.md) [B21](#b21)"),
        ("`spec/block.toml`", "[`spec/block.toml`](block.md)"),
        ("`kvstate/cli/data.py::x`", "[`kvstate/cli/data.py::x`](../files/kvstate/cli/data.py.md)"),
        ("`docs/../LICENSE`, `docs/no.md`, `LICENSE`", "`docs/../LICENSE`, `docs/no.md`, `LICENSE`"),
    ],
)
def test_a_word_that_has_a_place_is_a_link(text: str, made: str) -> None:
    assert words().link(text, "machines/part.md") == made


def test_the_links_of_a_document_lead_to_pages() -> None:
    some = words()
    text = "[a](design.md#the-laws) [b](../spec/block.toml) [c](../LICENSE) [d](https://example.org/) [e](#here)"
    assert some.document(text, "docs/status.md", "status.md") == (
        "[a](design.md#the-laws) [b](machines/block.md) [c](files/LICENSE.md) [d](https://example.org/) [e](#here)"
    )
    assert some.shown == {"LICENSE"}


def test_a_bar_does_not_end_a_cell() -> None:
    assert table("a | b", [("x | y", "two\nlines")]) == "| a | b |\n| --- | --- |\n| x \\| y | two lines |"


def test_the_sources_are_what_the_checkout_gives(tmp_path: Path) -> None:
    """Written anew they do not change; what is no longer made goes."""
    folder = tmp_path / "source"
    made = write(ROOT, folder)
    assert {"index.md", "machines/block.md", "pictures/block.svg", "api/kvstate.codec.md"} <= set(made)
    (folder / "old.md").write_text("gone from the checkout")
    (folder / "index.md").write_text("changed")
    assert write(ROOT, folder) == ["index.md"]
    assert not (folder / "old.md").exists()


def test_somebody_elses_folder_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.endswith("holds other files, which would be removed; name an empty folder, or a new one.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_spec_that_is_refused_is_so_in_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("docs", "spec"):
        shutil.copytree(ROOT / name, tmp_path / name)
    path = tmp_path / "spec" / "service.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('to = "closed"', 'to = "clsed"'), encoding="utf-8")
    monkeypatch.setattr("kvstate.spec.site.spec_dir", lambda: tmp_path / "spec")
    assert main([str(tmp_path / "source")]) == 1
    assert capsys.readouterr().err == 'service.toml, row S04: unknown state "clsed" (did you mean "closed"?)\n'


def test_outside_a_checkout_there_is_no_site(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match=r"there is no docs/index\.md in .*: the site is built in a checkout"):
        pages(tmp_path)
