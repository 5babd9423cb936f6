"""The core of every construction: units serve columns, and masks come from exact subset sums.

A column g of a target T (r × c) is to be the sum of kept products: T[:, g] ≈ Σ_k M[:, k] · u[g, k] · v[:, k]
over the hidden units k that serve g. ``u`` (c × n) are the weights on the side that is pruned to one weight per
unit, ``v`` (r × n) those on the other side, whose mask M the subset sums choose (Lemma 7, Equations 6 to 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.subsetsum import MOST_ITEMS, solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_PROBLEMS_PER_CALL = 1 << 17
_TOL_OF_LARGE_GROUPS = 1e-10
_EVERY_ROW = slice(None)


@dataclass(frozen=True)
class Problem:
    """A target T (r × c) and the random weights u (c × n), v (r × n) that it is to be made of."""

    target: Floats
    u: Floats
    v: Floats
    tol: float = 0.0
    threads: int | None = None

    @property
    def units(self) -> int:
        """The number of hidden units, n."""
        return self.u.shape[1]

    @property
    def columns(self) -> int:
        """The number of target columns, c."""
        return self.target.shape[1]

    @cached_property
    def size(self) -> float:
        """The largest |entry| of the target, or the least positive number where all are zero."""
        return float(np.abs(self.target).max(initial=np.finfo(np.float64).tiny))

    def cost(self, error: Floats) -> Floats:
        """Σ |error / size|^8 over the first axis: what the search for masks lowers, ruled by the worst entries."""
        return ((error / self.size) ** 8).sum(axis=0)

    def items(self, column: int, units: NDArray[np.intp], rows: NDArray[np.intp] | slice = _EVERY_ROW) -> Floats:
        """The products that may sum to the entries of one column, (rows, len(units))."""
        return self.v[rows][:, units] * self.u[column, units]

    def solve(self, items: Floats, targets: Floats, progress: Callable[[int], Any] | None = None) -> Any:
        """Exact subset sums; among more than 40 items, the first subset within 1e-10 of the target's size."""
        tol = self.tol
        if items.shape[1] > MOST_ITEMS and tol == 0.0:
            tol = _TOL_OF_LARGE_GROUPS * self.size
        return solve(items, targets, tol=tol, threads=self.threads, progress=progress)


@dataclass
class Pruned:
    """Which column each unit serves, which weights of v are kept, and the error T - (sum of kept products)."""

    serves: NDArray[np.intp]
    mask: NDArray[np.bool_]
    error: Floats

    def units_of(self, column: int) -> NDArray[np.intp]:
        """The units that serve ``column``, in ascending order."""
        return np.flatnonzero(self.serves == column)

    @property
    def max_error(self) -> float:
        """The largest |error| of an entry."""
        return float(np.abs(self.error).max(initial=0.0))


def prune(problem: Problem, serves: NDArray[np.intp], progress: Callable[[int], Any] | None = None) -> Pruned:
    """Solve every entry of the target for units that serve the columns given by ``serves`` (n,); -1 serves none."""
    rows = len(problem.target)
    pruned = Pruned(serves.copy(), np.zeros((rows, problem.units), dtype=np.bool_), problem.target.copy())
    by_size: dict[int, list[int]] = {}
    for column, size in enumerate(np.bincount(serves[serves >= 0], minlength=problem.columns)):
        by_size.setdefault(int(size), []).append(column)
    empty = by_size.pop(0, [])
    if progress is not None and empty:
        progress(rows * len(empty))
    for columns in by_size.values():
        for batch in _batches(columns, max(1, _PROBLEMS_PER_CALL // rows)):
            units = [pruned.units_of(column) for column in batch]
            items = np.concatenate([problem.items(c, k) for c, k in zip(batch, units, strict=True)])
            solution = problem.solve(items, problem.target[:, batch].T.ravel(), progress)
            for column, k, mask, error in zip(
                batch,
                units,
                solution.masks.reshape(len(batch), rows, -1),
                solution.residuals.reshape(len(batch), rows),
                strict=True,
            ):
                pruned.mask[:, k], pruned.error[:, column] = mask, error
    return pruned


def _batches(columns: list[int], size: int) -> Iterable[list[int]]:
    return (columns[start : start + size] for start in range(0, len(columns), size))
