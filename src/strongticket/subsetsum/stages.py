"""``tol`` > 0: try few items first and hand on only the problems that are still unsolved.

Up to 40 items: the first 8, 12, 16, … items, all of them last, each stage solved exactly.

More than 40 items: the first 40 as above. For what remains unsolved, one window of 40 items after the other
is solved exactly (in the same stages) for what the items outside the window leave over when they are taken
greedily: from the largest |item| down, an item is kept if it brings the sum closer to the target. The best
subset met is returned; |residual| > tol then does not prove that there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    SolveBlock = Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[Any], NDArray[Any]], None]

_FIRST, _STEP, _WINDOW = 8, 4, 40


def solve_in_stages(
    solve_block: SolveBlock,
    items: NDArray[np.float64],
    targets: NDArray[np.float64],
    tol: float,
    masks: NDArray[np.bool_],
    residuals: NDArray[np.float64],
) -> None:
    """Fill ``masks`` and ``residuals`` with subsets of |residual| ≤ ``tol`` where the stages find one."""
    count = items.shape[1]
    _grow(solve_block, items[:, :_WINDOW], targets, tol, masks[:, :_WINDOW], residuals)
    masks[:, _WINDOW:] = False
    for start in range(0, count if count > _WINDOW else 0, _WINDOW):
        open_ = np.flatnonzero(np.abs(residuals) > tol)
        if not open_.size:
            return
        start = min(start, count - _WINDOW)
        window = np.arange(start, start + _WINDOW)
        outside = np.delete(np.arange(count), window)
        kept, rest = _greedy(items[np.ix_(open_, outside)], targets[open_])
        inside = np.empty((open_.size, _WINDOW), dtype=np.bool_)
        found = np.empty(open_.size)
        _grow(solve_block, items[np.ix_(open_, window)], rest, tol, inside, found)
        better = np.abs(found) < np.abs(residuals[open_])
        rows = open_[better]
        masks[np.ix_(rows, outside)], masks[np.ix_(rows, window)] = kept[better], inside[better]
        residuals[rows] = targets[rows] - np.where(masks[rows], items[rows], 0.0).sum(axis=1)


def _grow(
    solve_block: SolveBlock,
    items: NDArray[np.float64],
    targets: NDArray[np.float64],
    tol: float,
    masks: NDArray[np.bool_],
    residuals: NDArray[np.float64],
) -> None:
    open_ = np.arange(len(targets))
    tried = min(_FIRST, items.shape[1])
    while open_.size:
        found_masks = np.empty((open_.size, tried), dtype=np.bool_)
        found = np.empty(open_.size)
        solve_block(np.ascontiguousarray(items[open_, :tried]), targets[open_], found_masks, found)
        masks[open_, :tried], masks[open_, tried:] = found_masks, False
        residuals[open_] = found
        if tried == items.shape[1]:
            return
        open_ = open_[np.abs(found) > tol]
        tried = min(tried + _STEP, items.shape[1])


def _greedy(items: NDArray[np.float64], targets: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    kept = np.zeros(items.shape, dtype=np.bool_)
    rest = targets.copy()
    rows = np.arange(len(targets))
    for column in np.argsort(-np.abs(items), axis=1, kind="stable").T:
        value = items[rows, column]
        take = np.abs(rest - value) < np.abs(rest)
        kept[rows[take], column[take]] = True
        rest[take] -= value[take]
    return kept, rest
