"""Figure 5: the error of tickets within a random attention layer against the length of the sequence."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from strongticket.experiments.attention_trials import AttentionTrial, TargetTrial, chunks, r2_words
from strongticket.experiments.statistics import group, number, summarise
from strongticket.experiments.view import Axis, Check, Series, View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongticket.experiments.options import Options
    from strongticket.experiments.statistics import Summary
    from strongticket.experiments.store import Plan, Row
    from strongticket.experiments.trial import Trial

TITLE = "Error against sequence length"
LENGTHS = (4, 16, 64, 256, 1024, 4096)
SAMPLES, POSITIONS, CHUNK = 32, 33, 10
_MARKERS = ("circle", "square", "triangle-up", "diamond", "cross")


def plan(options: Options) -> list[Trial]:
    """Several widths, each ticket measured at all lengths."""
    target = TargetTrial(seed=options.target_seed, token=options.token)
    return [
        AttentionTrial(target, width, "paper", "theory", 0, LENGTHS, SAMPLES, POSITIONS, *part)
        for width in options.choose((8, 16, 24, 32), (8, 16, 32, 48, 64))
        for part in chunks(options.count(20, 100), CHUNK)
    ]


def view(plan: Plan, rows: Sequence[Row], target: Row) -> View:
    """Mean error per length and width under the mean certificate, which does not know the length."""
    found = [row for row in rows if row.experiment == "attention"]
    points: dict[int, dict[int, Summary]] = {}
    worst: dict[int, float] = {}
    bounds = {
        width: summarise(b) for (width,), b in group(found, ("width",), lambda r: r.result["certificates"]).items()
    }
    for length in LENGTHS:
        by_width = group(found, ("width",), lambda row, n=length: row.result["errors"][str(n)])  # type: ignore[misc]
        for (width,), values in by_width.items():
            points.setdefault(width, {})[length] = summarise(values)
    for row in found:
        for values in row.result["worst"].values():
            for value, bound in zip(values, row.result["certificates"], strict=True):
                width = row.config["width"]
                worst[width] = max(worst.get(width, 0.0), value / bound)
    series, table = [], []
    for color, (width, by_length) in enumerate(points.items()):
        label, marker = f"width {width}", _MARKERS[color % len(_MARKERS)]
        lengths = list(by_length)
        summaries = list(by_length.values())
        series.append(
            Series(
                f"{label}: mean error", lengths, [s.mean for s in summaries], [s.std for s in summaries], color, marker
            )
        )
        certified, hollow = bounds[width].mean, f"{marker}-open"
        flat = [certified] * len(lengths)
        series.append(Series(f"{label}: mean certificate", lengths, flat, None, color, hollow, "dashed"))
        table += [(width, n, s.count, s.mean, s.std, s.median, certified) for n, s in by_length.items()]
    return View(
        "fig5",
        TITLE,
        "The tickets of figure 4 (paper's layout, theory init) on sequences of growing length. Error: the largest over "
        f"up to {POSITIONS} positions of a sequence, the token first, averaged over {SAMPLES} test sequences. "
        f"The target's own R² on its task is {r2_words(target)}.",
        Axis("length of the sequence, T (tokens)", log=True),
        Axis("error of the ticket (rad per step)", log=True),
        series,
        ("width", "length", "sources", "mean", "std", "median", "mean certificate"),
        table,
        _checks(points, worst),
        {**plan.settings, "layout": "paper", "init": "theory", "test sequences": SAMPLES, "positions": POSITIONS},
        ("A certificate is computed from the matrices alone and holds for every length and attention mask.",),
    )


def _checks(points: dict[int, dict[int, Summary]], worst: dict[int, float]) -> list[Check]:
    if not points:
        return []
    growth = {w: by[LENGTHS[-1]].mean / by[LENGTHS[0]].mean for w, by in points.items()}
    slopes = {w: _slope([n for n in by if n >= 64], [by[n].mean for n in by if n >= 64]) for w, by in points.items()}
    steepest = max(slopes.values())
    tops = [max(s.mean for s in by.values()) for by in points.values()]
    return [
        Check(
            "The error does not diverge as T grows.",
            f"From T = {LENGTHS[0]} to {LENGTHS[-1]} the mean error changes by factors of "
            f"{number(min(growth.values()))} to {number(max(growth.values()))}; from T = 64 on the steepest trend is "
            f"T^{steepest:.3f}.",
            "agrees" if steepest < 0.05 else "differs",
            "§4.2, figure 5",
        ),
        Check(
            "It stays below a bound that does not depend on T.",
            f"The worst error of any ticket, sequence and length was {max(worst.values()):.0%} of its certificate.",
            "agrees" if max(worst.values()) <= 1.0 else "differs",
            "Theorem 3",
        ),
        Check(
            "The bound falls with the width.",
            "The largest mean error over all lengths is "
            + ", ".join(f"{number(top)} at width {width}" for width, top in zip(points, tops, strict=True))
            + ".",
            "agrees" if all(a > b for a, b in pairwise(tops)) else "differs",
            "§4.2",
        ),
    ]


def _slope(lengths: list[int], errors: list[float]) -> float:
    return float(np.polyfit(np.log(lengths), np.log(errors), 1)[0])
