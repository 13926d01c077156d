"""The public names of the package, found in its text, and whether each of them is told.

A name is public if neither it nor a class around it begins with an underscore. What tells it:

* a module, a class, a function, a method, a property: its docstring; a method's may stand at the method of the same
  name of a base class in this package. Names with two underscores (`__init__`) are told by their class.
* a field or a constant: a docstring right below it; or its name in the docstring of its class (of its module, for a
  constant), or between backticks in the docstring of a neighbour. A field may also be a word of `docs/glossary.md`,
  which says it once for all places, or be called `name`; one that a base class has is told there.
* the members of an enum: the docstring of the enum, which tells them as a set.

What a public function's own lines raise is promised: its docstring names the error or a base class of it. For what
builds a value (`__init__`, `__post_init__`) the docstring of the class does. A class or a module may say it once for
all that it holds, in a paragraph that begins with `Errors:`. A command of the command line raises no error to anybody;
its mistakes stand in `docs/commands.md`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.tidy.files import ROOT, parsed, python_files, shown

Function = ast.FunctionDef | ast.AsyncFunctionDef

NOT_ERRORS = frozenset({"AssertionError", "NotImplementedError", "StopIteration"})
"""Raising these is no promise to a caller: a broken assumption, a hole for a subclass, a word of the language."""


@dataclass(frozen=True)
class Public:
    """A public name: where it stands, what it is, and whether something tells it."""

    path: Path
    line: int
    kind: str
    name: str
    told: bool
    raises: frozenset[str] = frozenset()
    """The errors that it raises without a word."""

    def __str__(self) -> str:
        return f"{shown(self.path)}:{self.line} {self.kind} {self.name}"


@cache
def glossary() -> frozenset[str]:
    """The words that `docs/glossary.md` explains, as names are written."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    return frozenset(re.sub(r"[ -]", "_", term) for term in re.findall(r"(?m)^\* \*\*(.+?)\*\*:", text))


Classes = Mapping[str, tuple[ast.ClassDef, ...]]
"""By their bare names, of which there may be several."""


def classes_in(trees: Iterable[ast.Module]) -> Classes:
    found: dict[str, tuple[ast.ClassDef, ...]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name] = (*found.get(node.name, ()), node)
    return found


@cache
def package() -> Classes:
    return classes_in(map(parsed, python_files("kvstate")))


def base_names(node: ast.ClassDef) -> list[str]:
    """What a class is made from, by bare names."""
    bare = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return [base.attr if isinstance(base, ast.Attribute) else ast.unparse(base) for base in bare]


def public_names(path: Path) -> Iterator[Public]:
    """All public names of a file, its module first."""
    return _Reader(path).module()


class _Reader:
    """Goes through one file from top to bottom."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = parsed(path)
        self.doc = ast.get_docstring(self.tree) or ""
        self.classes = {**package(), **classes_in([self.tree])}

    def module(self) -> Iterator[Public]:
        yield Public(self.path, 1, "module", self.path.stem, bool(self.doc or not self.tree.body))
        yield from self.inside(self.tree.body, self.doc, "", None)

    def inside(self, body: list[ast.stmt], doc: str, prefix: str, owner: ast.ClassDef | None) -> Iterator[Public]:
        """The public names of a module or class whose statements and docstring these are."""
        named = set(re.findall(r"\w+", doc))
        for quoted in re.findall(r"`([^`]+)`", " ".join(map(_text, body))):
            named |= set(re.findall(r"\w+", quoted))
        for node, below in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                own = ast.get_docstring(node) or ""
                raises = {name for part in node.body if _builds(part) for name in raised(part)}
                yield self.public(node, "class", prefix, bool(own), self.unsaid(raises, own, ""))
                yield from self.inside(node.body, own, f"{prefix}{node.name}.", node)
            elif isinstance(node, Function) and not node.name.startswith("_") and not _repeats(node):
                own = self.docstring(node, owner)
                raises = set() if _is_command(node) else raised(node)
                kind = "function" if owner is None else "method"
                yield self.public(node, kind, prefix, bool(own), self.unsaid(raises, own, doc if owner else ""))
            for name in _assigned(node):
                told = bool(_text(below)) or name in named or (owner is not None and self.told_elsewhere(name, owner))
                kind = "constant" if owner is None else "field"
                yield Public(self.path, node.lineno, kind, prefix + name, told)

    def public(
        self, node: ast.ClassDef | Function, kind: str, prefix: str, told: bool, raises: frozenset[str]
    ) -> Public:
        return Public(self.path, node.lineno, kind, prefix + node.name, told, raises)

    def unsaid(self, raises: set[str], own: str, around: str) -> frozenset[str]:
        """Those of the errors that neither the docstring of the name itself nor one around it promises."""
        said = f"{own} {around.partition('Errors:')[2]} {self.doc.partition('Errors:')[2]}"
        words = set(re.findall(r"\w+", said))
        return frozenset(name for name in raises if words.isdisjoint(self.error_names(name)))

    def bases(self, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """The classes of the package that this one is made from, and theirs."""
        for name in base_names(node):
            for one in self.classes.get(name, ()):
                if one is not node:
                    yield one
                    yield from self.bases(one)

    def error_names(self, name: str) -> set[str]:
        """The error and what it is made from: to promise a `ValueError` is enough where it is one."""
        found = {name}
        for node in self.classes.get(name, ()):
            for one in (node, *self.bases(node)):
                found |= {one.name, *base_names(one)}
        return found - {"Exception"}

    def docstring(self, node: Function, owner: ast.ClassDef | None) -> str:
        """Its own, or that of the method which it is another way to do."""
        own = ast.get_docstring(node) or ""
        above = [part for base in self.bases(owner) for part in base.body] if owner and not own else []
        same = [part for part in above if isinstance(part, Function) and part.name == node.name]
        return own or next(filter(None, map(ast.get_docstring, same)), "")

    def told_elsewhere(self, name: str, owner: ast.ClassDef) -> bool:
        """Is this a word of the glossary, a field of a base class, or a member of an enum that tells them all?"""
        word = name == "name" or name in glossary() or name.removesuffix("s") in glossary()
        enum = any(base.endswith(("Enum", "Flag")) for base in base_names(owner)) and ast.get_docstring(owner)
        return word or bool(enum) or any(name in _assigned(part) for base in self.bases(owner) for part in base.body)


def _builds(node: ast.stmt) -> bool:
    return isinstance(node, Function) and node.name in ("__init__", "__new__", "__post_init__")


def _is_command(node: Function) -> bool:
    """Is it a command of the command line?"""
    calls = [mark.func for mark in node.decorator_list if isinstance(mark, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr in ("command", "group") for call in calls)


def _repeats(node: Function) -> bool:
    """Overloads and setters: said by the function, or the getter, of the same name."""
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    return "overload" in marks or any(mark.endswith(".setter") for mark in marks)


def _assigned(node: ast.stmt) -> Iterator[str]:
    """The public names that a statement makes; a variable for types is none that anybody else uses."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return
    if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in ("TypeVar", "ParamSpec"):
        return
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        for one in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(one, ast.Name) and not one.id.startswith("_"):
                yield one.id


def _text(node: ast.stmt | None) -> str:
    """The text of a statement that is nothing but a text."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""


def raised(node: ast.AST) -> set[str]:
    """The classes of errors that a function's own lines raise; those of functions inside it are theirs."""
    found: set[str] = set()
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        one = waiting.pop()
        if isinstance(one, Function | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(one, ast.Raise) and isinstance(one.exc, ast.Call):
            name = ast.unparse(one.exc.func).rpartition(".")[2]
            if name[:1].isupper() and name not in NOT_ERRORS:
                found.add(name)
        waiting += ast.iter_child_nodes(one)
    return found
