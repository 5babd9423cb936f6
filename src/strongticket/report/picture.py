"""A figure as PNG, SVG and PDF, and its data as CSV."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

import numpy as np

from strongticket.report.styles import LIGHT, MATPLOTLIB_DASHES, PAPER_LIGHT, marker_of

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from strongticket.experiments.view import Series, View

FORMATS = ("png", "svg", "pdf")


def write_figure(view: View, folder: Path) -> list[Path]:
    """Write ``folder/NAME.png``, .svg, .pdf and .csv; the same view gives the same bytes."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with matplotlib.rc_context({"svg.hashsalt": view.name, "svg.fonttype": "none"}):
        figure = draw(view)
        for suffix in FORMATS:
            path = folder / f"{view.name}.{suffix}"
            buffer = io.BytesIO()
            dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
            figure.savefig(buffer, format=suffix, dpi=160, metadata=dated.get(suffix))
            _replace(path, buffer.getvalue())
            paths.append(path)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(view.columns)
    writer.writerows(view.rows)
    path = folder / f"{view.name}.csv"
    _replace(path, text.getvalue().encode())
    return [*paths, path]


def draw(view: View) -> Figure:
    """The picture, on axes with units, with a legend below."""
    from matplotlib.figure import Figure

    shown = [series for series in view.series if not series.hidden]
    rows = (len(shown) + 1) // 2
    figure = Figure(figsize=(7.2, 4.3 + 0.19 * rows), layout="constrained")
    axes = figure.add_subplot()
    for series in shown:
        _draw_series(series, axes)
    axes.set(xlabel=view.x.label, ylabel=view.y.label, title=f"{view.title} ({view.name})")
    if view.x.log:
        ticks = sorted({x for series in shown for x in series.x})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.minorticks_off()
    if view.y.log:
        axes.set_yscale("log")
    axes.grid(True, which="major", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=7.5, frameon=False, handlelength=3.2)
    return figure


def _draw_series(series: Series, axes: object) -> None:
    marker, hollow = marker_of(series.marker) if series.marker else (None, False)
    color = PAPER_LIGHT if series.color is None else LIGHT[series.color % len(LIGHT)]
    axes.errorbar(  # type: ignore[attr-defined]
        series.x,
        series.y,
        yerr=whiskers(series),
        label=series.label,
        color=color,
        marker=marker,
        markersize=5,
        markerfacecolor="white" if hollow else color,
        linestyle=MATPLOTLIB_DASHES[series.dash],
        linewidth=2.4 if series.color is None else 1.3,
        elinewidth=0.7,
        capsize=2,
    )


def whiskers(series: Series) -> list[list[float]] | None:
    """One standard deviation down and up; none down where that would end below zero."""
    if series.spread is None:
        return None
    y, spread = np.asarray(series.y), np.asarray(series.spread)
    return [np.where(spread < y, spread, 0.0).tolist(), spread.tolist()]


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, path)
