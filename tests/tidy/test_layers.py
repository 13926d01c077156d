"""Who may import whom. A layer is a folder of the package; what is not written here is forbidden.

The point is the first two lines: the machines are pure, so that they can be stepped, replayed and searched, and torch
stays behind one door, so that the scheduler's process never needs it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.tidy.files import PACKAGE, imports, python_files, shown

IMPURE = frozenset(
    {"asyncio", "concurrent", "logging", "multiprocessing", "random", "secrets", "socket", "threading", "time"}
)
"""What a pure layer must not have: clocks, chance, threads, logs, the outside."""


@dataclass(frozen=True)
class Layer:
    """What the files of a folder may import."""

    inside: frozenset[str]
    """Other folders (or modules) of the package; its own is always allowed."""
    outside: frozenset[str] = frozenset()
    """Packages that are not of the standard library."""
    pure: bool = False


def layer(inside: str, outside: str = "", *, pure: bool = False) -> Layer:
    return Layer(frozenset(inside.split()), frozenset(outside.split()), pure)


LAYERS = {
    "machines": layer("spec errors", pure=True),
    "errors": layer("spec machines", pure=True),
    "spec": layer("machines errors", "transitions", pure=True),
    "proof": layer("spec", "z3", pure=True),
    "codec": layer("machines errors", "msgspec", pure=True),
    "wire": layer("machines errors codec", "msgspec", pure=True),
    # What two processes agree on that hand blocks to each other.
    "peers": layer("machines errors codec", "msgspec", pure=True),
    # What is stored where: decides above the ledger, and runs on a bare one.
    "tiering": layer("machines", pure=True),
    "runtime": layer("machines errors codec wire spec trace tiering peers", "torch numpy xxhash"),
    "replay": layer("machines errors codec spec runtime trace tiering peers", "numpy xxhash msgspec"),
    # What an embedder uses in its own tests.
    "testing": layer("_version machines errors codec spec tiering"),
    "trace": layer("machines spec"),
    # Beside the runtime, which it listens to and never imports.
    "observe": layer("machines errors trace"),
    "promela": layer("machines spec explore", pure=True),
    "explore": layer("machines errors testing peers", pure=True),
    "mutation": layer("_version machines errors spec proof explore testing"),
    "cli": layer(
        "_version machines errors codec spec proof explore mutation promela runtime replay testing trace observe peers",
        "click rich",
    ),
    # Engines that embed kvstate, and the kit over them. Nothing else imports these, nor the engines.
    "integrations": layer("_version machines errors codec wire runtime testing tiering trace", "torch vllm"),
    "_version": layer(""),
    # What an engine embeds is found here, and imported when it is asked for.
    "__init__": layer("_version runtime", pure=True),
    "__main__": layer("cli"),
}

ALSO = {
    "machines/columns.py": {"numpy"},
    # Runs the program `dot` where there is one.
    "spec/diagram_render.py": {"graphviz"},
    # Plants faults in the code with the `MonkeyPatch` of pytest, as the tests do whose faults they are.
    "mutation/code.py": {"pytest"},
    # Asks torch what it found here, for the report; makes no tensor.
    "cli/doctor.py": {"torch"},
    # The header of an object is JSON.
    "runtime/tiers/sealed.py": {"msgspec"},
    # Asks stores of all kinds by one interface.
    "runtime/tiers/objects/bucket.py": {"obstore"},
    # The one file that drives NIXL, where it is installed.
    "runtime/peers/nixl_agent.py": {"nixl_cu12"},
    # A collector is a class of the package that collects.
    "observe/metrics.py": {"prometheus_client"},
    # The test class that an embedder subclasses, and what runs it; nothing else of `testing` needs them.
    "testing/suite.py": {"pytest"},
    "testing/plugin.py": {"pytest"},
    "testing/conformance.py": {"pytest"},
    "testing/kit/hypo.py": {"hypothesis"},
}
"""Single files that may import more, each for the reason that stands in it."""


def layer_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


FILES = python_files("kvstate")


def test_a_file_imports_only_what_its_layer_may() -> None:
    for path in FILES:
        name = layer_of(path)
        assert name in LAYERS, f"{shown(path)} is in no layer: write down here what it may import"
        rules = LAYERS[name]
        more = ALSO.get(path.relative_to(PACKAGE).as_posix(), set())
        for module, line in imports(path):
            top, _, rest = module.partition(".")
            where = f"{shown(path)}:{line} imports {module}"
            if top == "kvstate":
                inner = rest.partition(".")[0] or "__init__"
                if inner == "__version__":
                    inner = "__init__"
                assert inner in rules.inside | {name}, f"{where}, and {name} may import only {sorted(rules.inside)}"
            elif top in sys.stdlib_module_names:
                assert not (rules.pure and top in IMPURE), f"{where}, and {name} is pure"
            else:
                assert top in rules.outside | more, f"{where}, and {name} may use only {sorted(rules.outside)}"


def test_every_layer_exists_and_every_exception_is_used() -> None:
    assert {layer_of(path) for path in FILES} == set(LAYERS)
    for file, packages in ALSO.items():
        path = PACKAGE / file
        if path.exists():
            assert packages <= {module.partition(".")[0] for module, _ in imports(path)}, f"{file} needs no exception"


def test_torch_is_imported_in_one_place_only() -> None:
    users = {layer_of(path) for path in FILES if any(module.split(".")[0] == "torch" for module, _ in imports(path))}
    assert users <= {"runtime", "cli", "integrations"}
