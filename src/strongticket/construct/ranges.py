"""How large should the random weights be? ``range="auto"`` weighs reach against resolution."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from strongticket.subsetsum import solve
from strongticket.subsetsum.problems import random_problems

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PROBLEMS = 4096
_MOST_ITEMS = 20
_STEPS_PER_OCTAVE = 4
_LARGEST_OCTAVE, _SMALLEST_OCTAVE = 3, -10
_MOST_REPAIRED_SHARE, _REPAIRED_ENTRIES = 0.05, 200
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
    best = float(np.sqrt(scales[int(np.argmin(costs))]) * np.sqrt(largest))
    return float(np.float32(min(max(best, _LEAST_RANGE), _MOST_RANGE)))
