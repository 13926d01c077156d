"""The ground floor: the spec's ids, generated files, what the documents promise, and what would be installed."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kvstate
from tests.tidy.files import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "spec").rglob("*.md")])


def test_an_id_stands_for_one_row_or_coupling() -> None:
    """Ids go into records and scenarios, which outlive a version. Looked for in the text, not in what is made of it."""
    ids: Counter[str] = Counter()
    for path in sorted((ROOT / "spec").rglob("*.toml")):
        ids.update(re.findall(r'(?m)^id = "([^"]+)"', path.read_text(encoding="utf-8")))
    assert len(ids) > 200
    assert [name for name, count in ids.items() if count > 1] == []


@pytest.mark.parametrize("module", ["kvstate.spec.generate", "kvstate.errors.generate"])
def test_generated_files_are_what_the_data_gives(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    main = importlib.import_module(module).main
    assert main(["--check"]) == 0, capsys.readouterr().err + "run `make tables`"


def targets() -> set[str]:
    return set(re.findall(r"(?m)^([a-z][a-z-]*):", MAKEFILE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_tells_one_to_type_exists(path: Path) -> None:
    from kvstate.cli import COMMANDS

    text = path.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"(?ms)^```.*?^```|`[^`\n]+`", text))
    for target in re.findall(r"\bmake ([a-z][a-z-]*)", code):
        assert target in targets(), f"{path.name} says `make {target}`"
    for command in re.findall(r"(?<!from )\bkvstate ([a-z][a-z-]+)", code):
        assert command in COMMANDS, f"{path.name} says `kvstate {command}`"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (path.parent / link).exists(), f"{path.name} links to {link}"


def test_the_readme_has_the_two_commands_first() -> None:
    assert re.findall(r"(?m)^make ([a-z]+)", README)[:2] == ["run", "test"]
    phony = re.search(r"(?m)^\.PHONY: (.+)$", MAKEFILE)
    assert phony
    assert set(phony[1].split()) <= targets()


def test_the_version_is_written_once() -> None:
    assert "version" not in PYPROJECT["project"]
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert re.search(
        rf"(?m)^## .*{re.escape(kvstate.__version__)}", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    )


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def requirements() -> list[Requirement]:
    project = PYPROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for group in groups for line in group]


def test_every_dependency_is_pinned_within_its_range() -> None:
    pinned = pins()
    for requirement in requirements():
        if requirement.name == "kvstate":
            assert requirement.extras <= set(PYPROJECT["project"]["optional-dependencies"])
            continue
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{name} has no line in constraints.txt"
        assert requirement.specifier.contains(pinned[name]), (
            f"{name}=={pinned[name]} is outside {requirement.specifier}"
        )


def test_what_is_pinned_is_needed_by_something() -> None:
    """From the direct dependencies through what is installed here: a pin that nothing needs is one to take out."""
    needed: set[str] = set()
    waiting = [requirement.name for requirement in requirements()]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in needed or name == "kvstate":
            continue
        needed.add(name)
        try:
            waiting += [Requirement(line).name for line in importlib.metadata.requires(name) or ()]
        except importlib.metadata.PackageNotFoundError:
            continue
    assert sorted(set(pins()) - needed) == []


def test_the_base_brings_neither_torch_nor_numpy() -> None:
    base = {canonicalize_name(Requirement(line).name) for line in PYPROJECT["project"]["dependencies"]}
    assert base == {"click", "msgspec", "rich"}
