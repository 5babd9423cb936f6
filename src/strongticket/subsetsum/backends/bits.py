"""Subsets as bits become masks and residuals, the same way for every backend outside numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def to_bits(kept: Any) -> int:
    """The subset as bits from a solver's 0/1 values, rounded."""
    return sum(1 << int(k) for k in np.flatnonzero(np.asarray(kept) > 0.5))


def write_bits(
    subsets: NDArray[np.int64],
    items: NDArray[np.float64],
    targets: NDArray[np.float64],
    masks: NDArray[np.bool_],
    residuals: NDArray[np.float64],
) -> None:
    """Bit k of ``subsets[p]`` keeps item k; residuals are added up in the order of the items."""
    masks[:] = (subsets[:, None] >> np.arange(items.shape[1])) & 1
    kept = np.zeros(len(items))
    for k in range(items.shape[1]):
        kept += items[:, k] * masks[:, k]
    residuals[:] = targets - kept


def solve_each(
    solve_one: Callable[[NDArray[np.float64], float], int],
    items: NDArray[np.float64],
    targets: NDArray[np.float64],
    masks: NDArray[np.bool_],
    residuals: NDArray[np.float64],
) -> None:
    """Solve the problems of a block one after the other; the residuals come from the masks alone."""
    subsets = [solve_one(row, float(target)) for row, target in zip(items, targets, strict=True)]
    write_bits(np.array(subsets, dtype=np.int64), items, targets, masks, residuals)
