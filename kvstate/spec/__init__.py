"""The machines as data: where the files of `spec/` lie, how they are read, and the rules that they must keep.

Standard library only, and nothing here runs a machine. `loader` reads files into the values of `model`, `rules` says
what is wrong with them, `expr` is the small language of guards, counter changes and invariants.
"""

from __future__ import annotations

from pathlib import Path


def spec_dir() -> Path:
    """The directory of the files that this package was made from.

    A wheel carries them beside the code as `kvstate/_spec`; a checkout has them as `spec/` at its root. The wheel's
    place is asked first: in an installed tree, a directory called `spec` one level up would be somebody else's.
    """
    package = Path(__file__).resolve().parent.parent
    packaged = package / "_spec"
    return packaged if packaged.is_dir() else package.parent / "spec"


def peers_dir() -> Path:
    """The folder in it of what two processes agree on that hand blocks to each other: a spec of its own."""
    return spec_dir() / "peers"
