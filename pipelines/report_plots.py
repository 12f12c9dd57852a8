"""Plots of a report: Bokeh figures as plain JSON, the same in light and dark, on a desk and a phone.

Bars carry their names and numbers inside the plot, since long names beside it would leave no room on
a phone. Names are drawn on a canvas as text: whatever is in them, none of it is markup.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bokeh.embed import json_item
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    DataRange1d,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.plotting import figure
from bokeh.themes import Theme

GREY = "#7b818a"  # legible on white and on black alike
BLUE, GREEN, ORANGE, RED, YELLOW, PURPLE = (  # Okabe and Ito's: told apart by colour-blind readers
    "#0f7fc0", "#009e73", "#e69f00", "#d55e00", "#c9b800", "#b8689b",
)  # fmt: skip
PALETTE = (BLUE, GREEN, ORANGE, PURPLE, RED, YELLOW)
MAX_BARS, MAX_NAME = 30, 40
THEME = Theme(
    json={
        "attrs": {
            "Plot": {
                "background_fill_alpha": 0,
                "border_fill_alpha": 0,
                "outline_line_color": None,
                "toolbar_location": None,
                "sizing_mode": "stretch_width",
                "min_border_left": 20,
                "min_border_right": 20,
            },
            "Axis": {
                "axis_line_color": GREY,
                "major_tick_line_color": GREY,
                "minor_tick_line_color": None,
                "major_label_text_color": GREY,
                "axis_label_text_color": GREY,
                "axis_label_text_font_style": "normal",
            },
            "Grid": {"grid_line_color": GREY, "grid_line_alpha": 0.25},
        }
    }
)


@dataclass(frozen=True)
class Figure:
    """A plot, what it shows, and what its colours mean."""

    place: str
    caption: str
    plot: Any
    legend: Mapping[str, str] = field(default_factory=dict)


class Bar(NamedTuple):
    """A bar of a chart: what it is called, how long it is, the number as people read it."""

    name: str
    value: float
    shown: str
    color: str = BLUE


def bars(rows: Sequence[Bar], unit: str) -> Any:
    """Horizontal bars, the first on top, each under its own name and number; MAX_BARS at most."""
    rows = rows[:MAX_BARS]
    source = ColumnDataSource(
        {
            "y": [-number for number in range(len(rows))],
            "value": [row.value for row in rows],
            "label": [f"{_short(visible(row.name))}  {row.shown}" for row in rows],
            "color": [row.color for row in rows],
        }
    )
    plot = figure(
        height=46 * len(rows) + 60, tools="", x_axis_label=unit, y_axis_location=None,
        x_range=DataRange1d(start=0, range_padding=0.05),
        y_range=Range1d(start=0.4 - len(rows), end=0.8),
    )  # fmt: skip
    plot.hbar(y="y", right="value", height=0.4, color="color", line_color=None, source=source)
    plot.text(
        x=0, y="y", text="label", y_offset=-12, text_baseline="bottom", text_color=GREY,
        text_font_size="12px", source=source,
    )  # fmt: skip
    plot.ygrid.visible = False
    _ticks(plot.xaxis, [row.value for row in rows])
    return plot


def histogram(
    edges: Sequence[int], counts: Sequence[int], marked: Sequence[int], unit: str, what: str
) -> Any:
    """Counts between edges; dashed lines at marked values."""
    source = ColumnDataSource({"left": edges[:-1], "right": edges[1:], "count": counts})
    plot = figure(
        height=300, tools="", x_axis_label=unit, y_axis_label=what,
        x_range=Range1d(start=0, end=edges[-1]), y_range=DataRange1d(start=0),
    )  # fmt: skip
    drawn = plot.quad(
        left="left", right="right", bottom=0, top="count", color=BLUE, line_color=GREY,
        line_width=0.5, source=source,
    )  # fmt: skip
    plot.vspan(x=list(marked), line_color=RED, line_dash="dashed", line_width=1.5)
    tips = [(unit, "@left{0,0} to @right{0,0}"), (what, "@count{0,0}")]
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    plot.xgrid.visible = False
    _ticks(plot.axis, counts)
    return plot


def over_builds(
    values: Sequence[float], names: Sequence[str], unit: str, limit: float | None = None
) -> Any:
    """A line over the builds, which are numbered from 1; a dashed line at a limit."""
    source = ColumnDataSource(
        {"x": list(range(1, len(values) + 1)), "value": list(values), "build": list(names)}
    )
    plot = _builds_figure(len(values), unit, 220)
    plot.line(x="x", y="value", color=BLUE, line_width=2, source=source)
    drawn = plot.scatter(x="x", y="value", color=BLUE, size=8, source=source)
    if limit is not None:
        plot.hspan(y=[limit], line_color=RED, line_dash="dashed", line_width=1.5)
        plot.y_range = Range1d(start=0, end=1.1 * max(limit, *values))
    _ticks(plot.yaxis, values)
    plot.add_tools(
        HoverTool(renderers=[drawn], tooltips=[("build", "@build"), (unit, "@value{0,0.[00]}")])
    )
    return plot


def stacked_over_builds(
    series: Mapping[str, Sequence[float]], colors: Sequence[str], names: Sequence[str], unit: str
) -> Any:
    """Stacked columns over the builds, which are numbered from 1."""
    columns = {f"s{number}": list(values) for number, values in enumerate(series.values())}
    source = ColumnDataSource(
        {"x": list(range(1, len(names) + 1)), "build": list(names), **columns}
    )
    plot = _builds_figure(len(names), unit, 260)
    drawn = plot.vbar_stack(
        list(columns), x="x", width=0.6, color=list(colors), line_color=None, source=source
    )
    tips = [(name, f"@{column}{{0,0.[0]}}") for name, column in zip(series, columns, strict=True)]
    plot.add_tools(HoverTool(renderers=drawn, tooltips=[("build", "@build"), *tips]))
    _ticks(plot.yaxis, [value for values in series.values() for value in values])
    return plot


def plots_to_json(plots: Mapping[str, Any]) -> str:
    """Items for `Bokeh.embed.embed_item`, by the id of the element that each is drawn in.

    Bokeh numbers its models through the life of a process; here they are numbered by their place, so
    that a report says the same whenever it is made. Nothing in the text can end a script element.
    """
    items = {place: json_item(plot, theme=THEME) for place, plot in plots.items()}
    numbers: dict[str, int] = {}

    def renumber(match: re.Match[str]) -> str:
        return f'"{match[1]}":"p{numbers.setdefault(match[2], len(numbers))}"'

    # Inside a JSON string these quotes would be escaped: only keys and values match.
    text = re.sub(r'"((?:root_)?id)":"(p\d+)"', renumber, json.dumps(items, separators=(",", ":")))
    return text.replace("<", "\\u003c")


def in_bytes(size: int) -> str:
    """A size as people read it, in powers of a thousand."""
    unit, divisor = unit_of(size)
    return f"{size:,} B" if divisor == 1 else f"{size / divisor:,.1f} {unit}"


def unit_of(size: int) -> tuple[str, int]:
    """The largest unit that a size reaches, and its bytes."""
    powers = (("GB", 10**9), ("MB", 10**6), ("kB", 1_000))
    return next(((unit, power) for unit, power in powers if size >= power), ("bytes", 1))


def visible(text: str) -> str:
    r"""A text in which nothing hides: control and format characters, lone surrogates and the like are
    spelled as in Python (\n, \x00, \u202e, \udcff)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def _builds_figure(builds: int, unit: str, height: int) -> Any:
    plot = figure(
        height=height, tools="", x_axis_label="build", y_axis_label=unit,
        x_range=Range1d(start=0.5, end=builds + 0.5), y_range=DataRange1d(start=0),
    )  # fmt: skip
    plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    plot.xgrid.visible = False
    return plot


def _ticks(axes: Any, values: Sequence[float]) -> None:
    """No ticks between whole numbers where things are counted."""
    if all(isinstance(value, int) for value in values):
        axes.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    axes.formatter = NumeralTickFormatter(format="0,0.[00]")
