"""Items in practice beside the items of a theorem, and which of them were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strongticket.theory.calibrate import Calibration, calibrate_C, fewest_problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

REFERENCE_EPS = 0.01


@dataclass(frozen=True)
class Items:
    """How many items one target weight takes in practice.

    ``measured`` tells whether problems with the wanted error were solved; if not, ``count`` is the formula
    C·log(1/ε) with the C measured at ``calibration.eps``, because the wanted error is too small to sample.
    """

    count: int
    measured: bool
    calibration: Calibration


@dataclass
class Practice:
    """Answers "how many items in practice" for one wanted error after another, solving each problem set once.

    >>> answer = Practice(problems=500).items(math.log(1e9))
    >>> answer.measured, answer.calibration.eps
    (False, 0.01)
    """

    problems: int = 10_000
    progress: Callable[[int], Any] | None = None
    _found: dict[float, Calibration] = field(default_factory=dict)

    def items(self, log_argument: float) -> Items:
        """Items that meet an error of exp(-``log_argument``) except with that probability."""
        eps = math.exp(-log_argument)
        if 0.0 < eps < 1.0 and fewest_problems(eps) <= self.problems:
            found = self._calibrate(eps)
            return Items(found.items, True, found)
        found = self._calibrate(REFERENCE_EPS)
        return Items(math.ceil(found.C * log_argument), False, found)

    def _calibrate(self, eps: float) -> Calibration:
        if eps not in self._found:
            self._found[eps] = calibrate_C(eps=eps, problems=self.problems, progress=self.progress)
        return self._found[eps]
