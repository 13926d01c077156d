"""A counterexample for people and for machines: numbered lines, a record, and a test that stands by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from kvstate.testing.adapter import Scope
from kvstate.testing.kit.laws import LAWS, AdapterError
from kvstate.testing.kit.play import AT_THE_END, Replayed, Step, checked

FORMAT = 1
"""The version of a record."""

TEST = '''"""Found by the conformance kit of kvstate {version}, in {adapter}.

{story}

The numbers after a verb count modulo what there is. The steps are played on a new engine, and brought to rest; needs
nothing but kvstate and the module of the adapter.
"""

from {module} import {root}

from kvstate.testing import Scope, replay, story

SCOPE = {scope}
STEPS = [
{steps}
]


def test_{name}() -> None:
    played = replay({attribute}, STEPS, SCOPE)
    {check}
'''
"""A test that stands by itself; `GONE` or `THERE` is what it asks."""
GONE = "assert played.violation is None, story(played)"
THERE = 'assert played.violation is not None and played.violation.law == "{law}", "it is mended"'


def story(played: Replayed) -> str:
    """What happened, step by step, and the violation as the last sentence."""
    lines: list[str] = []
    for number, (step, said) in enumerate(played.told, start=1):
        lines.append(f"   {step}:" if step == AT_THE_END else f"{number:2}. {step}")
        lines += [f"      {line}" for line in said]
    if played.violation is None:
        return "\n".join([*lines, "Every law was kept."])
    law, sentence = played.violation
    return "\n".join([*lines, f"BROKEN {law}: {sentence}", f"  {LAWS[law]}"])


def as_test(
    adapter: str, steps: Sequence[Step], scope: Scope, played: Replayed, version: str, *, there: bool = False
) -> str:
    """The text of a test that plays these steps.

    `adapter` is written `module:Class`. The test fails as long as the law is broken; with `there`, as long as it is
    not, for a collection of what is known.
    """
    module, _, attribute = adapter.partition(":")
    law = played.violation.law if played.violation else "nothing"
    text = story(played).replace("\\", "\\\\").replace('"""', "'''")
    return TEST.format(
        version=version,
        adapter=adapter,
        story=text,
        module=module,
        root=attribute.partition(".")[0],
        attribute=attribute,
        scope=repr(scope),
        steps="\n".join(f"    {literal(step)}," for step in steps),
        name=law.lower().replace(".", "_"),
        check=THERE.format(law=law) if there else GONE,
    )


def literal(step: Step) -> str:
    """The step as it stands in a test."""
    inside = ", ".join(f'"{word}"' if isinstance(word, str) else str(word) for word in step)
    return f"({inside},)" if len(step) == 1 else f"({inside})"


def record(adapter: str, steps: Sequence[Step], scope: Scope, played: Replayed) -> str:
    """The counterexample as JSON: what `read_record` reads."""
    data = {
        "kvstate-kit": FORMAT,
        "adapter": adapter,
        "scope": asdict(scope),
        "steps": [list(step) for step in steps],
        "law": played.violation.law if played.violation else None,
        "sentence": played.violation.sentence if played.violation else None,
    }
    return json.dumps(data, indent=1) + "\n"


def write(folder: Path, adapter: str, steps: Sequence[Step], scope: Scope, played: Replayed) -> list[Path]:
    """Write sequence, record and test into the folder, which is made if need be; returns the files."""
    from kvstate._version import __version__

    folder.mkdir(parents=True, exist_ok=True)
    name = (played.violation.law if played.violation else "nothing").lower().replace(".", "_")
    texts = {
        f"{name}.txt": story(played) + "\n",
        f"{name}.json": record(adapter, steps, scope, played),
        f"test_{name}.py": as_test(adapter, steps, scope, played, __version__),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file in texts]


def read_record(text: str) -> tuple[str, list[Step], Scope]:
    """Adapter, steps and scope of a record. Raises `AdapterError` with a sentence for what is none."""
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise AdapterError(f"it is no JSON: {error}") from None
    if not isinstance(data, dict) or data.get("kvstate-kit") != FORMAT:
        raise AdapterError(f'it has no "kvstate-kit": {FORMAT}; give a record that `kvstate fuzz --out` wrote')
    known = {field.name for field in fields(Scope)}
    scope, steps, adapter = data.get("scope"), data.get("steps"), data.get("adapter")
    if not isinstance(scope, dict) or set(scope) != known or not isinstance(adapter, str):
        raise AdapterError(f"its scope has to have {', '.join(sorted(known))}, and its adapter a name")
    if not isinstance(steps, list) or not all(isinstance(step, list) and step for step in steps):
        raise AdapterError("its steps have to be a list of lists, each a verb and its numbers")
    try:
        return adapter, checked(steps), Scope(**scope)
    except ValueError as error:
        raise AdapterError(str(error)) from None
