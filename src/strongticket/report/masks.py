"""The masks of a ticket as pictures, one per head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.experiments.attention_trials import AttentionTrial, TargetTrial, target_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from strongticket.construct import ConstructedAttention
    from strongticket.experiments.store import Store

_LARGEST = 256
_WIDEST = 32


@dataclass(frozen=True)
class Masks:
    """The pruned matrices of one head, NaN where a weight is cut; ``shown`` says what the numbers are."""

    label: str
    matrices: Sequence[tuple[str, NDArray[np.float64]]]
    unit: str = "hidden unit"
    shown: str = "weight"


@dataclass(frozen=True)
class BestTicket:
    """The ticket with the least error of figure 4, built anew from its seed."""

    found: ConstructedAttention
    error: float
    width: int
    seed: int

    def __str__(self) -> str:
        return f"width {self.width}, seed {self.seed}, mean error {self.error:.2g}, density {self.found.density:.2f}"


def best_ticket(store: Store, widest: int = _WIDEST) -> BestTicket | None:
    """The ticket of figure 4 with the least error among assigned layouts up to width ``widest``, or None."""
    rows = {row.id: row for plan in store.plans() if plan.figure == "fig4" for row in store.rows(plan.trials)}
    candidates = [
        (error, row.id, place)
        for row in rows.values()
        if row.experiment == "attention" and row.config["layout"] == "assigned" and row.config["width"] <= widest
        for place, error in enumerate(row.result["errors"]["4"])
    ]
    if not candidates:
        return None
    error, key, place = min(candidates)
    config = dict(rows[key].config)
    target = TargetTrial(**_fields(config.pop("target")))
    trial = AttentionTrial(target, **_fields({**config, "lengths": tuple(config["lengths"])}))
    seed = trial.seeds[place]
    return BestTicket(trial.construct(target_of(rows[target.id].result).attention, seed), error, trial.width, seed)


def masks_of(found: ConstructedAttention) -> list[Masks]:
    """Query, key, value and output of every head, hidden units along the horizontal axis."""
    return [
        head_masks(f"head {head}", [("query", qk, 1), ("key", qk, 0), ("value", vo, 0), ("output", vo, 1)])
        for head, (qk, vo) in enumerate(zip(found.qk, found.vo, strict=True))
    ]


def head_masks(label: str, parts: Sequence[tuple[str, Any, int]]) -> Masks:
    """Pictures of sources of pairs; matrices beyond 256 × 256 are shown as shares of kept weights."""
    if any(max(pair.masks[which].shape) > _LARGEST for _, pair, which in parts):
        shares = [(name, _shares(_upright(pair.masks[which], which))) for name, pair, which in parts]
        return Masks(label, shares, "hidden unit, in groups", "share kept")
    matrices = []
    for name, pair, which in parts:
        weights = np.where(pair.masks[which], pair.sources[which].weights(), np.nan).astype(np.float64)
        matrices.append((name, _upright(weights, which)))
    return Masks(label, matrices)


def _upright(matrix: NDArray[Any], which: int) -> NDArray[Any]:
    return matrix.T if which == 0 else matrix


def _shares(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    rows, columns = (-(-size // _LARGEST) for size in mask.shape)
    padded = np.full([-(-s // b) * b for s, b in zip(mask.shape, (rows, columns), strict=True)], np.nan)
    padded[: mask.shape[0], : mask.shape[1]] = mask
    return np.nanmean(padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns), axis=(1, 3))


def _fields(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "kind"}
