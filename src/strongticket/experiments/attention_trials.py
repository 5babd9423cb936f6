"""Trials on the angular-velocity task: train the target, find it inside random attention layers, measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from strongticket.experiments.trial import SeedRange, Trial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from strongticket.construct import AttentionTarget, ConstructedAttention
    from strongticket.experiments.angular import AngularTarget
    from strongticket.experiments.store import Row
    from strongticket.experiments.trial import Result


@dataclass(frozen=True)
class TargetTrial(Trial):
    """Train the single-head attention 2 → 1 of §B.1; the result holds its merged matrices, token and R²."""

    kind: ClassVar[str] = "target"
    seed: int = 0
    token: str = "learned"
    epochs: int = 25

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of its weights and data."""
        return (self.seed,)

    def run(self, needs: Mapping[str, Result]) -> Result:
        """Train."""
        from strongticket.experiments.angular import train_target

        found = train_target(self.seed, token=self.token, epochs=self.epochs)  # type: ignore[arg-type]
        return {
            "qk": found.attention.qk[0].tolist(),
            "vo": found.attention.vo[0].tolist(),
            "token": found.token.tolist(),
            "r2": {str(length): value for length, value in found.r2.items()},
        }


@dataclass(frozen=True)
class AttentionTrial(SeedRange, Trial):
    """Prune ``count`` random attention layers of one width into the target and measure them on test sequences.

    Errors are looked at in up to ``positions`` positions of a sequence, the token first. ``refine`` is the
    number of rounds of the swap search.
    """

    kind: ClassVar[str] = "attention"
    target: TargetTrial
    width: int
    layout: str
    init: str
    refine: int
    lengths: tuple[int, ...]
    samples: int
    positions: int
    first: int
    count: int

    def construct(self, target: AttentionTarget, seed: int) -> ConstructedAttention:
        """The ticket from the source with this seed."""
        from strongticket import construct

        settings: Any = {"layout": self.layout, "init": self.init, "refine": self.refine}
        return construct.attention(target, width=self.width, seed=seed, threads=1, workers=1, **settings)

    def run(self, needs: Mapping[str, Result]) -> Result:
        """Lists over the sources; errors by length.

        ``errors``: the largest over positions, averaged over sequences; ``worst``: the largest over both;
        ``token_errors``: at the token, averaged over sequences.
        """
        target = target_of(needs[self.target.id])
        inputs = {length: target.inputs(length, self.samples) for length in self.lengths}
        wanted = {n: attend(target.attention.qk, target.attention.vo, x, self.positions) for n, x in inputs.items()}
        measures: dict[str, dict[str, list[float]]] = {
            name: {str(length): [] for length in self.lengths} for name in ("errors", "worst", "token_errors")
        }
        certificates, densities = [], []
        for seed in self.seeds:
            found = self.construct(target.attention, seed)
            qk, vo = [pair.product() for pair in found.qk], [pair.product().T for pair in found.vo]
            for length, x in inputs.items():
                distance = (attend(qk, vo, x, self.positions) - wanted[length]).norm(dim=-1)
                largest = distance.amax(dim=-1)
                measures["errors"][str(length)].append(float(largest.mean()))
                measures["worst"][str(length)].append(float(largest.max()))
                measures["token_errors"][str(length)].append(float(distance[:, 0].mean()))
            certificates.append(found.certificate(target.alpha).bound)
            densities.append(found.density)
        return {**measures, "certificates": certificates, "densities": densities, "alpha": target.alpha}


def target_of(result: Result) -> AngularTarget:
    """The target that a ``TargetTrial`` has stored."""
    from strongticket.construct import AttentionTarget
    from strongticket.experiments.angular import AngularTarget

    attention = AttentionTarget((np.array(result["qk"]),), (np.array(result["vo"]),))
    return AngularTarget(attention, np.array(result["token"]), {int(k): v for k, v in result["r2"].items()})


def r2_words(target: Row) -> str:
    """The target's R² by length, for a sentence."""
    found = sorted((int(length), value) for length, value in target.result["r2"].items())
    return ", ".join(f"{value:.3f} (T = {length})" for length, value in found)


def attend(qk: Sequence[Any], vo: Sequence[Any], x: Tensor, positions: int) -> Tensor:
    """Σ_j softmax(x W_QK⁽ʲ⁾ xᵀ) x W_VO⁽ʲ⁾ at evenly spaced positions, the first among them; float64."""
    import torch

    places = torch.linspace(0, x.shape[1] - 1, min(positions, x.shape[1])).round().long()
    queries, keys = x[:, places], x.transpose(1, 2)
    heads = [
        (((queries @ torch.from_numpy(a)) @ keys).softmax(dim=-1) @ x) @ torch.from_numpy(np.ascontiguousarray(b))
        for a, b in zip(qk, vo, strict=True)
    ]
    return torch.stack(heads).sum(dim=0)


def chunks(sources: int, size: int) -> list[tuple[int, int]]:
    """(first, count) of groups of sources that share a trial.

    >>> chunks(50, 20)
    [(0, 20), (20, 20), (40, 10)]
    """
    return [(first, min(size, sources - first)) for first in range(0, sources, size)]
