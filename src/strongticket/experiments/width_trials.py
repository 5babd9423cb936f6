"""Trials of figures 9 and 10: how wide must a source be in practice?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from strongticket.experiments.trial import SeedRange, Trial
from strongticket.source import Source, Uniform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from strongticket.experiments.trial import Result


@dataclass(frozen=True)
class MatrixTrial(SeedRange, Trial):
    """Prune ``count`` random pairs into d × d targets from U[-1, 1], a new target for each source.

    ``tol`` is an entry error that is good enough, so errors below it are no longer told apart.
    """

    kind: ClassVar[str] = "matrix"
    d: int
    items: int
    layout: str
    refine: int
    tol: float
    first: int
    count: int

    def run(self, needs: Mapping[str, Result]) -> Result:
        """The largest error of an entry, a list over the sources."""
        from strongticket import construct

        settings: Any = {"layout": self.layout, "refine": self.refine, "tol": self.tol, "threads": 1}
        found = [
            construct.linear(_uniform(seed, f"matrix/{self.d}", self.d), items=self.items, seed=seed, **settings)
            for seed in self.seeds
        ]
        return {"max_errors": [pair.max_error for pair in found]}


@dataclass(frozen=True)
class PracticeTrial(SeedRange, Trial):
    """Prune ``count`` random attention layers into ones whose merged d × d matrices are from U[-1, 1]."""

    kind: ClassVar[str] = "practice"
    d: int
    width: int
    layout: str
    refine: int
    first: int
    count: int

    def run(self, needs: Mapping[str, Result]) -> Result:
        """The bound that holds for every input with norms up to √d, a list over the sources."""
        from strongticket import construct

        settings: Any = {"layout": self.layout, "refine": self.refine, "threads": 1, "workers": 1}
        certificates = []
        for seed in self.seeds:
            target = construct.AttentionTarget(
                (_uniform(seed, "practice/qk", self.d),), (_uniform(seed, "practice/vo", self.d),)
            )
            found = construct.attention(target, width=self.width, seed=seed, **settings)
            certificates.append(found.certificate(math.sqrt(self.d)).bound)
        return {"certificates": certificates}


@dataclass(frozen=True)
class CalibrationTrial(Trial):
    """Measure how many items one target weight takes for a given error and failure probability ``eps``."""

    kind: ClassVar[str] = "calibration"
    eps: float
    problems: int
    seed: int = 0

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of the problems."""
        return (self.seed,)

    def run(self, needs: Mapping[str, Result]) -> Result:
        """C and the items, with their intervals."""
        from strongticket.theory import calibrate_C

        found = calibrate_C(eps=self.eps, problems=self.problems, seed=self.seed, threads=1)
        names = ("items", "items_lower", "items_upper", "C", "C_lower", "C_upper")
        return {name: getattr(found, name) for name in names}


def _uniform(seed: int, name: str, d: int) -> NDArray[np.float64]:
    return Source(seed=seed, name=f"target/{name}", shape=(d, d), law=Uniform(1.0)).weights().astype(np.float64)
