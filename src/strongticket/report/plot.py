"""A figure as the JSON that plotly.js draws; colours are filled in on the page, for light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.report.picture import whiskers
from strongticket.report.styles import PLOTLY_DASHES

if TYPE_CHECKING:
    from strongticket.experiments.view import Axis, Series, View
    from strongticket.report.masks import Masks


def plot_of(view: View) -> dict[str, Any]:
    """Traces and layout of a figure; ``meta`` holds the number of a trace's colour, -1 for the paper's curve."""
    ticks = sorted({float(x) for series in view.series for x in series.x})
    return {
        "data": [_trace(series) for series in view.series],
        "layout": {
            "xaxis": _axis(view.x, ticks),
            "yaxis": _axis(view.y),
            "legend": {"orientation": "h", "yanchor": "top", "y": -0.22, "x": 0, "xanchor": "left"},
            "margin": {"l": 68, "r": 12, "t": 16, "b": 60},
            "hovermode": "closest",
        },
    }


def _trace(series: Series) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": series.label,
        "x": [float(x) for x in series.x],
        "y": [float(y) for y in series.y],
        "mode": "lines+markers" if series.marker else "lines",
        "line": {"dash": PLOTLY_DASHES[series.dash], "width": 3 if series.color is None else 1.8},
        "meta": -1 if series.color is None else series.color,
        "hovertemplate": "%{x:,}: %{y:.3~g}<extra>%{fullData.name}</extra>",
    }
    if series.marker:
        trace["marker"] = {"symbol": series.marker, "size": 8}
    if series.hidden:
        trace["visible"] = "legendonly"
    bars = whiskers(series)
    if bars is not None:
        trace["error_y"] = {
            "type": "data", "symmetric": False, "arrayminus": bars[0], "array": bars[1], "thickness": 1, "width": 3,
        }  # fmt: skip
        trace["customdata"] = [float(value) for value in series.spread or ()]
        trace["hovertemplate"] = "%{x:,}: %{y:.3~g}, std %{customdata:.2~g}<extra>%{fullData.name}</extra>"
    return trace


def _axis(axis: Axis, ticks: list[float] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"title": {"text": axis.label, "standoff": 8}, "automargin": True}
    if axis.log:
        found |= {"type": "log", "exponentformat": "power", "dtick": 1}
        if ticks:
            found |= {"tickvals": ticks, "ticktext": [f"{x:g}" for x in ticks]}
            del found["dtick"]
    return found


def plot_of_masks(masks: Masks) -> dict[str, Any]:
    """The pruned weights of one head, four matrices above each other; cut weights are empty."""
    count = len(masks.matrices)
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"margin": {"l": 40, "r": 12, "t": 4, "b": 44}, "annotations": []}
    gap = 0.09
    heights = np.array([matrix.shape[0] for _, matrix in masks.matrices], dtype=float)
    heights = np.maximum(heights, 0.25 * heights.max())
    heights *= (1.0 - gap * count) / heights.sum()
    top = 1.0
    for place, (name, matrix) in enumerate(masks.matrices):
        suffix = "" if place == 0 else str(place + 1)
        high = top - gap
        low = top = max(0.0, high - float(heights[place]))
        data.append(
            {
                "type": "heatmap",
                "z": [[None if np.isnan(v) else round(float(v), 4) for v in row] for row in matrix],
                "xaxis": f"x{suffix}",
                "yaxis": f"y{suffix}",
                "coloraxis": "coloraxis",
                "xgap": 1 if matrix.shape[1] <= 128 else 0,
                "ygap": 1 if matrix.shape[0] <= 128 else 0,
                "name": name,
                "hovertemplate": f"{name}[%{{y}}, %{{x}}] = %{{z}}<extra></extra>",
            }
        )
        layout[f"xaxis{suffix}"] = {"anchor": f"y{suffix}", "showticklabels": place == count - 1, "zeroline": False}
        layout[f"yaxis{suffix}"] = {
            "domain": [low, high], "autorange": "reversed", "anchor": f"x{suffix}", "dtick": 1, "zeroline": False,
        }  # fmt: skip
        if matrix.shape[0] > 12:
            del layout[f"yaxis{suffix}"]["dtick"]
        layout["annotations"].append(
            {"text": name, "xref": "paper", "yref": "paper", "x": 0, "y": high, "xanchor": "left",
             "yanchor": "bottom", "showarrow": False}
        )  # fmt: skip
    layout[f"xaxis{'' if count == 1 else count}"]["title"] = {"text": masks.unit}
    layout["coloraxis"] = {"cmid": 0, "colorbar": {"thickness": 10, "title": {"text": masks.shown}}}
    return {"data": data, "layout": layout, "label": masks.label}
