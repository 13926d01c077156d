"""docs/object-store.md: its example runs, and its settings are those that there are."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from kvstate.runtime.settings import RuntimeConfig
from kvstate.runtime.tiers.objects.settings import SCHEMES, StoreConfig
from tests.tidy.files import ROOT

TEXT = (ROOT / "docs" / "object-store.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", TEXT)


def test_the_example_runs() -> None:
    (program,) = blocks("python")
    space: dict[str, object] = {"__name__": "page"}
    exec(compile(program, "object-store.md", "exec", dont_inherit=True), space)  # noqa: S102  the project's own text
    assert "hit" in space


def test_the_settings_are_all_there(tmp_path: Path) -> None:
    (settings,) = blocks("toml")
    assert set(tomllib.loads(settings)["store"]) == {field.name for field in fields(StoreConfig)}
    path = tmp_path / "kv.toml"
    path.write_text('block_bytes = 4096\n[[ledger.pools]]\nname = "device"\nblocks = 4\n' + settings, encoding="utf-8")
    read = RuntimeConfig.from_toml(path)
    assert read.store is not None
    given = {
        field.name: getattr(read.store, field.name) for field in fields(StoreConfig) if field.name != "secret_file"
    }
    defaults = StoreConfig(url=read.store.url, fingerprint=read.store.fingerprint)
    assert all(getattr(defaults, name) == value for name, value in given.items()), "the page shows other defaults"


def test_every_kind_of_store_has_its_line() -> None:
    assert set(re.findall(r"(?m)^\| `(\w+)://", TEXT)) == set(SCHEMES)
