"""Every public name says what it is, and what it raises. What counts as said stands in `tests/tidy/public.py`."""

from __future__ import annotations

from pathlib import Path

from tests.tidy.files import python_files, shown
from tests.tidy.public import Public, public_names

FILES = python_files("kvstate")


def told(text: str, folder: Path) -> dict[str, Public]:
    """The public names of a file with this text."""
    path = folder / "file.py"
    path.write_text(text, encoding="utf-8")
    return {one.name: one for one in public_names(path)}


SILENT = '''
"""A module that names `SIZE`."""
SIZE = 1
OTHER = 2
_PRIVATE = 3

class Silent:
    pass

class Told(NamedTuple):
    """A value with its `width`."""
    width: int
    height: int
    depth: int
    """In blocks."""
    generation: int

    def area(self): ...

    @property
    def volume(self):
        """Of all."""

class More(Told):
    """One more."""
    width = 3
    def volume(self): ...

class Colour(StrEnum):
    """Of a block."""
    RED = "red"

def silent(): ...
def told():
    """It is."""
    def inside(): ...
'''

RAISING = '''
class WidthError(ValueError):
    """Too wide."""

class Book:
    """Errors: `KeyError` for a page that is not there."""
    def __init__(self):
        raise WidthError("here")
    def page(self):
        """A page."""
        raise KeyError("there")
    def _private(self):
        raise OSError("nobody's business")

def silent():
    """Nothing is said of errors."""
    raise WidthError("too wide")
def base():
    """Errors: `ValueError` for what is too wide."""
    raise WidthError("too wide")
def again():
    """What a caller made is raised as it was, and an assumption is no promise."""
    def inside():
        raise WidthError("too wide")
    try:
        inside()
    except WidthError as error:
        raise error from None
    raise AssertionError("not here")
@click.command("c")
def command():
    """A command."""
    raise UsageError("no")
'''


def test_the_rule_finds_what_is_silent(tmp_path: Path) -> None:
    names = told(SILENT, tmp_path)
    silent = {name for name, one in names.items() if not one.told}
    assert silent == {"OTHER", "Silent", "Told.height", "Told.area", "silent"}
    assert {"SIZE", "Told.width", "Told.depth", "Told.generation", "More.width", "Colour.RED", "told"} <= set(names)
    assert names.keys().isdisjoint({"_PRIVATE", "inside", "told.inside"})


def test_the_rule_finds_what_is_raised_without_a_word(tmp_path: Path) -> None:
    found = {name: set(one.raises) for name, one in told(RAISING, tmp_path).items() if one.raises}
    assert found == {"Book": {"WidthError"}, "silent": {"WidthError"}}


def test_every_public_name_says_what_it_is() -> None:
    for path in FILES:
        silent = [str(one) for one in public_names(path) if not one.told]
        assert silent == [], f"{shown(path)}: these need a docstring"


def test_what_is_raised_is_promised() -> None:
    for path in FILES:
        silent = [f"{one} raises {', '.join(sorted(one.raises))}" for one in public_names(path) if one.raises]
        assert silent == [], "the docstring must say so: `Errors: ...`"


def test_a_bench_says_what_it_measures() -> None:
    """Nobody imports a bench, so its modules, functions and classes are enough."""
    for path in python_files("bench"):
        silent = [
            str(one) for one in public_names(path) if not one.told and one.kind in ("module", "function", "class")
        ]
        assert silent == [], f"{shown(path)}: these need a docstring"
