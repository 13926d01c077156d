"""The pictures: every row is in them, with its words and stroke, between the right states, and nothing overlaps."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kvstate.spec import diagram_pictures, diagram_render
from kvstate.spec.diagram import (
    STROKES,
    Counts,
    DiagramError,
    Picture,
    couplings,
    edges,
    mermaid,
    picture,
    stays,
)
from kvstate.spec.diagram_dot import END_GROUND, GROUND, STATE_GROUND, STROKE_COLOURS, STYLES, TEXT, dot
from kvstate.spec.diagram_record import read_counts
from kvstate.spec.diagram_render import pure_renderer, render
from kvstate.spec.model import Machine, Spec

needs_pure = pytest.mark.skipif(pure_renderer() is None, reason="the package graphviz-pure is not installed")
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="the program dot (Graphviz) is not installed")


def drawn(machine: Machine) -> Iterator[tuple[str, str, str]]:
    """What must be in a picture: from, to, and an event with its guard and effects, for every row and source."""
    for row in machine.rows:
        for source in row.sources:
            for event in row.events:
                yield source, row.to or source, event


def plain(text: str) -> str:
    """The words of a DOT text, without its marks."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^<>]*>", " ", text)))


# --- What is drawn --------------------------------------------------------------------------------------------------


def test_every_row_is_an_arrow_or_a_line_inside(machine: Machine) -> None:
    between = edges(machine)
    for source, target, event in drawn(machine):
        lines = stays(machine, source) if source == target else between[source, target]
        kind = machine.event(event).kind
        words = [line.events.split(", ") for line in lines if line.kind == kind]
        assert any(event in one for one in words), f"{source} --{event}--> {target} is missing"
    text = plain(dot(picture(machine)))
    for row in machine.rows:
        for word in (row.id, *row.events, *row.effects, *row.when.names):
            assert word in text, f"{word} of {row.id} is missing"


def test_parallel_arrows_are_merged(machine: Machine) -> None:
    one = picture(machine)
    ends = [(arrow.source, arrow.target) for arrow in one.arrows]
    assert len(ends) == len(set(ends))
    assert dot(one).count(" to ") == 3 * len(ends), "each has one label and two lines"
    pairs = re.findall(r"^    (\w+ --> \w+) :", mermaid(one), flags=re.MULTILINE)
    assert len(pairs) == len(set(pairs))


def test_the_kinds_look_different(spec: Spec, block: Machine) -> None:
    text = dot(picture(block))
    assert '"free" -> "free to open" [style=solid, color="#1f75e0", dir=none];' in text
    assert '"open" -> "open to draining" [style=dotted, color="#9558e8", penwidth=2.2, dir=none];' in text
    assert '"free" -> "cached to free" [style=solid, color="#1f75e0:#9558e8", dir=back];' in text, (
        "two kinds, one arrow"
    )
    assert '"flying" -> "flying to landed" [style=dashed, color="#bb6200", dir=none];' in dot(
        picture(spec.machine("part"))
    )
    assert set(STYLES) == set(STROKES) == {"request", "report", "signal"}
    assert len(set(STYLES.values())) == len(set(STROKES.values())) == 3


def test_states_of_rest_and_ends_stand_out(spec: Spec, block: Machine) -> None:
    boxes = {box.name: box for box in picture(block).boxes}
    assert boxes["free"].home
    assert not boxes["draining"].home
    assert not any(box.end for box in boxes.values()), "a block is used again"
    ends = [box.name for box in picture(spec.machine("transfer")).boxes if box.end]
    assert ends == ["committed", "fell_back", "aborted"]
    text = dot(picture(spec.machine("transfer")))
    committed = next(line for line in text.splitlines() if line.startswith('  "committed" ['))
    assert END_GROUND in committed
    assert "peripheries=2" in committed
    planned = next(line for line in text.splitlines() if line.startswith('  "planned" ['))
    assert STATE_GROUND in planned
    assert "peripheries" not in planned


def test_a_row_of_two_kinds_of_event_is_drawn_once_for_each(odd: Machine) -> None:
    kinds = [(line.kind, line.text) for line in stays(odd, "end") if "pick" in line.text or "never" in line.text]
    assert kinds == [("report", "pick [t >= 0]"), ("signal", "never [t >= 0]")]


def test_mermaid_of_the_block(block: Machine) -> None:
    text = mermaid(picture(block))
    assert text.startswith("stateDiagram-v2\n    [*] --> free\n")
    assert "    free --> open : reserve\n" in text
    assert "    open --> draining : release [lost #lt; readers + writers]\n" in text
    assert "    cached --> free : evict [readers == 0] / gone<br/>unpublish [readers == 0]\n" in text
    assert "    quarantined --> quarantined : read_late [readers #gt; 1]<br/>write_late [writers #gt; 1]\n" in text
    assert "    class free home\n" in text


def test_words_of_mermaid_are_no_names_of_states_there(odd: Machine) -> None:
    text = mermaid(picture(odd))
    assert '    state "end" as end_\n    state "note" as note_\n    [*] --> end_\n' in text
    assert "    end_ --> note_ : pick [t #gt; 0] / one two\n" in text
    assert "classDef" not in text, "no state of it is a home"


def test_a_machine_without_arrows_still_has_its_states_in_mermaid(block: Machine) -> None:
    assert "    free\n" in mermaid(replace(picture(block), arrows=()))


def test_all_couplings_and_acts_are_in_the_second_picture(spec: Spec) -> None:
    one = couplings(spec)
    assert {box.name for box in one.boxes} == {machine.name for machine in spec.machines}
    ids = [line.id for line in one.lines]
    assert sorted(ids) == sorted([*(one.id for one in spec.couplings), *(act.id for act in spec.acts)])
    ends = [(arrow.source, arrow.target) for arrow in one.arrows]
    assert len(ends) == len(set(ends))
    text = plain(dot(one))
    for coupling in spec.couplings:
        ask = "?" if coupling.ask else ""
        assert f"{coupling.id} {coupling.effect} -> {coupling.event}{ask} over {coupling.over}" in text
    assert "turn -#gt; turn? over load_next" in mermaid(one)


# --- A recorded run -------------------------------------------------------------------------------------------------

RECORD = """{"kvstate":2,"spec":"0.1.0","settings":{}}
{"n":1,"t":0.0,"in":"reserve"}
{"n":2,"t":0.0,"row":"B01","m":"block","id":1,"from":"free","to":"open"}
{"n":3,"t":0.0,"row":"B01","m":"block","id":2,"from":"free","to":"open"}
{"n":4,"t":0.0,"row":"B20","m":"block","id":1,"from":"open","to":"free"}
{"n":5,"t":0.0,"row":"P01","m":"part","id":1,"from":"new","to":"flying"}
"""


@pytest.fixture
def counts(tmp_path: Path) -> Counts:
    path = tmp_path / "run.jsonl"
    path.write_text(RECORD, encoding="utf-8")
    return read_counts(path)


def test_a_run_is_counted_row_by_row_and_state_by_state(block: Machine, counts: Counts) -> None:
    assert counts == {("block", "B01", "free"): 2, ("block", "B20", "open"): 1, ("part", "P01", "new"): 1}
    one = picture(block, counts)
    fired = {(arrow.source, arrow.target): [line.count for line in arrow.lines] for arrow in one.arrows}
    assert fired["free", "open"] == [2]
    assert fired["open", "free"] == [1]
    assert fired["loading", "free"] == [0], "the same row from another state"
    assert [box.name for box in one.boxes if box.seen] == ["free", "open"]
    total = len(list(one.lines))
    text = dot(one)
    assert f"of {total} lines 2 happened in this run (green), {total - 2} never did (red)" in text
    assert "B01 reserve ×2" in plain(text)
    assert "B03 claim [readers == 0] never" in plain(text)
    assert '"free" -> "free to open" [style=solid, color="#2a8f45", penwidth=2.2, dir=none];' in text
    assert '"open" -> "open to loading" [style=solid, color="#d9433d", penwidth=1.2, dir=none];' in text
    assert "free --> open : reserve ×2\n" in mermaid(one)
    assert "classDef never" in mermaid(one)


def test_a_run_shows_in_the_couplings(spec: Spec, counts: Counts) -> None:
    one = couplings(spec, counts)
    happened = {line.id for line in one.lines if line.count}
    assert happened == {"C01", "C02", "C51", "C52"}, (
        "a part touched its blocks, whosever, and nothing else has an effect"
    )
    assert [box.name for box in one.boxes if box.seen] == ["part", "block"]


def test_a_record_of_another_spec_is_refused(block: Machine, spec: Spec) -> None:
    other = {("block", "B99", "free"): 1}
    with pytest.raises(DiagramError, match="row B99 of block in state free, which the spec has not"):
        picture(block, other)
    with pytest.raises(DiagramError, match="row B99 of block in state free, which the spec has not"):
        couplings(spec, other)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no row that fired"),
        ('{"timestamp": 0}\n', "is no record of a run; kvstate replay --trace-out writes one"),
        ('{"kvstate": 2}\n', "has no row that fired"),
        ('{"kvstate": 2}\nrow\n', "line 2: not a JSON object"),
        ('{"kvstate": 2}\n[1]\n', "line 2: not a JSON object"),
        ('{"kvstate": 2}\n{"row": "B01", "m": "block"}\n', "line 2: a row without its machine and state"),
    ],
)
def test_what_is_no_record_is_refused_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DiagramError, match=sentence):
        read_counts(path)


def test_a_record_that_is_not_there_or_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(DiagramError, match="could not be read: No such file"):
        read_counts(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(DiagramError, match="it is not text"):
        read_counts(tmp_path / "bytes")


# --- How it looks ---------------------------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"
Rect = tuple[float, float, float, float]
Point = tuple[float, float]


def numbers(text: str) -> list[Point]:
    found = [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", text)]
    return list(zip(found[::2], found[1::2], strict=True))


def rect(group: ET.Element) -> Rect:
    points = [
        point
        for shape in group.iter()
        if shape.tag in (f"{SVG}path", f"{SVG}polygon")
        for point in numbers(shape.get("d") or shape.get("points") or "")
    ]
    return min(x for x, _ in points), min(y for _, y in points), max(x for x, _ in points), max(y for _, y in points)


def along(path: str) -> Iterator[Point]:
    """Points on a path of cubic curves."""
    points = numbers(path)
    for start in range(0, len(points) - 3, 3):
        a, b, c, d = points[start : start + 4]
        for step in range(33):
            t = step / 32
            u = 1 - t
            weights = (u**3, 3 * u * u * t, 3 * u * t * t, t**3)
            yield (
                sum(w * p[0] for w, p in zip(weights, (a, b, c, d), strict=True)),
                sum(w * p[1] for w, p in zip(weights, (a, b, c, d), strict=True)),
            )


def layout(svg: bytes) -> tuple[dict[str, Rect], list[tuple[str, str, str]]]:
    """Boxes and labels by name, and lines by their ends."""
    boxes: dict[str, Rect] = {}
    lines: list[tuple[str, str, str]] = []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        title = group.findtext(f"{SVG}title") or ""
        if group.get("class") == "node" and title.strip():
            boxes[title] = rect(group)
        elif group.get("class") == "edge" and title.strip():
            source, _, target = title.partition("->")
            lines += [(source, target, path.get("d") or "") for path in group.iter(f"{SVG}path")]
    return boxes, lines


@needs_pure
@pytest.mark.parametrize("name", ["block", "part", "key", "offload", "transfer", "load", "service", "couplings"])
def test_nothing_overlaps(spec: Spec, name: str) -> None:
    one: Picture = couplings(spec) if name == "couplings" else picture(spec.machine(name))
    boxes, lines = layout(render(dot(one), "svg"))
    assert len(boxes) == len(one.boxes) + len(one.arrows)
    assert len(lines) >= 2 * len(one.arrows)
    for (first, a), (second, b) in combinations(boxes.items(), 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, f"{first} lies on {second}"
    for source, target, path in lines:
        for x, y in along(path):
            for box, (left, top, right, bottom) in boxes.items():
                inside = left + 1 < x < right - 1 and top + 1 < y < bottom - 1
                assert not inside or box in (source, target), f"{source} -> {target} runs through {box}"


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_strokes_stand_out_on_light_and_on_dark_pages() -> None:
    for colour in STROKE_COLOURS:
        for page in ("#ffffff", "#0d1117", "#000000"):
            assert contrast(colour, page) >= 3, f"{colour} on {page}: {contrast(colour, page):.2f}"
    assert min(contrast(TEXT, GROUND), contrast(TEXT, STATE_GROUND), contrast("#ffffff", END_GROUND)) >= 7
    assert contrast(END_GROUND, "#ffffff") >= 3


def test_the_ground_is_the_pages_own(machine: Machine) -> None:
    assert "bgcolor=transparent" in dot(picture(machine))


def test_the_same_machine_draws_the_same(machine: Machine) -> None:
    assert dot(picture(machine)) == dot(picture(machine))
    assert mermaid(picture(machine)) == mermaid(picture(machine))


# --- Who draws ------------------------------------------------------------------------------------------------------


@needs_pure
def test_svg_is_drawn_without_dot(block: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    svg = render(dot(picture(block)), "svg").decode()
    assert svg.startswith("<?xml")
    for state in block.states:
        assert f">{state.name}</text>" in svg
    assert render(dot(picture(block)), "png").startswith(b"\x89PNG")


@needs_pure
def test_what_is_odd_in_a_title_does_not_break_the_picture(odd: Machine) -> None:
    assert "A machine with &quot;quotes&quot;" in render(dot(picture(odd)), "svg").decode()


@needs_dot
def test_dot_draws_where_the_package_is_missing(odd: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagram_render, "pure_renderer", lambda: None)
    assert b"<svg" in render(dot(picture(odd)), "svg")
    assert render(dot(picture(odd)), "png").startswith(b"\x89PNG")


def test_where_nothing_draws_a_sentence_says_what_to_install(block: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagram_render, "renderer", lambda: None)
    with pytest.raises(
        DiagramError, match=r"draws a PNG: install one with: pip install 'kvstate\[diagram\]'; .*apt-get"
    ):
        render(dot(picture(block)), "png")


def test_a_program_that_fails_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("renderer", "pure_renderer"):
        monkeypatch.setattr(diagram_render, name, lambda: str(tmp_path / "none"))
    with pytest.raises(DiagramError, match="can't be run: No such file"):
        render("digraph {}", "svg")

    def slow(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("dot", 60)

    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(DiagramError, match="drew no picture within 60 seconds"):
        render("digraph {}", "svg")


@needs_pure
def test_what_is_not_dot_is_refused() -> None:
    with pytest.raises(DiagramError, match="drew no picture: "):
        render("digraph {", "svg")


# --- What is checked in ---------------------------------------------------------------------------------------------


@needs_pure
def test_the_pictures_in_docs_are_what_the_spec_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert diagram_pictures.main(["--check"]) == 0, capsys.readouterr().err


@needs_pure
def test_pictures_are_written_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {"block.svg": b"<svg>1</svg>", "part.svg": b"<svg>2</svg>"}
    monkeypatch.setattr(diagram_pictures, "pictures", lambda: iter(made.items()))
    folder = tmp_path / "pictures"
    where = ["--folder", str(folder)]
    assert diagram_pictures.main([*where, "--check"]) == 1
    assert "docs/pictures/block.svg is not what spec/ gives: run make docs" in capsys.readouterr().err
    assert not folder.exists(), "a check writes nothing"
    assert diagram_pictures.main(where) == 0
    assert diagram_pictures.main([*where, "--check"]) == 0
    (folder / "part.svg").write_bytes(b"by hand")
    (folder / "gone.svg").write_bytes(b"of a machine that went")
    assert diagram_pictures.main([*where, "--check"]) == 1
    assert "gone.svg" in capsys.readouterr().err
    assert diagram_pictures.main(where) == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == made


def test_pictures_are_drawn_by_the_package_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(diagram_pictures, "pure_renderer", lambda: None)
    assert diagram_pictures.main(["--check"]) == 1
    assert "pip install 'kvstate[diagram]'" in capsys.readouterr().err
