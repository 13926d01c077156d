"""Sphinx's settings for the site. `make docs` builds it from the pages that `kvstate.spec.site` writes.

Docstrings here are plain text in the manner of Markdown: words in single backticks, lists with an asterisk, examples
that are set in by four spaces. What reStructuredText would read otherwise is made plain below.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util.inspect import stringify_signature

import kvstate
from kvstate.spec.site_lists import FRONTS, MODULES

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "kvstate"
author = "The kvstate authors"
project_copyright = author
release = version = kvstate.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["parts/**"]
nitpicky = True
SHOWN = "|".join(re.escape(name.removeprefix("kvstate.")) for name in MODULES if name not in FRONTS)
# Types of other packages, and of modules that have no page here.
nitpick_ignore_regex = [
    (r"py:class", r"(?!kvstate\.)\w+\..*"),
    (r"py:class", rf"kvstate\.(?!({SHOWN})\.\w+$).*|Books|Slots|Args|kvstate\.peers\.party\.T"),
]
# The builtin `type` is no field of that name, though Sphinx would link it to one.
suppress_warnings = ["ref.python"]
default_role = "literal"
highlight_language = "text"

# attrs_inline: anchors within tables. colon_fence: the frame around the tables of rows.
myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "undoc-members": True}
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"kvstate {release}"
html_static_path = [str(Path(__file__).parent / "_static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
# The excerpts below the hits of a search are fetched, which a browser refuses for pages that are opened from a file.
html_show_search_summary = False


def plain_docstring(*given: Any) -> None:
    """Set-in examples become literal blocks; a tuple's field without words of its own says nothing."""
    lines: list[str] = given[-1]
    made: list[str] = []
    inside = False
    for line in lines:
        if line.startswith("    ") and not inside and (not made or not made[-1].strip()):
            made += ["::", ""]
            inside = True
        elif line.strip() and not line.startswith(" "):
            inside = False
        made.append(line)
    if re.fullmatch(r"Alias for field number \d+", "\n".join(made).strip()):
        made = []
    lines[:] = made


def behind_the_door(_app: Sphinx, _what: str, _name: str, obj: Any, *_rest: Any) -> tuple[str, str | None] | None:
    """The signature that an input of the ledger was written with: the door that all come through takes any."""
    if "door.<locals>" not in getattr(obj, "__qualname__", ""):
        return None
    method = inspect.getclosurevars(obj).nonlocals["method"]
    written = inspect.signature(method)
    parameters = [each for each in written.parameters.values() if each.name != "self"]
    whole = stringify_signature(written.replace(parameters=parameters), unqualified_typehints=True)
    arguments, _, result = whole.rpartition(" -> ")
    return arguments, result


def without_sourceless(app: Sphinx) -> list[tuple[str, dict[str, Any], str]]:
    """Before the pages with source are written: a module that is none of Python's (`array`) has no such page.

    The list of these pages would link to it all the same. Returns no pages of its own.
    """
    modules = getattr(app.env, "_viewcode_modules", {})
    for name in [name for name, entry in modules.items() if not entry]:
        del modules[name]
    return []


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("html-collect-pages", without_sourceless, priority=400)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("autodoc-process-signature", behind_the_door)
