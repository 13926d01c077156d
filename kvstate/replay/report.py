"""A replay as one HTML file that needs no network: the table's numbers, and how it went over time.

The plots are plotly's, drawn by the browser from what stands in the file; the pointer shows values, dragging zooms, two
clicks show all again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from kvstate.machines.tables.block import BlockTable
from kvstate.replay.result import ReplayResult
from kvstate.replay.series import Look, Series

INTERVALS: Final = 150
"""What is a rate is shown over so many stretches of the run, at most."""
STATES: Final = ("active", "cached", "open", "loading", "draining", "quarantined", "free")
"""Of a block, from the bottom of the picture to its top."""
COLOURS: Final = {
    "device": "#2b6cb0",
    "host": "#2f855a",
    "disk": "#b7791f",
    "store": "#805ad5",
    "miss": "#a0aec0",
    "active": "#2b6cb0",
    "cached": "#90cdf4",
    "open": "#2f855a",
    "loading": "#68d391",
    "draining": "#dd6b20",
    "quarantined": "#c53030",
    "free": "rgba(160,174,192,0.25)",
}
"""Of pools and states; they are told apart on light and on dark."""
PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem; padding: 0 1rem; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .15rem 1rem .15rem 0; text-align: left; }}
td, th {{ vertical-align: top; }}
th {{ font-weight: 600; white-space: nowrap; }} .bad {{ color: #c53030; font-weight: 600; }}
p.what {{ opacity: .8; max-width: 48rem; }}
</style></head><body><h1>{title}</h1>
{verdict}
{plots}
<h2>All numbers</h2>{numbers}
<h2>What was asked for</h2>{settings}
</body></html>
"""
"""The whole page, with places for what is shown."""


def write_report(path: Path, result: ReplayResult, series: Series) -> None:
    """Write the file. Errors: `OSError` where it can't be written, `ModuleNotFoundError` without plotly."""
    plots: list[str] = []
    for number, (heading, what, drawn) in enumerate(one for one in _figures(result, series) if one is not None):
        library = "inline" if number == 0 else False
        html = drawn.to_html(full_html=False, include_plotlyjs=library, config={"displayModeBar": False})
        plots.append(f"<h2>{escape(heading)}</h2><p class=what>{escape(what)}</p>{html}")
    told = result.as_dict()
    settings, problems = told.pop("settings"), told.pop("problems")
    verdict = "<p>PASSED: every byte that was loaded was right, no law was violated, no block leaked.</p>"
    if problems:
        verdict = "<ul>" + "".join(f"<li class=bad>FAILED: {escape(sentence)}</li>" for sentence in problems) + "</ul>"
    trace = settings.get("trace") or "a generated workload"
    title = escape(f"kvstate replay: {result.requests:,} requests of {trace}")
    page = PAGE.format(
        title=title, verdict=verdict, plots="\n".join(plots), numbers=_table(told), settings=_table(settings)
    )
    path.write_text(page, encoding="utf-8")


def _table(values: Mapping[str, Any]) -> str:
    rows = (
        f"<tr><th>{escape(name.replace('_', ' '))}</th><td>{escape(_said(value))}</td></tr>"
        for name, value in values.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


Drawn = tuple[str, str, Any]
"""Heading, what one sees, and the figure."""


def _figures(result: ReplayResult, series: Series) -> Iterable[Drawn | None]:
    pools = [pool.config.name for pool in series.ledger.books.pools]
    looks = _spread(series.looks)
    yield _hits(list(result.hits), looks)
    yield _bandwidth(pools, looks)
    for number, name in enumerate(pools):
        yield _blocks(number, name, series.looks)
    yield _drains(series)


def _spread(looks: Sequence[Look]) -> list[Look]:
    """Some of them, the first and the last included, about equally far apart in time."""
    kept = list(looks[:1])
    least = (looks[-1].time - looks[0].time) / INTERVALS if looks else 0.0
    for look in looks[1:]:
        if look.time > kept[-1].time + least or look is looks[-1]:
            kept.append(look)
    return kept


def _hits(tiers: Sequence[str], looks: Sequence[Look]) -> Drawn | None:
    """The share of each tier in the blocks that were asked for, stretch by stretch."""
    times: list[float] = []
    shares: list[list[float]] = [[] for _ in (*tiers, "miss")]
    for before, after in pairwise(looks):
        new = [b - a for a, b in zip((*before.hits, before.misses), (*after.hits, after.misses), strict=True)]
        if sum(new):
            times.append(after.time)
            for line, count in zip(shares, new, strict=True):
                line.append(100 * count / sum(new))
    if not times:
        return None
    drawn = _figure("percent of the blocks asked for")
    for name, line in zip((*tiers, "miss"), shares, strict=True):
        drawn.add_scatter(x=times, y=line, name=name, stackgroup="all", line_width=0, fillcolor=_colour(name))
    what = "Of the blocks of all prompts, where the longest cached prefix was found. The rest was computed."
    return "Hits by tier", what, drawn


def _bandwidth(pools: Sequence[str], looks: Sequence[Look]) -> Drawn | None:
    """Bytes a second into and out of each lower tier, stretch by stretch."""
    drawn, any_at_all = _figure("GB/s"), False
    for number, name in enumerate(pools):
        for way, verb in enumerate(("stored into", "loaded from")):
            if not looks or not looks[-1].moved[number][way]:
                continue
            any_at_all = True
            speeds = [
                (after.moved[number][way] - before.moved[number][way]) / max(after.time - before.time, 1e-9) / 1e9
                for before, after in pairwise(looks)
            ]
            dash = "solid" if way else "dot"
            times = [look.time for look in looks[1:]]
            drawn.add_scatter(x=times, y=speeds, name=f"{verb} {name}", line={"color": _colour(name), "dash": dash})
    what = "Bytes of copies that were reported done, by the time of the report. A slow stretch may be an idle one."
    return ("Copies", what, drawn) if any_at_all else None


def _blocks(number: int, name: str, looks: Sequence[Look]) -> Drawn | None:
    """The blocks of a pool by state."""
    if not looks or not sum(looks[-1].blocks[number]):
        return None
    drawn = _figure("blocks")
    times = [look.time for look in looks]
    for state in STATES:
        place = BlockTable.STATES.index(state)
        counts = [look.blocks[number][place] for look in looks]
        if any(counts):
            drawn.add_scatter(x=times, y=counts, name=state, stackgroup="all", line_width=0, fillcolor=_colour(state))
    what = "What draining and quarantined blocks take away from the pool is the price of copies that nobody waits for."
    return f"Blocks of {name} by state", what, drawn


def _drains(series: Series) -> Drawn | None:
    """How long blocks drained, as the share that had come free by then."""
    drawn, any_at_all = _figure("percent of drains that were over"), False
    for number, pool in enumerate(series.ledger.books.pools):
        seconds = sorted(series.watch.drains[number])
        if not seconds:
            continue
        any_at_all = True
        places = range(0, len(seconds), max(1, len(seconds) // INTERVALS))
        x = [1000 * seconds[place] for place in (*places, len(seconds) - 1)]
        y = [100 * (place + 1) / len(seconds) for place in (*places, len(seconds) - 1)]
        name = pool.config.name
        drawn.add_scatter(
            x=x, y=y, name=f"{name}, {len(seconds):,} drains", line={"color": _colour(name), "shape": "hv"}
        )
    drawn.update_xaxes(title="milliseconds from the release to free")
    what = "A deadline and a grace that are shorter than most drains quarantine blocks that would have come back."
    return ("Drains", what, drawn) if any_at_all else None


def _colour(name: str) -> str:
    return COLOURS.get(name, "#718096")


def _figure(unit: str) -> Any:
    """An empty plot over time. Loaded here, since it takes half a second."""
    graph = import_module("plotly.graph_objects")
    drawn = graph.Figure()
    grid = {"gridcolor": "rgba(128,128,128,0.25)", "zeroline": False}
    drawn.update_layout(
        height=360, margin={"l": 60, "r": 20, "t": 20, "b": 50}, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", font={"color": "#808080"}, hovermode="x unified", xaxis=grid, yaxis=grid,
    )  # fmt: skip
    drawn.update_xaxes(title="seconds")
    drawn.update_yaxes(title=unit, rangemode="tozero")
    return drawn
