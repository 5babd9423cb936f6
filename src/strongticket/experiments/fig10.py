"""Figure 10, beyond the paper: widths by Theorem 3 against widths that suffice in practice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from strongticket.experiments.attention_trials import chunks
from strongticket.experiments.statistics import group, lasting
from strongticket.experiments.view import Axis, Check, Series, View
from strongticket.experiments.width_trials import CalibrationTrial, PracticeTrial
from strongticket.theory import attention_widths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongticket.experiments.options import Options
    from strongticket.experiments.store import Plan, Row
    from strongticket.experiments.trial import Trial

TITLE = "Theory against practice"
WANTED, D, CHUNK, ROUNDS = (0.5, 0.3, 0.2, 0.1, 0.05), 2, 20, 50
_LAYOUTS = {
    "paper": ("measured, paper's layout", 0, "circle", range(4, 57, 4)),
    "assigned": ("measured, assigned and swapped", 1, "square", range(4, 33, 4)),
}


def plan(options: Options) -> list[Trial]:
    """Certificates of random layers per width, and C measured at the error per entry that the theorem asks for."""
    practice = [
        PracticeTrial(D, width, layout, ROUNDS if layout == "assigned" else 0, *part)
        for layout, (_, _, _, grid) in _LAYOUTS.items()
        for width in grid
        for part in chunks(options.count(60, 400), CHUNK)
    ]
    problems = options.choose(10_000, 100_000)
    return [*practice, *(CalibrationTrial(_eps_per_entry(eps), problems) for eps in WANTED)]


def view(plan: Plan, rows: Sequence[Row], target: None = None) -> View:
    """n_K by Theorem 3 with C = 1 and with the measured C, and the widths at which a share 1 - ε is certified."""
    bounds = group(
        [row for row in rows if row.experiment == "practice"],
        ("layout", "width"),
        lambda row: row.result["certificates"],
    )
    constants = {row.config["eps"]: row.result for row in rows if row.experiment == "calibration"}
    lines: dict[str, dict[float, float]] = {"C = 1": {}, "calibrated": {}}
    table = []
    for eps in WANTED:
        widths = attention_widths(d1=D, heads=1, eps=eps)
        lines["C = 1"][eps] = widths.exact["n_K"]
        measured = constants.get(_eps_per_entry(eps))
        if measured is not None:
            lines["calibrated"][eps] = D * measured["items"]
        for layout in _LAYOUTS:
            enough = {
                width: bool(np.mean(np.array(values) <= eps) >= 1.0 - eps)
                for (kind, width), values in bounds.items()
                if kind == layout
            }
            width = lasting(enough)
            if width is not None:
                lines.setdefault(layout, {})[eps] = width
        found = [lines.get(layout, {}).get(eps) for layout in _LAYOUTS]
        table.append(
            (eps, widths.n_K, None if measured is None else measured["C"], lines["calibrated"].get(eps), *found)
        )
    labels = {
        "C = 1": ("Theorem 3 with C = 1", 3, None, "dotted"),
        "calibrated": ("Theorem 3 with the measured C", 2, "diamond-open", "dashed"),
        **{layout: (label, color, marker, "solid") for layout, (label, color, marker, _) in _LAYOUTS.items()},
    }
    series = [
        Series(labels[key][0], list(line), list(line.values()), None, labels[key][1], labels[key][2], labels[key][3])  # type: ignore[arg-type]
        for key, line in lines.items()
        if line
    ]
    return View(
        "fig10",
        TITLE,
        "Attention with one head and merged 2 × 2 matrices from U[-1, 1]. Measured: the width of the grid from which "
        "on a share of at least 1 - ε of random sources has a certificate of at most ε for all inputs ‖x‖ ≤ √2.",
        Axis("wanted error, and probability of failure, ε", log=True),
        Axis("width, n_K = n_V (hidden units)"),
        series,
        ("ε", "n_K, C = 1", "measured C", "n_K, measured C", "measured, paper's layout", "measured, assigned"),
        table,
        _checks(lines),
        {**plan.settings, "d": D, "alpha": f"√{D}", "swap rounds": ROUNDS},
        ("C is measured by exact subset sums: the items one weight takes, over log(1/ε per entry).",),
    )


def _checks(lines: dict[str, dict[float, float]]) -> list[Check]:
    paper, calibrated = lines.get("paper", {}), lines["calibrated"]
    shared = [eps for eps in WANTED if eps in paper and eps in calibrated]
    if not shared:
        return []
    checks = [
        Check(
            "Sources of the widths of Theorem 3 contain tickets with probability at least 1 - ε.",
            "With the measured C the widths are "
            + ", ".join(f"{calibrated[eps]:g} (ε = {eps:g})" for eps in shared)
            + "; in practice "
            + ", ".join(f"{paper[eps]:g}" for eps in shared)
            + " suffice in the paper's layout.",
            "agrees" if all(paper[eps] <= calibrated[eps] for eps in shared) else "differs",
            "Theorem 3",
        )
    ]
    assigned = lines.get("assigned", {})
    both = [eps for eps in shared if eps in assigned]
    if both:
        checks.append(
            Check(
                "Not in the paper: assigned and swapped units.",
                ", ".join(f"{assigned[eps]:g} (ε = {eps:g})" for eps in both) + " units suffice.",
                "beyond the paper",
                "Lemma 4",
            )
        )
    return checks


def _eps_per_entry(eps: float) -> float:
    return float(f"{math.exp(-attention_widths(d1=D, heads=1, eps=eps).log_argument['n_K']):.6g}")
