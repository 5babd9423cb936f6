"""How large should the random weights be? ``range="auto"`` weighs reach against resolution."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from strongticket.construct.kernels import count_sizes
from strongticket.subsetsum import solve
from strongticket.subsetsum.problems import random_problems

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_PROBLEMS = 4096
_MOST_ITEMS = 20
_STEPS_PER_OCTAVE = 4
_LARGEST_OCTAVE, _SMALLEST_OCTAVE = 3, -10
_MOST_REPAIRED_SHARE, _REPAIRED_ENTRIES = 0.05, 200
_MENDED_SHARE = 0.03
_SMALLEST_ENTRY_OCTAVE = -16
_LEAST_RANGE, _MOST_RANGE = 2.0**-100, 2.0**100


@lru_cache(maxsize=64)
def _errors(items: int, products: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Targets τ from 0 to the sum of all items, and the |errors| of the best subsets for each, in ascending order.

    Measured once on seeded random problems with items from U[-1,1]·U[-1,1] or U[-1,1].
    """
    values, _ = random_problems(_PROBLEMS, items, seed=0, products=products)
    reach = max(1.0, items / (4.0 if products else 2.0))
    targets = np.array([0.0, *(reach * 2.0 ** (-k / 2) for k in range(24, -1, -1))])
    errors = [np.abs(solve(values, np.full(_PROBLEMS, target)).residuals) for target in targets]
    return targets, np.sort(np.array(errors), axis=1)


def choose_range(target: NDArray[np.float64], items: int, *, products: bool) -> float:
    """The r for source weights U[-r, r] with the least expected squared error over the entries of ``target``.

    A product of two weights is r²·(a product from U[-1,1]), so an entry w costs r⁴·E(|w|/r²), where E(τ) is the
    mean squared error of the best subset for a target τ, measured beforehand on random problems: a small r
    leaves large entries out of reach, a large r spends resolution on all others. r² is searched from
    2^-10 to 2^3 times the largest |w| in steps of 2^(1/4). ``products``: items are U·U (the contiguous layout);
    else U, as when units are chosen for |u| near 1, and E leaves out the worst problems, which the swap search
    repairs: one in 20, in targets of more than 4,000 entries as many as make 200 entries. Above 20 items the
    curve of 20 is used.

    >>> rng = np.random.default_rng(0)
    >>> 0.05 < choose_range(rng.normal(0, 0.05, (16, 16)), 16, products=False) < 0.5
    True
    """
    sizes = np.abs(target).ravel()
    largest = float(sizes.max(initial=0.0))
    if largest == 0.0:
        return 1.0
    targets, errors = _errors(min(items, _MOST_ITEMS), products)
    repaired = 0.0 if products else min(_MOST_REPAIRED_SHARE, _REPAIRED_ENTRIES / sizes.size)
    squares = np.mean(errors[:, : int((1.0 - repaired) * _PROBLEMS)] ** 2, axis=1)
    scales = 2.0 ** np.arange(_LARGEST_OCTAVE, _SMALLEST_OCTAVE, -1 / _STEPS_PER_OCTAVE)
    costs = []
    for scale in scales:
        tau = sizes / largest / scale
        inside = np.interp(tau, targets, squares)
        beyond = np.maximum(tau - targets[-1], 0.0)
        costs.append(scale**2 * np.sum((np.sqrt(inside) + beyond) ** 2))
    return _as_range(largest * scales[int(np.argmin(costs))])


def _as_range(product: float) -> float:
    """The r with r² = ``product``, within what a source can have."""
    return float(np.float32(min(max(math.sqrt(product), _LEAST_RANGE), _MOST_RANGE)))


def largest_scale_range(target: NDArray[np.float64], items: int) -> float:
    """The r for U[-r, r] whose products of two weights reach the largest of the ``column_scales``.

    Columns with smaller scales get units with smaller |u|.
    """
    return _as_range(float(column_scales(target, items).max()))


def column_scales(target: NDArray[np.float64], items: int) -> NDArray[np.float64]:
    """The ρ for each column of ``target`` so that items from U[-ρ, ρ] leave the least expected squared error.

    As in ``choose_range``, an entry w costs ρ²·E(|w|/ρ). Here E leaves out the worst 3 % of the problems, which spare
    units mend. Entries are counted in bins of a quarter octave, so that a column with a few large entries gets a
    scale of its own and the others keep their resolution.

    >>> column_scales(np.array([[1.0, 0.01], [0.5, 0.02]]), 16).round(2).tolist()
    [1.41, 0.03]
    """
    largest, counts = _sizes_by_column(target)
    if largest == 0.0:
        return np.ones(target.shape[1])
    scales, costs = _cost_by_scale(min(items, _MOST_ITEMS))
    return largest * scales[np.argmin(counts @ costs, axis=1)]


def expected_square(target: NDArray[np.float64], counts: Iterable[int]) -> NDArray[np.float64]:
    """The expected Σ error² over the entries of ``target``, its columns at their scales, for each number of items.

    Never more than Σ w², which masks that keep nothing leave. Above 20 items, each item lowers it as much as one from
    18 to 20.

    >>> errors = expected_square(np.full((4, 4), 0.5), [8, 12, 16])
    >>> bool((errors[1:] < errors[:-1] / 10).all())
    True
    """
    largest, sizes = _sizes_by_column(target)
    most = float(np.sum(target**2))

    def at(items: int) -> float:
        return min(most, largest**2 * float((sizes @ _cost_by_scale(items)[1]).min(axis=1).sum()))

    def beyond(items: int) -> float:
        top, step = at(_MOST_ITEMS), at(_MOST_ITEMS - 2)
        return top * math.sqrt(top / step) ** (items - _MOST_ITEMS) if step > 0.0 else 0.0

    return np.array([at(items) if items <= _MOST_ITEMS else beyond(items) for items in counts])


def _sizes_by_column(target: NDArray[np.float64]) -> tuple[float, NDArray[np.intp]]:
    """The largest |w|, and how many entries of each column lie in each bin of a quarter octave below it."""
    largest = float(np.abs(target).max(initial=0.0))
    counts = np.zeros((target.shape[1], 1 - _SMALLEST_ENTRY_OCTAVE * _STEPS_PER_OCTAVE), dtype=np.intp)
    if largest > 0.0:
        count_sizes(target, largest, counts)
    return largest, counts


@lru_cache(maxsize=64)
def _cost_by_scale(items: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scales from 2^3 to 2^-10, and the cost of an entry of size 2^(-16 + bin/4) with each, (bins, scales)."""
    entries = 2.0 ** (np.arange(_SMALLEST_ENTRY_OCTAVE * _STEPS_PER_OCTAVE, 1) / _STEPS_PER_OCTAVE)
    scales = 2.0 ** np.arange(_LARGEST_OCTAVE, _SMALLEST_OCTAVE, -1 / _STEPS_PER_OCTAVE)
    return scales, np.array([_entry_costs(entries, scale, items) for scale in scales]).T


def _entry_costs(entries: NDArray[np.float64], scale: float, items: int) -> NDArray[np.float64]:
    targets, errors = _errors(items, False)
    squares = np.mean(errors[:, : int((1.0 - _MENDED_SHARE) * _PROBLEMS)] ** 2, axis=1)
    tau = entries / scale
    inside, beyond = np.interp(tau, targets, squares), np.maximum(tau - targets[-1], 0.0)
    return scale**2 * (np.sqrt(inside) + beyond) ** 2
