"""Spare units: keep one unit per column back, then give each column the one that mends its worst entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.layouts import by_size
from strongticket.construct.prune import prune

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from strongticket.construct.prune import Problem, Pruned

CANDIDATES = 64
_FEWEST_ROWS, _SHARE_OF_ROWS = 8, 1 / 48
_MANY_COLUMNS, _FEWEST_ITEMS = 64, 3


def spares_help(columns: int, units: int) -> bool:
    """Whether to start with spare units: where columns are too many for the swap search to visit each often.

    >>> spares_help(16, 256), spares_help(384, 6144)
    (False, True)
    """
    return columns >= _MANY_COLUMNS and units >= _FEWEST_ITEMS * columns


def probed_rows(rows: int) -> int:
    """How many of a column's worst entries decide which spare unit it gets.

    >>> probed_rows(4), probed_rows(384), probed_rows(1536)
    (4, 8, 32)
    """
    return min(rows, max(_FEWEST_ROWS, int(rows * _SHARE_OF_ROWS)))


def start_with_spares(problem: Problem, progress: Callable[[int], Any] | None = None) -> Pruned:
    """Assign all but one unit per column by large |u|, solve, and add the others where they mend most.

    Almost all of the squared error sits in few entries whose products happen to lack a sign or a size. Worst column
    first, each looks at the 64 free units with the largest |u|, solves its worst entries with each of them added,
    and takes the one that leaves the least squared error; then every entry is solved anew. An added unit never
    makes an entry worse, as its weights may stay pruned.
    """
    serves = np.full(problem.units, -1)
    serves[: -problem.columns] = by_size(problem.u[:, : -problem.columns])
    pruned = prune(problem, serves, progress)
    rows = probed_rows(len(problem.target))
    for column in np.argsort(-np.sum(pruned.error**2, axis=0), kind="stable"):
        if progress is not None:
            progress(CANDIDATES * rows)
        free = np.flatnonzero((serves < 0) & (problem.u[column] != 0.0))
        if free.size:
            largest = np.argsort(-np.abs(problem.u[column, free]), kind="stable")[:CANDIDATES]
            candidates = free[largest]
            serves[candidates[_best_candidate(problem, pruned, int(column), candidates, rows)]] = column
    return prune(problem, serves, progress)


def _best_candidate(problem: Problem, pruned: Pruned, column: int, candidates: NDArray[np.intp], rows: int) -> int:
    worst = np.argsort(-np.abs(pruned.error[:, column]), kind="stable")[:rows]
    units = pruned.units_of(column)
    items = np.empty((len(candidates), rows, len(units) + 1))
    items[:, :, :-1] = problem.items(column, units, worst)
    items[:, :, -1] = problem.items(column, candidates, worst).T
    targets = np.tile(problem.target[worst, column], len(candidates))
    errors = problem.solve(items.reshape(-1, items.shape[-1]), targets).residuals.reshape(len(candidates), rows)
    return int(np.argmin(np.sum(errors**2, axis=1)))
