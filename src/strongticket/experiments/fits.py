"""Exponential decay ε = γ·exp(-δ n), fitted two ways that weigh the points very differently."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Fit:
    """ε = γ·exp(-δ n), and the shares of the variance of log ε (``r2``) and of ε (``r2_linear``) that it explains."""

    gamma: float
    delta: float
    r2: float = float("nan")
    r2_linear: float = float("nan")

    def __call__(self, width: ArrayLike) -> NDArray[np.float64]:
        """The curve at the given widths."""
        return self.gamma * np.exp(-self.delta * np.asarray(width, dtype=np.float64))

    def __str__(self) -> str:
        return f"{self.gamma:.3g}·exp(-{self.delta:.3g} n)"

    def to_dict(self) -> dict[str, Any]:
        """γ, δ and R² as plain values."""
        return asdict(self)


PAPER_FIGURE_4 = Fit(0.8, 0.06)


def fit_log(widths: ArrayLike, errors: ArrayLike) -> Fit:
    """Least squares on log ε: every point counts alike, however small its error.

    >>> str(fit_log([4, 8, 16], 0.5 * np.exp(-0.25 * np.array([4, 8, 16]))))
    '0.5·exp(-0.25 n)'
    """
    n, error = _points(widths, errors)
    slope, intercept = np.polyfit(n, np.log(error), 1)
    return _fit(float(np.exp(intercept)), float(-slope), n, error)


def fit_linear(widths: ArrayLike, errors: ArrayLike) -> Fit:
    """SciPy's ``curve_fit`` on ε itself, as §B.1: the largest errors, at small widths, rule.

    >>> str(fit_linear([4, 8, 16], 0.5 * np.exp(-0.25 * np.array([4, 8, 16]))))
    '0.5·exp(-0.25 n)'
    """
    from scipy.optimize import OptimizeWarning, curve_fit

    n, error = _points(widths, errors)
    start = fit_log(n, error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        (gamma, delta), _ = curve_fit(
            lambda x, g, d: g * np.exp(-d * x), n, error, p0=(start.gamma, start.delta), maxfev=10_000
        )
    return _fit(float(gamma), float(delta), n, error)


def fit_gamma(widths: ArrayLike, errors: ArrayLike, delta: float, *, log: bool) -> Fit:
    """γ for a given δ, by least squares on log ε or on ε.

    >>> str(fit_gamma([4, 8], 0.5 * np.exp(-0.25 * np.array([4, 8])), 0.25, log=False))
    '0.5·exp(-0.25 n)'
    """
    n, error = _points(widths, errors)
    decay = np.exp(-delta * n)
    gamma = np.exp(np.mean(np.log(error / decay))) if log else np.sum(error * decay) / np.sum(decay**2)
    return _fit(float(gamma), delta, n, error)


def _points(widths: ArrayLike, errors: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n, error = np.asarray(widths, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    use = np.isfinite(error) & (error > 0.0)
    if use.sum() < 2:
        raise ValueError(f"a fit needs at least two widths with a positive error, got {int(use.sum())}")
    return n[use], error[use]


def _fit(gamma: float, delta: float, n: NDArray[np.float64], error: NDArray[np.float64]) -> Fit:
    curve = gamma * np.exp(-delta * n)
    positive = np.maximum(curve, np.finfo(np.float64).tiny)
    return Fit(gamma, delta, _explained(np.log(error), np.log(positive)), _explained(error, curve))


def _explained(values: NDArray[np.float64], curve: NDArray[np.float64]) -> float:
    spread = float(np.sum((values - values.mean()) ** 2))
    return 1.0 - float(np.sum((values - curve) ** 2)) / spread if spread > 0.0 else float("nan")
