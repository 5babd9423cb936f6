"""Figure 9, beyond the paper: the width that each layout needs for a given error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strongticket.experiments.attention_trials import chunks
from strongticket.experiments.statistics import group, lasting
from strongticket.experiments.view import Axis, Check, Series, View
from strongticket.experiments.width_trials import MatrixTrial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongticket.experiments.options import Options
    from strongticket.experiments.store import Plan, Row
    from strongticket.experiments.trial import Trial

TITLE = "Width for a given error"
SIZES, WANTED, CHUNK, TOL = (2, 8, 16, 32), (0.1, 0.01), 10, 1e-3
_SWAPS = 200
_KINDS = {
    ("paper", 0): ("paper's layout", 0, "circle", range(4, 33, 2)),
    ("assigned", 0): ("assigned by large |u|", 1, "square", range(4, 27, 2)),
    ("assigned", _SWAPS): ("assigned and swapped", 2, "triangle-up", range(4, 17, 1)),
}


def plan(options: Options) -> list[Trial]:
    """Every size, layout and number of items."""
    return [
        MatrixTrial(d, items, layout, refine, TOL, *part)
        for (layout, refine), (_, _, _, grid) in _KINDS.items()
        for d in SIZES
        for items in grid
        for part in chunks(options.count(10, 50), CHUNK)
    ]


def view(plan: Plan, rows: Sequence[Row], target: None = None) -> View:
    """The smallest measured width whose median largest error is small enough."""
    errors = group(rows, ("layout", "refine", "d", "items"), lambda row: row.result["max_errors"])
    medians = {key: float(np.median(values)) for key, values in errors.items()}
    needed: dict[tuple[str, int, float], dict[int, int]] = {}
    for layout, refine in _KINDS:
        for wanted in WANTED:
            for d in SIZES:
                items = lasting({key[3]: m <= wanted for key, m in medians.items() if key[:3] == (layout, refine, d)})
                if items is not None:
                    needed.setdefault((layout, refine, wanted), {})[d] = d * items
    series = [
        Series(
            f"{_KINDS[layout, refine][0]}, error ≤ {wanted:g}",
            list(by_size),
            list(by_size.values()),
            None,
            _KINDS[layout, refine][1],
            _KINDS[layout, refine][2] + ("" if wanted == WANTED[0] else "-open"),
            "solid" if wanted == WANTED[0] else "dashed",
        )
        for (layout, refine, wanted), by_size in needed.items()
    ]
    table = [
        (layout, refine, d, items, d * items, len(errors[layout, refine, d, items]), median)
        for (layout, refine, d, items), median in medians.items()
    ]
    return View(
        "fig9",
        TITLE,
        "d × d targets with entries from U[-1, 1] inside a random pair (Lemma 4). Error: the largest of all entries, "
        "median over sources; shown is the width of the grid from which on it is reached.",
        Axis("size of the target, d (inputs = outputs)", log=True),
        Axis("width needed, n (hidden units)", log=True),
        series,
        ("layout", "swap rounds", "d", "items n/d", "width", "sources", "median largest error"),
        table,
        _checks(needed),
        {**plan.settings, "sizes": SIZES, "errors": WANTED, "swap rounds": _SWAPS, "good enough": TOL},
    )


def _checks(needed: dict[tuple[str, int, float], dict[int, int]]) -> list[Check]:
    checks = []
    for wanted in WANTED:
        paper, swapped = needed.get(("paper", 0, wanted), {}), needed.get(("assigned", _SWAPS, wanted), {})
        shared = [d for d in SIZES if d in paper and d in swapped]
        if shared:
            ratios = ", ".join(f"{paper[d] / swapped[d]:.1f} (d = {d})" for d in shared)
            checks.append(
                Check(
                    f"Not in the paper: width for a largest entry error of {wanted:g}.",
                    f"The paper's layout is wider than the assigned and swapped one by a factor of {ratios}.",
                    "beyond the paper",
                    "Lemma 4",
                )
            )
    return checks
