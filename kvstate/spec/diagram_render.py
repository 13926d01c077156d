"""Who draws: `graphviz-pure`, which comes with pip, or the package `graphviz` with the program `dot`.

`graphviz-pure` is asked first: it measures text with fonts of its own and writes the same bytes on every machine, so
the pictures that are checked in can be compared byte for byte. `dot` draws with the fonts and the version that happen
to be installed; it is the way out where there is no wheel of the other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from importlib.util import find_spec
from typing import Literal

from kvstate.spec.diagram import DiagramError

Format = Literal["svg", "png"]
"""What can be drawn here. DOT and Mermaid are texts and need no drawing."""

PURE = "graphviz-pure"
"""The program, which is called as its package is."""
INSTALL = (
    "install one with: pip install 'kvstate[diagram]'; or install Graphviz (Debian and Ubuntu: apt-get install "
    "graphviz; macOS: brew install graphviz); or take the DOT or Mermaid text instead"
)
"""What to do where nothing draws: the end of a sentence."""
LIMIT_SECONDS = 60
"""After which a drawing program is given up."""


def render(text: str, kind: Format) -> bytes:
    """The picture that the DOT `text` describes. Raises `DiagramError` where nothing here can draw it."""
    program = renderer()
    if program is None:
        raise DiagramError(f"there is nothing here that draws {_an(kind)}: {INSTALL}")
    try:
        return _pure(program, text, kind) if program == pure_renderer() else _dot(text, kind)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or b"").decode(errors="replace").strip().splitlines() or [f"status {error.returncode}"]
        raise DiagramError(f"{program} drew no picture: {said[0]}") from None
    except subprocess.TimeoutExpired:
        raise DiagramError(f"{program} drew no picture within {LIMIT_SECONDS} seconds") from None
    except OSError as error:
        raise DiagramError(f"{program} can't be run: {error.strerror or error}") from None


def _pure(program: str, text: str, kind: Format) -> bytes:
    more = ["-Gdpi=144"] if kind == "png" else []
    command = [program, "-Kdot", f"-T{kind}", *more]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True, timeout=LIMIT_SECONDS).stdout


def _dot(text: str, kind: Format) -> bytes:
    """By the program `dot`, which the package `graphviz` runs."""
    import graphviz

    larger = text.replace("{", "{ graph [dpi=144];", 1) if kind == "png" else text
    return bytes(graphviz.Source(larger).pipe(format=kind, quiet=True))


def renderer() -> str | None:
    """The program that draws; `None` if there is none."""
    return pure_renderer() or (shutil.which("dot") if find_spec("graphviz") is not None else None)


def pure_renderer() -> str | None:
    """The program of the package `graphviz-pure`: beside this Python, which need not be on the PATH, or on it."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    return shutil.which(PURE, path=path)


def _an(kind: Format) -> str:
    return {"svg": "an SVG", "png": "a PNG"}[kind]
