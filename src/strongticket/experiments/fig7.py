"""Figure 7: the loss of tickets in language models with and without query/key scaling, against their size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongticket.experiments import language_models as models
from strongticket.experiments.statistics import clearly_less, group, number, summarise
from strongticket.experiments.view import Axis, Check, Series, View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongticket.experiments.options import Options
    from strongticket.experiments.store import Plan, Row
    from strongticket.experiments.trial import Trial

TITLE = "Loss with and without query/key scaling"
_DENSE, _PLAIN, _SCALED = ("dense", 1.0), ("search", 1.0), ("search", models.THEORY_SCALE)
_KINDS = {
    _PLAIN: ("ticket, scale 1", 0, "circle", "solid"),
    _SCALED: (f"ticket, query/key scale {models.HEAD}^¼ ≈ {models.THEORY_SCALE:.2f}", 1, "square", "solid"),
    _DENSE: ("dense training", 4, "diamond-open", "dashed"),
}


def plan(options: Options) -> list[Trial]:
    """Every model size plain, scaled and dense."""
    return [
        models.trial(options, size, *kind, seed)
        for size in models.sizes(options)
        for kind in _KINDS
        for seed in range(options.count(3, 3))
    ]


def view(plan: Plan, rows: Sequence[Row], target: None = None) -> View:
    """Mean loss against non-zero parameters."""
    keys = ("mode", "qk_scale", "model", "layers", "width", "heads")
    losses = group(rows, keys, lambda row: [row.result["loss"]])
    counts = group(rows, keys, lambda row: [row.result["nonzero"]])
    series, table = [], []
    for kind, (label, color, marker, dash) in _KINDS.items():
        points = sorted((counts[key][0], summarise(values), key) for key, values in losses.items() if key[:2] == kind)
        if not points:
            continue
        x, y = [p[0] / 1e6 for p in points], [p[1].mean for p in points]
        series.append(Series(label, x, y, [p[1].std for p in points], color, marker, dash))  # type: ignore[arg-type]
        table += [(*key, s.count, int(count), s.mean, s.std, s.median) for count, s, key in points]
    gains = [
        (models.label_of(dict(zip(keys, key, strict=True))), summarise(values), summarise(losses[(*_SCALED, *key[2:])]))
        for key, values in losses.items()
        if key[:2] == _PLAIN and (*_SCALED, *key[2:]) in losses
    ]
    checks = []
    if gains:
        better = sum(scaled.mean < plain.mean for _, plain, scaled in gains)
        clear = sum(clearly_less(scaled, plain) for _, plain, scaled in gains)
        worse = sum(clearly_less(plain, scaled) for _, plain, scaled in gains)
        measured = "; ".join(
            f"{name}: {plain.mean:.3f} ± {plain.std:.3f} plain, {scaled.mean:.3f} ± {scaled.std:.3f} scaled"
            for name, plain, scaled in gains
        )
        checks.append(
            Check(
                "Tickets with query and key weights scaled by n_K^¼ tend to have a lower loss.",
                f"The mean loss is lower in {better} of {len(gains)} models, in {clear} by more than the standard "
                f"deviations ({measured}, in nats).",
                "agrees" if clear > len(gains) / 2 else "differs" if worse > len(gains) / 2 else "open",
                "§4.3, figure 7",
            )
        )
        closest = _gap(losses)
        if closest:
            checks.append(
                Check(
                    "They approach the loss of trained models.",
                    "The loss of scaled tickets less that of dense training of the same model and as many steps is "
                    f"{', '.join(number(gap) for gap in closest)} nats.",
                    "open",
                    "§4.3, figure 7",
                )
            )
    return View(
        "fig7",
        TITLE,
        f"GPT-2 models of several sizes; tickets keep {models.DENSITY:.0%} of random weights that never change. Loss: "
        "cross-entropy per token on held-out text.",
        Axis("non-zero parameters (millions)", log=True),
        Axis("held-out loss (nats per token)"),
        series,
        (*keys, "seeds", "non-zero parameters", "mean loss", "std", "median"),
        table,
        checks,
        {**plan.settings, **_common(rows)},
    )


def _gap(losses: dict[tuple[object, ...], list[float]]) -> list[float]:
    return [
        summarise(values).mean - summarise(losses[(*_DENSE, *key[2:])]).mean
        for key, values in losses.items()
        if key[:2] == _SCALED and (*_DENSE, *key[2:]) in losses
    ]


def _common(rows: Sequence[Row]) -> dict[str, object]:
    return {key: rows[0].config[key] for key in ("corpus", "recipe", "density")} | {
        "recipe's preset": rows[0].config["preset"]
    }
