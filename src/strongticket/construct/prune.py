"""The core of every construction: units serve columns, and masks come from exact subset sums.

A column g of a target T (r × c) is to be the sum of kept products: T[:, g] ≈ Σ_k M[:, k] · s · u[g, k] · v[:, k]
over the hidden units k that serve g. ``u`` (c × n) are the weights on the side that is pruned to one weight per
unit, ``v`` (r × n) those on the other side, whose mask M the subset sums choose (Lemma 7, Equations 6 to 8). The
scale s is 1 but for queries and keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.kernels import gather, scatter
from strongticket.subsetsum import MOST_ITEMS
from strongticket.subsetsum.solver import solve_checked

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Weights = NDArray[np.floating[Any]]
    Ints = NDArray[np.intp]

_PROBLEMS_PER_CALL = 1 << 15
_TOL_OF_LARGE_GROUPS = 1e-10
_EVERY_ROW = slice(None)


@dataclass(frozen=True)
class Problem:
    """A target T (r × c) and the random weights u (c × n), v (r × n) that it is to be made of."""

    target: Floats
    u: Weights
    v: Weights
    tol: float = 0.0
    threads: int | None = None
    scale: float = 1.0

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

    def weight(self, column: int | Ints, units: Ints) -> Floats:
        """s · u of units for a column, in float64; 0 where a unit is -1."""
        return np.where(units >= 0, self.u[column, units].astype(np.float64) * self.scale, 0.0)

    def items(self, column: int, units: Ints, rows: Ints | slice = _EVERY_ROW) -> Floats:
        """The products that may sum to the entries of one column, (rows, len(units))."""
        return self.v[rows][:, units].astype(np.float64) * self.weight(column, units)

    def solve(self, items: Floats, targets: Floats, progress: Callable[[int], Any] | None = None) -> Any:
        """Exact subset sums; among more than 40 items, the first subset within 1e-10 of the target's size."""
        tol = self.tol
        if items.shape[1] > MOST_ITEMS and tol == 0.0:
            tol = _TOL_OF_LARGE_GROUPS * self.size
        return solve_checked(items, targets, tol=tol, threads=self.threads, progress=progress)


@dataclass
class Pruned:
    """Which column each unit serves, which weights of v are kept, and the error T - (sum of kept products)."""

    serves: Ints
    mask: NDArray[np.bool_]
    error: Floats

    @classmethod
    def nothing(cls, problem: Problem, serves: Ints) -> Pruned:
        """All weights of v pruned; the mask has the same order in memory as v."""
        return cls(serves.copy(), np.zeros_like(problem.v, dtype=np.bool_), problem.target.copy())

    def units_of(self, column: int) -> Ints:
        """The units that serve ``column``, in ascending order."""
        return np.flatnonzero(self.serves == column)

    @property
    def max_error(self) -> float:
        """The largest |error| of an entry."""
        return float(np.abs(self.error).max(initial=0.0))


def prune(problem: Problem, serves: Ints, progress: Callable[[int], Any] | None = None) -> Pruned:
    """Solve every entry of the target for units that serve the columns given by ``serves`` (n,); -1 serves none."""
    pruned = Pruned.nothing(problem, serves)
    units = units_by_column(serves, problem.columns)
    sizes = np.count_nonzero(units >= 0, axis=1)
    for size in np.unique(sizes):
        columns = np.flatnonzero(sizes == size)
        if size:
            wanted = np.broadcast_to(np.isin(np.arange(problem.columns), columns), problem.target.shape)
            solve_entries(problem, pruned, units[:, :size], *entries_where(wanted, problem.v), progress)
        elif progress is not None:
            progress(len(problem.target) * len(columns))
    return pruned


def units_by_column(serves: Ints, columns: int) -> Ints:
    """The units that serve each column, in ascending order, padded with -1 to the largest number.

    >>> units_by_column(np.array([1, -1, 0, 1]), 3).tolist()
    [[2, -1], [0, 3], [-1, -1]]
    """
    order = np.argsort(serves, kind="stable")[np.count_nonzero(serves < 0) :]
    sizes = np.bincount(serves[order], minlength=columns)
    units = np.full((columns, int(sizes.max(initial=0))), -1)
    units[np.arange(units.shape[1]) < sizes[:, None]] = order
    return units


def entries_where(wanted: NDArray[np.bool_], v: Weights) -> tuple[Ints, Ints]:
    """Rows and columns of the entries that are ``wanted``, in the order in which v lies in memory."""
    if v.flags.c_contiguous:
        rows, columns = np.nonzero(wanted)
    else:
        columns, rows = np.nonzero(wanted.T)
    return rows, columns


def solve_entries(
    problem: Problem,
    pruned: Pruned,
    units: Ints,
    rows: Ints,
    columns: Ints,
    progress: Callable[[int], Any] | None = None,
) -> None:
    """Solve the entries (rows[p], columns[p]) for the ``units`` of their columns; the result goes to ``pruned``."""
    units = np.ascontiguousarray(units)
    weight = problem.weight(np.arange(problem.columns)[:, None], units)
    space = np.empty((min(len(rows), _PROBLEMS_PER_CALL), units.shape[1]))
    for start in range(0, len(rows), _PROBLEMS_PER_CALL):
        part = slice(start, start + _PROBLEMS_PER_CALL)
        items = space[: len(rows[part])]
        gather(problem.v, units, weight, rows[part], columns[part], items)
        found = problem.solve(items, problem.target[rows[part], columns[part]], progress)
        scatter(found.masks, found.residuals, units, rows[part], columns[part], pruned.mask, pruned.error)
