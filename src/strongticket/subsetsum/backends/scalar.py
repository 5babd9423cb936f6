"""One problem at a time in float64: merged half-lists and two pointers (Horowitz and Sahni, 1974).

The reference path: it makes no assumption about the items, so few items, many equal sums and items of very
different sizes end up here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def sorted_sums(items: Any, out: Any, spare: Any) -> Any:
    """All 2^k subset sums of ``items`` in ascending order, in ``out`` or ``spare``, whichever is returned.

    The sums with and without the next item are two sorted lists of m sums; the first m of the merged list
    are taken from the front and the last m from the back, so that neither pointer can leave its list.
    """
    out[0] = 0.0
    m = 1
    for k in range(items.size):
        low, high = min(items[k], 0.0), max(items[k], 0.0)
        i = j = 0
        p = q = m - 1
        for step in range(m):
            a, b = out[i] + low, out[j] + high
            first = a <= b
            spare[step] = a if first else b
            i += first
            j += not first
            c, d = out[p] + low, out[q] + high
            last = d >= c
            spare[2 * m - 1 - step] = d if last else c
            q -= last
            p -= not last
        out, spare = spare, out
        m *= 2
    return out


@njit(nogil=True, cache=True)
def subset_of(items: Any, total: float, sums: Any) -> int:
    """The first subset, as bits, whose sum (added in the order of the items) is exactly ``total``."""
    sums[0] = 0.0
    m = 1
    for k in range(items.size):
        for i in range(m):
            sums[m + i] = sums[i] + items[k]
        m *= 2
    for bits in range(m):
        if sums[bits] == total:
            return bits
    return 0


@njit(nogil=True, cache=True)
def best_subset(items: Any, target: float) -> int:
    """The subset, as bits, whose sum lies closest to ``target``."""
    split = items.size // 2
    rest = items.size - split
    sums = np.empty((4, 1 << rest))
    left = sorted_sums(items[:split], sums[0], sums[1])
    right = sorted_sums(items[split:], sums[2], sums[3])
    lefts = 1 << split
    i, j = 0, (1 << rest) - 1
    best, best_i, best_j = np.inf, 0, 0
    while i < lefts and j >= 0:
        gap = left[i] + right[j] - target
        if abs(gap) < best:
            best, best_i, best_j = abs(gap), i, j
        if gap > 0.0:
            j -= 1
        else:
            i += 1
    left_sum, right_sum = left[best_i], right[best_j]
    low = subset_of(items[:split], left_sum, sums[0])
    return low | (subset_of(items[split:], right_sum, sums[2]) << split)
