"""Figure 6: the error of tickets within a random transformer against its width, for 1 … 6 blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from strongticket.experiments.attention_trials import chunks
from strongticket.experiments.fits import fit_gamma, fit_linear, fit_log
from strongticket.experiments.statistics import group, number, summarise
from strongticket.experiments.transformer_trials import TransformerTrial
from strongticket.experiments.view import Axis, Check, Series, View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongticket.experiments.fits import Fit
    from strongticket.experiments.options import Options
    from strongticket.experiments.statistics import Summary
    from strongticket.experiments.store import Plan, Row
    from strongticket.experiments.trial import Trial
    from strongticket.experiments.view import Verdict

TITLE = "Error against width and number of blocks"
BLOCKS, LENGTH, SAMPLES, CHUNK, TOL = 6, 4, 64, 10, 1e-8
_MARKERS = ("circle", "square", "triangle-up", "diamond", "cross", "x")


def plan(options: Options) -> list[Trial]:
    """Widths n_MHA = n_FC from 8 to 96 in the paper's layout; every ten sources have a target of their own."""
    return [
        TransformerTrial(options.target_seed + place, BLOCKS, width, "paper", 0, TOL, LENGTH, SAMPLES, *part)
        for width in range(8, 97, 8)
        for place, part in enumerate(chunks(options.count(30, 100), CHUNK))
    ]


def view(plan: Plan, rows: Sequence[Row], target: None = None) -> View:
    """Mean error per number of blocks with one decay rate, that of one block, and a factor each."""
    points: dict[int, dict[int, Summary]] = {}
    certified: dict[int, dict[int, float]] = {}
    for block in range(BLOCKS):
        errors = group(rows, ("width",), lambda row, b=block: row.result["errors"][b])  # type: ignore[misc]
        bounds = group(rows, ("width",), lambda row, b=block: row.result["certificates"][b])  # type: ignore[misc]
        points[block + 1] = {width: summarise(values) for (width,), values in errors.items()}
        certified[block + 1] = {
            width: float(np.median([np.inf if bound is None else bound for bound in values]))
            for (width,), values in bounds.items()
        }
    series, table = [], []
    fits: dict[int, Fits] = {}
    for block, by_width in points.items():
        widths, means = list(by_width), [s.mean for s in by_width.values()]
        if len(widths) < 3:
            continue
        fits[block] = Fits.of(widths, means, fits.get(1))
        color, marker = block - 1, _MARKERS[block - 1]
        label = f"B = {block}"
        series.append(Series(f"{label}: mean error", widths, means, [s.std for s in by_width.values()], color, marker))
        fit = fits[block].shared_log
        hollow = f"{marker}-open"
        series.append(Series(f"{label}: {fit}", widths, fit(widths).tolist(), None, color, hollow, "dashed"))
        useful = {w: bound for w, bound in certified[block].items() if np.isfinite(bound)}
        if useful:
            bounds_here = list(useful.values())
            series.append(
                Series(f"{label}: median certificate", list(useful), bounds_here, None, color, hollow, "dotted")
            )
        table += [
            (block, w, s.count, s.mean, s.std, s.median, certified[block][w], fit.gamma, fit.delta)
            for w, s in by_width.items()
        ]
    return View(
        "fig6",
        TITLE,
        "Untrained transformers (d = 2, one head of query/key size 8, one fully-connected layer per block, no "
        "normalisation) inside wider random ones, paper's layout. Error: the largest over positions of the output of "
        f"the last block, averaged over {SAMPLES} sequences of length {LENGTH}. Every {CHUNK} "
        "sources have a target of their own.",
        Axis("width of the random source, n_MHA = n_FC (hidden units)"),
        Axis("error of the ticket (output units)", log=True),
        series,
        ("blocks", "width", "sources", "mean", "std", "median", "median certificate", "γ", "δ"),
        table,
        [*_checks(fits, points), *_certified(rows)],
        {**plan.settings, "layout": "paper", "init": "theory", "length": LENGTH, "test sequences": SAMPLES},
        (
            "The certificate is drawn where at least half of the tickets have one below the norm of the target's "
            "output; it multiplies worst cases block by block and says nothing for deep or narrow sources.",
            "A median certificate can lie below the mean error, which a few sources rule.",
        ),
    )


@dataclass(frozen=True)
class Fits:
    """Curves through the mean errors of one number of blocks: δ of their own, and δ of one block."""

    own_log: Fit
    own_linear: Fit
    shared_log: Fit
    shared_linear: Fit

    @classmethod
    def of(cls, widths: Sequence[int], means: Sequence[float], first: Fits | None) -> Fits:
        """Fit in log space and, as the paper, in linear space."""
        log, linear = fit_log(widths, means), fit_linear(widths, means)
        shared = (log, linear) if first is None else (first.own_log, first.own_linear)
        return cls(
            log,
            linear,
            fit_gamma(widths, means, shared[0].delta, log=True),
            fit_gamma(widths, means, shared[1].delta, log=False),
        )


def _checks(fits: dict[int, Fits], points: dict[int, dict[int, Summary]]) -> list[Check]:
    if not fits:
        return []
    own = [fit.own_log for fit in fits.values()]
    linear, log = [fit.shared_linear for fit in fits.values()], [fit.shared_log for fit in fits.values()]
    narrow, wide = min(points[1]), max(points[1])
    rising = {w: all(points[b][w].mean < points[b + 1][w].mean for b in range(1, BLOCKS)) for w in points[1]}
    first, second = _halves(points)
    return [
        Check(
            "For every number of blocks the error is O(exp(-δ n)).",
            f"Fits of their own in log space have R² from {min(f.r2 for f in own):.2f}; δ is "
            f"{', '.join(f'{d:.3f}' for d in first)} over the narrower half of the widths and "
            f"{', '.join(f'{d:.3f}' for d in second)} over the wider half, for 1 … {len(own)} blocks. A fall that gets "
            "steeper is within O(exp(-δ n)).",
            _word(min(first) > 0 and all(b >= 0.8 * a for a, b in zip(first, second, strict=True))),
            "§4.2, Theorem 6",
        ),
        Check(
            "One δ, that of the first block, fits all; only γ differs.",
            f"In linear space, as in the paper, δ = {linear[0].delta:.3f} explains from "
            f"{min(f.r2_linear for f in linear):.0%} of the variance of the mean error, with "
            f"γ = {', '.join(number(f.gamma) for f in linear)}.",
            _word(min(f.r2_linear for f in linear) >= 0.9),
            "§4.2, figure 6",
        ),
        Check(
            "The same in log space, where small errors count as much as large ones.",
            f"δ = {log[0].delta:.3f} explains from {min(f.r2 for f in log):.0%} of the variance of the log "
            f"error; δ of their own are {', '.join(f'{f.delta:.3f}' for f in own)}.",
            _word(min(f.r2 for f in log) >= 0.9),
            "Theorem 6",
        ),
        Check(
            "The error accumulates with the number of blocks.",
            f"It rises with every block at {sum(rising.values())} of {len(rising)} widths; from one block to {BLOCKS} "
            f"it goes from {number(points[1][narrow].mean)} to {number(points[BLOCKS][narrow].mean)} at width {narrow} "
            "and from "
            f"{number(points[1][wide].mean)} to {number(points[BLOCKS][wide].mean)} at width {wide}.",
            _word(sum(rising.values()) > len(rising) / 2),
            "§4.2, figure 6",
        ),
    ]


def _certified(rows: Sequence[Row]) -> list[Check]:
    shares = [
        error / bound
        for row in rows
        for errors, bounds in zip(row.result["errors"], row.result["certificates"], strict=True)
        for error, bound in zip(errors, bounds, strict=True)
        if bound is not None
    ]
    if not shares:
        return []
    total = sum(len(errors) for row in rows for errors in row.result["errors"])
    return [
        Check(
            "Not in the paper: a certificate for each ticket and number of blocks.",
            f"{len(shares)} of {total} say something; the largest error was {max(shares):.0%} of its certificate.",
            "beyond the paper",
            "Theorem 6",
        )
    ]


def _halves(points: dict[int, dict[int, Summary]]) -> tuple[list[float], list[float]]:
    """δ in log space over the narrower and over the wider half of the widths, per number of blocks."""
    found: tuple[list[float], list[float]] = ([], [])
    for by_width in points.values():
        widths = sorted(by_width)
        middle = len(widths) // 2
        for place, part in enumerate((widths[: middle + 1], widths[middle:])):
            found[place].append(fit_log(part, [by_width[w].mean for w in part]).delta)
    return found


def _word(holds: bool) -> Verdict:
    return "agrees" if holds else "differs"
