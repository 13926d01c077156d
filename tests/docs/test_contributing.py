"""What CONTRIBUTING.md shows is what happens, and what it says that is made from a row is made from it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.spec import spec_dir
from kvstate.spec.diagram import picture
from kvstate.spec.diagram_dot import dot
from kvstate.spec.generate import render
from kvstate.spec.loader import load_spec
from kvstate.spec.site_machines import machine_page
from kvstate.spec.site_words import Words
from tests.docs.test_commands import agrees, examples, play
from tests.tidy.files import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return TEXT.partition(f"\n### An example: {title}\n")[2].partition("\n## ")[0].partition("\n### ")[0]


def played(title: str, folder: Path, ready: Path) -> None:
    """Run the commands of a section in a folder with a copy of `spec/`, and its rows in place."""
    for name in ("before", "spec"):
        shutil.copytree(spec_dir(), folder / name)
    for file, row in re.findall(r"(?ms)^```toml\n# at the end of (\S+)\n(.*?)^```$", section(title)):
        path = folder / file
        path.write_text(path.read_text(encoding="utf-8") + row, encoding="utf-8")
    told = examples(section(title))
    assert len(told) > 1
    for example, (_, out) in zip(told, play(told, folder, ready), strict=True):
        # The values of a counterexample are z3's to choose; `<values>` is one word.
        assert agrees(example.shown, re.sub(r"(?m) \(\w+ = .*\)$", " values", out)), (
            f"$ {example.command} prints\n{out}"
        )


@pytest.fixture(autouse=True)
def prover() -> None:
    pytest.importorskip("z3", reason="guards are checked by z3, which is not installed")


def test_a_row_more(tmp_path: Path, ready: Path) -> None:
    played("a row more", tmp_path, ready)
    spec = load_spec(tmp_path / "spec")
    service = spec.machine("service")
    assert "S07" in render(spec)["service.py"]
    assert "S07" in dot(picture(service))
    words = Words(ROOT, frozenset({"S07"}), frozenset(), {})
    assert "[S07]{#s07}" in machine_page(service, spec, words)


def test_what_the_row_is_there_for_is_so_today() -> None:
    """Asking twice to drain is answered, asking twice to close is refused, and S07 was never given."""
    ledger = Ledger(LedgerConfig((PoolConfig("device", 1),)))
    assert ledger.drain() is True
    assert ledger.drain() is True
    assert ledger.shut() is True
    assert not ledger.shut()
    assert "S07" not in ledger.fired()


def test_reviewing_a_change(tmp_path: Path, ready: Path) -> None:
    played("reviewing a change", tmp_path, ready)
