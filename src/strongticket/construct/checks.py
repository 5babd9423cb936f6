"""Targets and ranges are checked before anything is drawn or solved."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def checked_matrix(matrix: ArrayLike | Any, what: str) -> NDArray[np.float64]:
    """``matrix`` as a finite float64 array of two dimensions; torch tensors are taken off the graph."""
    if hasattr(matrix, "detach"):
        matrix = matrix.detach().cpu().double().numpy()
    array = np.array(matrix, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{what} must be a matrix with at least one row and column, got shape {array.shape}")
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        raise ValueError(
            f"{what} must be finite, got {int(bad.sum())} NaN or infinite entries, "
            f"the first at [{row}, {column}] = {array[row, column]}"
        )
    return array


def checked_range(value: float | str) -> float | None:
    """r for source weights U[-r, r], or None for "auto"."""
    if value == "auto":
        return None
    if isinstance(value, str) or not (math.isfinite(value) and value > 0):
        raise ValueError(f'range must be a positive number r for weights from U[-r, r], or "auto", got {value!r}')
    return float(value)
