"""Spare units: keep two units per column back, then give them to the columns whose worst entries they mend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.kernels import match, probe, take_best
from strongticket.construct.prune import Pruned, entries_where, solve_entries, units_by_column
from strongticket.construct.ranges import column_scales

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from strongticket.construct.prune import Floats, Ints, Problem

_CANDIDATES = 16
_FEWEST_ROWS, _SHARE_OF_ROWS = 4, 1 / 192
_COLUMNS_AT_ONCE = 16
_MANY_COLUMNS, _FEWEST_ITEMS = 64, 3
_CLOSE, _LARGEST = 0.05, 0.97
_SPARES = 2
_ONE_IN = 16
_SHARES = (0.9, 0.99, 0.99)


def spares_help(columns: int, units: int) -> bool:
    """Whether to start with spare units: where columns are too many for the swap search to visit each often.

    >>> spares_help(16, 256), spares_help(384, 6144)
    (False, True)
    """
    return columns >= _MANY_COLUMNS and units >= _FEWEST_ITEMS * columns


def subset_sums(rows: int, columns: int, units: int) -> int:
    """How many subset sums the progress of ``start_with_spares`` counts to: all but those that are solved again.

    >>> subset_sums(384, 384, 6144)
    196608
    """
    return rows * columns + sum(_turns(columns, units)) * _CANDIDATES * _probed_rows(rows)


def _turns(columns: int, units: int) -> tuple[int, int, int]:
    """How many columns get a unit in each turn: all, all but one in 16, and the worst as many as units are left."""
    most = columns - columns // _ONE_IN
    left = units - (units // columns - _SPARES) * columns - columns - most
    return columns, most, min(columns, left)


def _probed_rows(rows: int) -> int:
    return min(rows, max(_FEWEST_ROWS, int(rows * _SHARE_OF_ROWS)))


def start_with_spares(problem: Problem, progress: Callable[[int], Any] | None = None) -> Pruned:
    """Match all but two units per column by size, solve, and add the others where they mend most.

    Every column g has a scale ρ_g that its subset sums want, see ``column_scales``. Its units are chosen for
    |s u| max |v| ≈ ρ_g. Almost all of the squared error then sits in few entries whose products happen to lack a
    sign or a size. So, worst column first, each looks at the 16 free units closest to its scale, solves its worst
    entries with each of them added, and takes the one that leaves the least squared error; then the entries are
    solved anew that hold 90 %, later 99 %, of the squared error in units of ρ_g. A second time one column in 16, those
    with the least error, gets none, and what is left goes to the columns with the largest errors of an entry. An added
    unit never makes an entry worse, as its weights may stay pruned.
    """
    wanted = wanted_sizes(problem)
    pruned = Pruned.nothing(problem, matched_units(problem, wanted))
    units = units_by_column(pruned.serves, problem.columns)
    everywhere = np.ones(problem.target.shape, dtype=np.bool_)
    solve_entries(problem, pruned, units, *entries_where(everywhere, problem.v), progress)
    turns = _turns(problem.columns, problem.units)
    for turn, (count, share) in enumerate(zip(turns, _SHARES, strict=True)):
        worst_entry = turn == len(turns) - 1
        size = np.abs(pruned.error).max(axis=0) if worst_entry else np.sum(pruned.error**2, axis=0)
        columns = np.argsort(-size, kind="stable")[:count]
        _add_one_each(problem, pruned, units, wanted, columns, progress)
        units = units_by_column(pruned.serves, problem.columns)
        worst = np.zeros(problem.target.shape, dtype=np.bool_)
        worst[:, columns] = _worst(pruned.error[:, columns] / wanted[columns], share)
        solve_entries(problem, pruned, units, *entries_where(worst, problem.v))
    return pruned


def matched_units(problem: Problem, wanted: Floats) -> Ints:
    """The column that each unit serves, matched by size; two units per column and what is left over serve none."""
    room = np.full(problem.columns, problem.units // problem.columns - _SPARES)
    serves = np.empty(problem.units, dtype=np.intp)
    match(np.ascontiguousarray(problem.u.T), wanted, _CLOSE, room, serves)
    return serves


def wanted_sizes(problem: Problem) -> Floats:
    """The |u| that each column's units should have."""
    reach = problem.scale * float(max(problem.v.max(), -problem.v.min()))
    largest = float(max(problem.u.max(), -problem.u.min()))
    scales = column_scales(problem.target, problem.units // problem.columns)
    return np.minimum(scales / reach, _LARGEST * largest)


def _add_one_each(
    problem: Problem,
    pruned: Pruned,
    units: Ints,
    wanted: Floats,
    columns: Ints,
    progress: Callable[[int], Any] | None,
) -> None:
    """Give each of ``columns`` in turn the free unit that mends its worst entries best; entries are not solved."""
    rows = _probed_rows(len(problem.target))
    weight = problem.weight(np.arange(problem.columns)[:, None], units)
    u = problem.u if problem.scale == 1.0 else problem.u.astype(np.float64) * problem.scale
    sizes = wanted * problem.scale
    for start in range(0, len(columns), _COLUMNS_AT_ONCE):
        batch = columns[start : start + _COLUMNS_AT_ONCE]
        free = np.flatnonzero(pruned.serves < 0)
        shape = len(batch), min(_CANDIDATES, len(free)), rows
        candidates = np.empty(shape[:2], dtype=np.intp)
        items, targets = np.empty((*shape, units.shape[1] + 1)), np.empty(shape)
        if candidates.size:
            probe(
                u,
                problem.v,
                problem.target,
                pruned.error,
                units,
                weight,
                sizes,
                batch,
                free,
                candidates,
                items,
                targets,
            )
            found = problem.solve(items.reshape(-1, items.shape[-1]), targets.ravel())
            cost = np.sum(found.residuals.reshape(shape) ** 2, axis=2)
            take_best(pruned.serves, batch, candidates, cost)
        if progress is not None:
            progress(len(batch) * _CANDIDATES * rows)


def _worst(error: Floats, share: float) -> NDArray[np.bool_]:
    """Where the fewest entries are that hold ``share`` of the squared error."""
    errors = (error**2).astype(np.float32)
    if errors.size == 0:
        return np.zeros(errors.shape, dtype=np.bool_)
    squares = np.sort(errors, axis=None)[::-1]
    held = np.cumsum(squares, dtype=np.float64)
    least = squares[min(int(np.searchsorted(held, share * held[-1])), len(held) - 1)]
    return (errors >= least) & (errors > 0.0)
