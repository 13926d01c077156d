"""Which files the tidy tests look at, and how."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kvstate"


def python_files(*folders: str) -> list[Path]:
    """The Python files below these folders of the project, in order."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def is_generated(path: Path) -> bool:
    """Generated files say so in their first line; what they look like is the generator's business."""
    with path.open(encoding="utf-8") as stream:
        return stream.readline().startswith("# Generated ")


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def shown(path: Path) -> str:
    """The path from the project's root, as messages name files."""
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, anywhere in it, with the line; relative imports are refused elsewhere."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # `from kvstate import errors` imports the module kvstate.errors.
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "kvstate" else [node.module]
            )
            for name in names:
                yield name, node.lineno
