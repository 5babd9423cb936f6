"""The loops between subset sums, compiled: they gather items, write masks and match units to columns.

``units`` (c × m) lists the units that serve each column, padded with -1, and ``weight`` their weights u, padded
with 0: a padded item is 0 and changes no sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

_EDGES = (0.5 * 2.0**0.125, 0.5 * 2.0**0.375, 0.5 * 2.0**0.625, 0.5 * 2.0**0.875)
"""Between 1/2 and 1, where a quarter octave is nearer to the next one than to the one before."""


@njit(nogil=True, cache=True)
def gather(v: Any, units: Any, weight: Any, rows: Any, columns: Any, items: Any) -> None:
    """items[p, j] = v[row, unit j of column] · weight[column, j] for the p-th entry (row, column)."""
    for p in range(rows.size):
        row, column = rows[p], columns[p]
        for j in range(units.shape[1]):
            items[p, j] = np.float64(v[row, units[column, j]]) * weight[column, j]


@njit(nogil=True, cache=True)
def scatter(found: Any, residuals: Any, units: Any, rows: Any, columns: Any, mask: Any, error: Any) -> None:
    """Write what was found for the entries (row, column) to the mask over all units and to the errors."""
    for p in range(rows.size):
        row, column = rows[p], columns[p]
        error[row, column] = residuals[p]
        for j in range(units.shape[1]):
            if units[column, j] >= 0:
                mask[row, units[column, j]] = found[p, j]


@njit(nogil=True, cache=True)
def match(u: Any, wanted: Any, close: float, room: Any, serves: Any) -> None:
    """Give each unit to the column with room whose wanted size its |u| comes closest to, within ``close``.

    ``u`` is (n × c), a unit in a row. What room is then left is filled, column by column, with the closest units that
    serve none; a unit with u = 0 for a column never serves it.
    """
    units, columns = u.shape
    scale = (1.0 / wanted).astype(np.float32)
    for unit in range(units):
        best, place = np.float32(close), -1
        for column in range(columns):
            if room[column] > 0:
                misfit = abs(abs(np.float32(u[unit, column])) * scale[column] - np.float32(1.0))
                if misfit < best:
                    best, place = misfit, column
        serves[unit] = place
        if place >= 0:
            room[place] -= 1
    for column in range(columns):
        while room[column] > 0:
            closest, chosen = np.inf, -1
            for unit in range(units):
                if serves[unit] < 0 and u[unit, column] != 0.0:
                    misfit = abs(abs(u[unit, column]) * scale[column] - np.float32(1.0))
                    if misfit < closest:
                        closest, chosen = misfit, unit
            if chosen < 0:
                break
            serves[chosen] = column
            room[column] -= 1


@njit(nogil=True, cache=True)
def _largest(values: Any, found: Any) -> int:
    """Fill ``found`` with the indices of the largest values above -inf, in descending order; how many there are."""
    count = 0
    for index in range(values.size):
        value = values[index]
        if value == -np.inf:
            continue
        if count < found.size or value > values[found[count - 1]]:
            if count < found.size:
                count += 1
            place = count - 1
            while place > 0 and values[found[place - 1]] < value:
                found[place] = found[place - 1]
                place -= 1
            found[place] = index
    return count


@njit(nogil=True, cache=True)
def probe(
    u: Any,
    v: Any,
    target: Any,
    error: Any,
    units: Any,
    weight: Any,
    wanted: Any,
    batch: Any,
    free: Any,
    candidates: Any,
    items: Any,
    targets: Any,
) -> None:
    """The subset sums that tell which free unit would mend a column's worst entries best.

    For each column of ``batch`` its ``candidates`` are the free units whose |u| comes closest to the wanted size (-1
    where there are too few), and for each of them the column's worst entries are set up in ``items`` (columns,
    candidates, rows, m + 1) and ``targets`` (columns, candidates, rows), the candidate in the last place.
    """
    rows, m = items.shape[2], units.shape[1]
    fits, sizes = np.empty(free.size), np.empty(target.shape[0])
    chosen, worst = np.empty(candidates.shape[1], np.int64), np.empty(rows, np.int64)
    for b in range(batch.size):
        column = batch[b]
        for k in range(free.size):
            size = abs(np.float64(u[column, free[k]]))
            fits[k] = -abs(size / wanted[column] - 1.0) if size > 0.0 else -np.inf
        count = _largest(fits, chosen)
        for row in range(sizes.size):
            sizes[row] = abs(error[row, column])
        _largest(sizes, worst)
        for k in range(candidates.shape[1]):
            unit = free[chosen[k]] if k < count else -1
            candidates[b, k] = unit
            for q in range(rows):
                row = worst[q]
                targets[b, k, q] = target[row, column]
                for j in range(m):
                    items[b, k, q, j] = np.float64(v[row, units[column, j]]) * weight[column, j]
                items[b, k, q, m] = np.float64(v[row, unit]) * u[column, unit] if unit >= 0 else 0.0


@njit(nogil=True, cache=True)
def take_best(serves: Any, batch: Any, candidates: Any, cost: Any) -> None:
    """Each column of ``batch`` takes the candidate of the least cost that none before it has taken."""
    for b in range(batch.size):
        best, chosen = np.inf, -1
        for k in range(candidates.shape[1]):
            unit = candidates[b, k]
            if unit >= 0 and serves[unit] < 0 and cost[b, k] < best:
                best, chosen = cost[b, k], unit
        if chosen >= 0:
            serves[chosen] = batch[b]


@njit(nogil=True, cache=True)
def count_sizes(target: Any, largest: float, counts: Any) -> None:
    """Count the entries of each column by size, to a quarter octave; the last bin holds |w| = ``largest``."""
    for row in range(target.shape[0]):
        for column in range(target.shape[1]):
            mantissa, exponent = math.frexp(abs(target[row, column]) / largest)
            place = 0
            if mantissa > 0.0:
                place = counts.shape[1] - 1 + 4 * (exponent - 1)
                for edge in _EDGES:
                    place += mantissa >= edge
            counts[column, max(place, 0)] += 1
