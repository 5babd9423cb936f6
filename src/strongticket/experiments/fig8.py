"""Figure 8: the loss of tickets in language models against the scale of query and key weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongticket.experiments import language_models as models
from strongticket.experiments.statistics import clearly_less, group, summarise
from strongticket.experiments.view import Axis, Check, Series, View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongticket.experiments.options import Options
    from strongticket.experiments.store import Plan, Row
    from strongticket.experiments.trial import Trial
    from strongticket.experiments.view import Verdict

TITLE = "Loss against query/key scale"
_MARKERS = ("circle", "square", "triangle-up")


def plan(options: Options) -> list[Trial]:
    """Scales 1 … 8; the preset quick takes the two smaller models only."""
    return [
        models.trial(options, size, "search", scale, seed)
        for size in options.choose(models.QUICK[:2], models.PAPER)
        for scale in models.SCALES
        for seed in range(options.count(3, 3))
    ]


def view(plan: Plan, rows: Sequence[Row], target: None = None) -> View:
    """Mean loss per scale and model."""
    keys = ("model", "layers", "width", "heads", "qk_scale")
    losses = group(rows, keys, lambda row: [row.result["loss"]])
    by_model: dict[str, dict[float, list[float]]] = {}
    for key, values in losses.items():
        by_model.setdefault(models.label_of(dict(zip(keys, key, strict=True))), {})[key[-1]] = values
    series, table, found = [], [], []
    for place, (label, by_scale) in enumerate(by_model.items()):
        summaries = {scale: summarise(values) for scale, values in by_scale.items()}
        means, spread = [s.mean for s in summaries.values()], [s.std for s in summaries.values()]
        series.append(Series(label, list(summaries), means, spread, place, _MARKERS[place % 3]))
        table += [(label, scale, s.count, s.mean, s.std, s.median) for scale, s in summaries.items()]
        best = min(summaries, key=lambda scale: summaries[scale].mean)
        found.append((label, best, summaries))
    near = [2.0 <= best <= 4.0 for _, best, _ in found]
    clear = [1.0 not in s or clearly_less(s[best], s[1.0]) for _, best, s in found]
    rises = [clearly_less(s[best], list(s.values())[-1]) for _, best, s in found]
    words = "; ".join(
        f"{label}: least at {best:g} ({s[best].mean:.3f} ± {s[best].std:.3f}; "
        + ", ".join(f"{s[scale].mean:.3f} at {scale:g}" for scale in (1.0, models.THEORY_SCALE, 8.0) if scale in s)
        + ")"
        for label, best, s in found
    )
    return View(
        "fig8",
        TITLE,
        "Query and key weights of the random model are multiplied by a scale before the search. The theory's scale is "
        f"n_K^¼ = {models.HEAD}^¼ ≈ {models.THEORY_SCALE:.2f}. Loss: cross-entropy per token on held-out text.",
        Axis("query/key scale (factor)", log=True),
        Axis("held-out loss (nats per token)"),
        series,
        ("model", "scale", "seeds", "mean loss", "std", "median"),
        table,
        [
            Check(
                f"The loss is least around n_K^¼ ≈ {models.THEORY_SCALE:.1f}.",
                f"In {sum(near)} of {len(near)} models the least mean loss is at a scale from 2 to 4, in {sum(clear)} "
                f"it is below that of scale 1 by more than the standard deviations ({words}).",
                _word(near, clear),
                "§4.3, figure 8",
            ),
            Check(
                "Beyond it the loss rises.",
                f"At the largest scale the mean is above the least by more than the standard deviations in "
                f"{sum(rises)} of {len(rises)} models.",
                "agrees" if sum(rises) > len(rises) / 2 else "differs",
                "§4.3, figure 8",
            ),
        ],
        {**plan.settings, "corpus": rows[0].config["corpus"], "recipe": rows[0].config["recipe"]},
    )


def _word(near: list[bool], clear: list[bool]) -> Verdict:
    """Noise decides nothing: a best scale that is not clearly better than 1 is no evidence."""
    if sum(clear) <= len(clear) / 2:
        return "open"
    return "agrees" if sum(a and b for a, b in zip(near, clear, strict=True)) > len(near) / 2 else "differs"
