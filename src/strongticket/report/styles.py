"""Colours, markers and dashes, the same in pictures and on the page; every line differs in grey too."""

from __future__ import annotations

LIGHT = ("#a63603", "#08519c", "#006d2c", "#6a51a3", "#525252", "#8c2d62")
DARK = ("#fdae6b", "#7db8e8", "#74c476", "#bcaee0", "#bdbdbd", "#f1a3cb")
PAPER_LIGHT, PAPER_DARK = "#111111", "#f5f5f5"

MATPLOTLIB_MARKERS = {"circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "cross": "P", "x": "X"}
MATPLOTLIB_DASHES = {"solid": "-", "dashed": "--", "dotted": ":", "dashdot": "-."}
PLOTLY_DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}


def marker_of(marker: str) -> tuple[str, bool]:
    """Matplotlib's marker, and whether it is hollow.

    >>> marker_of("square-open")
    ('s', True)
    """
    name = marker.removesuffix("-open")
    return MATPLOTLIB_MARKERS[name], name != marker
