"""From words to links: what the pages of the site say in Markdown, and where each word of it leads.

The documents and the texts of `spec/` name rows, stories, laws and files as plain words, so that they read well in an
editor. In the site each of these words is a link. Only the copies that the site is built from are changed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = r"(?ms:^(?P<mark>`{3,}|~{3,}).*?^(?P=mark)[ \t]*$)"
_KEPT = re.compile(
    rf"(?P<fence>{_FENCE})|(?P<heading>(?m:^#+ .*$))|(?P<code>(?<!`)`[^`]+`(?!`))"
    r"|(?P<link>!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\([^()\s]+\))"
)
FOLDERS = ("bench/", "docs/", "examples/", "kvstate/", "spec/", "tests/")
"""Where the files lie that a reader may want to see. What is built elsewhere in a checkout is none of them."""
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\(([^()\s]+)\)")


def slug(title: str) -> str:
    """The anchor of a heading, and the name by which a `why` points at a story."""
    return re.sub(r"[^\w-]+", "-", title.lower()).strip("-")


def anchor(name: str) -> str:
    """The anchor of a thing that is no heading: a row, a law, a code."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def cell(text: str) -> str:
    """A text within one cell of a table."""
    return re.sub(r"\s+", " ", text.strip()).replace("|", "\\|")


def table(head: str, rows: Sequence[tuple[str, ...]]) -> str:
    """A table; `head` has the names of its columns, between bars."""
    columns = [name.strip() for name in head.split("|")]
    lines = [columns, ["---"] * len(columns), *([cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def below(kind: str, made: str) -> str:
    """A table whose last column the style sheet sets below the others, in the manner of that kind."""
    return f"::::{{container}} kv-below {kind}\n{made}\n::::"


def code(text: str) -> str:
    """A piece of code in a line; nothing for nothing."""
    return f"`{text}`" if text else ""


def target(name: str, shown: str = "") -> str:
    """The place that a link to `name` leads to, with its name as text."""
    return f"[{shown or name}]{{#{anchor(name)}}}"


def inline(text: str, change: Callable[[str, str], str]) -> str:
    """The text with each of its pieces changed: `change(kind, piece)`, of kind `fence`, `heading`, `code`, `link` or
    `words`."""
    made, end = [], 0
    for found in _KEPT.finditer(text):
        kind = str(found.lastgroup) if found.lastgroup != "mark" else "fence"
        made += [change("words", text[end : found.start()]), change(kind, found[0])]
        end = found.end()
    return "".join([*made, change("words", text[end:])])


@dataclass
class Words:
    """Where the words of this project lead, and which of its files were asked for on the way."""

    root: Path
    """The checkout."""
    names: frozenset[str]
    """Names with an anchor of their own: ids of rows, couplings and acts; laws, properties, assumptions; codes."""
    stories: frozenset[str]
    """The names of the stories in `late-callbacks`."""
    pages: Mapping[str, str]
    """Files of the checkout, and the page that shows each."""
    told: Mapping[str, str] = field(default_factory=dict)
    """The page that tells a story, where it is not `late-callbacks`."""
    shown: set[str] = field(default_factory=set)
    """Files that some page links to and that have no page of their own."""

    def __post_init__(self) -> None:
        stories = "|".join(sorted(self.stories, key=len, reverse=True)) or "(?!)"
        names = r"[A-Z]\d\d|L\d+(?:\.\w+)?|[A-Z][A-Z0-9]*_[A-Z0-9_]+"
        self._word = re.compile(rf"\b(?:(?i:(?P<story>{stories}))|{names})\b")

    def link(self, text: str, page: str) -> str:
        """A text that may name rows, stories, laws, codes and files, with links, for that page of the site."""

        def change(kind: str, piece: str) -> str:
            if kind == "words":
                return self._word.sub(lambda found: self._named(found, page), piece)
            return self._code(piece, page) if kind == "code" else piece

        return inline(text, change)

    def document(self, text: str, path: str, page: str) -> str:
        """A document of the checkout, which lies at `path`, as that page of the site."""

        def change(kind: str, piece: str) -> str:
            if kind == "words":
                return self._word.sub(lambda found: self._named(found, page), piece)
            if kind == "link":
                return _LINK.sub(lambda found: f"{found[1]}({self._moved(found[2], path, page)})", piece)
            return self._code(piece, page) if kind == "code" else piece

        return inline(text, change)

    def file(self, path: str, page: str) -> str:
        """A link from a page to the text of this file, whatever page is made from it."""
        self.shown.add(path)
        return f"[`{path}`]({_relative(file_page(path), page)})"

    def name(self, name: str, shown: str = "") -> str:
        """A link to a thing that has an anchor."""
        return f"[{shown or name}](#{anchor(name)})"

    def _named(self, found: re.Match[str], page: str) -> str:
        word = found[0]
        if found["story"]:
            where = _relative(self.told.get(word.lower(), "late-callbacks.md"), page)
            return f"[{word}]({where}#{word.lower()})"
        return self.name(word) if word in self.names else word

    def _code(self, piece: str, page: str) -> str:
        """A name or a file that is set as code."""
        word = piece.strip("`")
        if word in self.names:
            return self.name(word, piece)
        path = word.partition("::")[0]
        return f"[{piece}]({self._to(path, page)})" if self._is_file(path) else piece

    def _is_file(self, path: str) -> bool:
        """Is it a file that a reader may want to see?"""
        inside = re.fullmatch(r"[\w./-]+", path) and path.startswith(FOLDERS) and ".." not in path
        return bool(inside) and (self.root / path).is_file()

    def _moved(self, link: str, path: str, page: str) -> str:
        """A link of a document that lies at `path`, for the page."""
        if "://" in link or link.startswith(("#", "mailto:")):
            return link
        name, hash_, rest = link.partition("#")
        return self._to(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)), page) + hash_ + rest

    def _to(self, path: str, page: str) -> str:
        if path in self.pages:
            return _relative(self.pages[path], page)
        self.shown.add(path)
        return _relative(file_page(path), page)


def file_page(path: str) -> str:
    """The page that shows a file which has no other."""
    return f"files/{path}.md"


def _relative(to: str, page: str) -> str:
    return posixpath.relpath(to, posixpath.dirname(page) or ".")
