"""Upper bounds of matrix norms that hold for the exact norm, rounding included."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

UNIT = 2.0**-53
SVD_LIMIT = 1024
SQUARINGS = 7


def spectral_norm_bound(matrix: ArrayLike) -> float:
    """A number that is never below ‖A‖₂, and above it only by rounding up to 1024 rows or columns.

    Up to that size: from a computed SVD, ‖A‖ ≤ ‖U‖·max(Σ)·‖V‖ + ‖A - UΣVᵀ‖_F, with ‖U‖² ≤ 1 + ‖UᵀU - I‖_F.
    Whatever the SVD returned, the inequality holds; every product in it is widened by its rounding error, at
    most k·u/(1 - k·u)·‖X‖_F·‖Y‖_F for inner dimension k. Beyond that size: ‖A‖^(2k) ≤ ‖(AᵀA)^k‖_F with k = 64
    by squaring, widened alike, which is at most n^(1/256) too large for an n x n matrix (3 % at 2048).

    >>> import numpy as np
    >>> bound = spectral_norm_bound(np.diag([3.0, -4.0]))
    >>> 4.0 <= bound <= 4.0 + 1e-12
    True
    """
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"a norm needs a matrix of two dimensions, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"the matrix of shape {array.shape} holds NaN or infinity")
    largest = float(np.abs(array).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    exponent = math.frexp(largest)[1]
    scaled = np.ldexp(array, -exponent)
    bound = _verified_svd(scaled) if min(array.shape) <= SVD_LIMIT else _by_squaring(scaled)
    bound = min(bound, frobenius_bound(scaled), _sum_bound(scaled)) * (1 + 64 * UNIT)
    try:
        return math.nextafter(math.ldexp(bound, exponent), math.inf)
    except OverflowError:
        return math.inf


def difference_norm_bound(left: ArrayLike, right: ArrayLike) -> float:
    """A number that is never below ‖A - B‖₂, the rounding of the subtraction included.

    >>> difference_norm_bound([[1.0, 0.0]], [[1.0, 0.0]])
    0.0
    """
    difference = np.subtract(np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64))
    return spectral_norm_bound(difference) * (1 + 4 * UNIT * math.sqrt(max(1, min(difference.shape))))


def frobenius_bound(matrix: NDArray[np.float64]) -> float:
    """A number that is never below ‖A‖_F (for entries whose squares neither overflow nor vanish)."""
    return float(np.linalg.norm(matrix)) * (1 + (matrix.size + 4) * UNIT)


def _sum_bound(matrix: NDArray[np.float64]) -> float:
    """√(‖A‖₁·‖A‖_∞) ≥ ‖A‖₂."""
    absolute = np.abs(matrix)
    product = float(absolute.sum(axis=0).max()) * float(absolute.sum(axis=1).max())
    return math.sqrt(product) * (1 + (sum(matrix.shape) + 4) * UNIT)


def _rounding(inner: int, left: float, right: float) -> float:
    """The Frobenius norm of the error of a computed product, whatever the order of its sums."""
    gamma = inner * UNIT / (1 - inner * UNIT)
    return gamma * left * right


def _orthogonal_norm(columns: NDArray[np.float64]) -> float:
    """A bound of ‖U‖₂ for a U whose columns are nearly orthonormal."""
    defect = columns.T @ columns
    defect[np.diag_indices_from(defect)] -= 1.0
    size = frobenius_bound(columns)
    rounding = _rounding(columns.shape[0] + 1, size, size)
    return math.sqrt(1 + frobenius_bound(defect) + rounding) * (1 + 8 * UNIT)


def _verified_svd(matrix: NDArray[np.float64]) -> float:
    u, sigma, vt = np.linalg.svd(matrix, full_matrices=False)
    v = vt.T
    scaled = u * sigma
    rest = frobenius_bound(matrix - scaled @ vt)
    rest += _rounding(len(sigma) + 2, frobenius_bound(scaled), frobenius_bound(v))
    rest += 2 * UNIT * frobenius_bound(matrix)
    return _orthogonal_norm(u) * float(sigma.max()) * _orthogonal_norm(v) + rest * (1 + 8 * UNIT)


def _by_squaring(matrix: NDArray[np.float64]) -> float:
    power = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    steps = []
    for _ in range(SQUARINGS):
        size = frobenius_bound(power)
        squared = power.T @ power
        exponent = math.frexp(float(np.abs(squared).max()))[1]
        steps.append((exponent, _rounding(power.shape[0], size, size)))
        power = np.ldexp(squared, -exponent)
    bound = min(frobenius_bound(power), _sum_bound(power))
    for exponent, rounding in reversed(steps):
        bound = math.sqrt(math.ldexp(bound, exponent) + rounding) * (1 + 8 * UNIT)
    return bound
