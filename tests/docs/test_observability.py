"""docs/observability.md: its code runs from top to bottom, and its tables are what is exposed and logged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvstate.observe.log import FIELDS
from kvstate.spec.loader import load_spec
from kvstate.trace.autopsy import autopsy
from kvstate.trace.check import check
from tests.observe.served import Served
from tests.tidy.files import ROOT

PATH = ROOT / "docs" / "observability.md"
TEXT = PATH.read_text(encoding="utf-8")


def program() -> str:
    """The page's blocks as one program, each line where it stands in the page, so that a failure names it."""
    made: list[str] = []
    inside = False
    for line in TEXT.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
        made.append(line if inside and not line.startswith("```") else "")
    return "\n".join(made)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the page copies real bytes, and torch is not installed")
    pytest.importorskip("prometheus_client", reason="the page has metrics, and prometheus_client is not installed")
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "observability"}
    exec(compile(program(), str(PATH), "exec", dont_inherit=True), space)  # noqa: S102  the project's own text
    spec = load_spec(check=False)
    crash = autopsy(tmp_path / "crash.ndjson", spec)
    assert crash.violation is not None
    assert "DEVICE_ERROR" in crash.violation.sentence
    assert check(tmp_path / "run.ndjson", spec).violation is not None, "a poisoned run violates, and that is its end"
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert {"X", "b", "e", "C", "i", "M"} == {event["ph"] for event in events}


def test_the_table_of_metrics_is_what_a_registry_exposes() -> None:
    prometheus = pytest.importorskip("prometheus_client", reason="it has the metrics")
    from kvstate.observe.metrics import FAMILIES, Metrics

    registry = prometheus.CollectorRegistry()
    registry.register(Metrics(Served().kv))
    exposed = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type, family.documentation)
        for family in registry.collect()
    }
    labels = {family.name: ", ".join(f"`{label}`" for label in family.labels) for family in FAMILIES}
    wanted = [
        f"| `{name}` | {kind} | {labels[name]} | {words} |"
        for name, kind, words in sorted(exposed, key=lambda one: [family.name for family in FAMILIES].index(one[0]))
    ]
    found = [line for line in TEXT.splitlines() if line.startswith("| `kvstate_")]
    assert found == wanted, "the table of docs/observability.md should be\n" + "\n".join(wanted)
    mentioned = set(re.findall(r"`(?:rate\()?(kvstate_[a-z_]+)", TEXT))
    assert mentioned <= {name for name, _, _ in exposed}


def test_the_fields_and_events_of_the_log_are_those_that_there_are() -> None:
    words = TEXT[TEXT.index("The fields:") : TEXT.index("A storm is told once")]
    assert set(re.findall(r"`(\w+)`", words)) == set(FIELDS)
    source = (ROOT / "kvstate" / "observe" / "log.py").read_text(encoding="utf-8")
    events = set(re.findall(r'"(job_failed|load_fell|retry|\w*quarantine\w*|rank_lost|handoff|trouble|fatal)"', source))
    table = {line.split("`")[1] for line in TEXT.splitlines() if re.match(r"\| `\w+` \| `kvstate\.", line)}
    assert table == events
