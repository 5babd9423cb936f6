"""Exact subset sums by sorting networks, ``LANES`` problems at a time.

Meet in the middle: the sums of the left half of the items are sorted, and so is target minus the sums of the
right half; the best subset is the closest pair of neighbours, one from each side, in the merged list. Merging
is done by bitonic networks, minima and maxima without a branch or an index, so the problems in the lanes of a
vector register never diverge.

A sum is held as a whole number in a float64: the fixed-point sum, then one bit per item of the half, then
one bit that tells left from right. Adding an item's key updates sum and subset at once. Fixed point rounds,
so the closest pair is only a candidate: every pair within the rounding error of it is looked up in the sorted
list and compared by its float64 residual, which makes the result exact. Where that would be too many pairs
(equal items, items that vanish beside others), the problem goes to the scalar path.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from strongticket.subsetsum.backends.scalar import best_subset
from strongticket.subsetsum.backends.vector import (
    BIAS,
    GAPS,
    LANES,
    exchange2,
    exchange4,
    exchange8,
    join,
    mirror,
    smallest_gap,
)

FEWEST_ITEMS = 6
_W = np.uint64(LANES)
_0, _1, _2, _3, _8 = (np.uint64(k) for k in (0, 1, 2, 3, 8))
_IN_CACHE = np.uint64(512)


@njit(nogil=True, cache=True)
def _aligned(size: Any) -> Any:
    raw = np.empty(size + 8)
    skip = (-(raw.ctypes.data >> 3)) & 7
    return raw[skip : skip + size]


@njit(nogil=True, cache=True)
def _sort_bitonic(buffer: Any, rows: Any, block: Any) -> None:
    """Sort each block of ``block`` (a power of two) bitonic rows; three stages per pass over memory."""
    stages = _0
    while (block >> stages) > _1:
        stages += _1
    if stages % _3 == _1:
        stride, start = block >> _1, _0
        while start < rows:
            for row in range(start, start + stride):
                exchange2(buffer, row, stride)
            start += block
        block = stride
    elif stages % _3 == _2:
        stride, start = block >> _2, _0
        while start < rows:
            for row in range(start, start + stride):
                exchange4(buffer, row, stride)
            start += block
        block = stride
    while block > _IN_CACHE:
        stride, start = block >> _3, _0
        while start < rows:
            for row in range(start, start + stride):
                exchange8(buffer, row, stride)
            start += block
        block = stride
    if block == _1:
        return
    near = _0
    while near < rows:
        part = block
        while part > _8:
            stride, start = part >> _3, near
            while start < near + block:
                for row in range(start, start + stride):
                    exchange8(buffer, row, stride)
                start += part
            part = stride
        start = near
        while start < near + block:
            exchange8(buffer, start, _1)
            start += _8
        near += block


@njit(nogil=True, cache=True)
def _lower_sums(buffer: Any, keys: Any, first: Any, count: Any, total: Any) -> None:
    """The lower half of the sorted sums of keys[first : first + count]; their total goes to keys[total]."""
    for lane in range(_W):
        buffer[lane] = 0.0
        keys[total * _W + lane] = keys[first * _W + lane]
    half = _1
    for item in range(first + _1, first + count):
        size = half << _1
        for row in range(_0, half):
            mirror(buffer, row, size - _1 - row, keys, item, total)
        _sort_bitonic(buffer, size, size)
        for lane in range(_W):
            keys[total * _W + lane] += keys[item * _W + lane]
        half = size


@njit(nogil=True, cache=True)
def _residual(items: Any, target: float, bits: int) -> float:
    kept = 0.0
    for k in range(items.size):
        kept += items[k] * np.float64((bits >> k) & 1)
    return target - kept


_PENDING, _SCALAR = -1, -2
_SCALE, _UNIT, _ROUNDING, _BEST = range(4)
_FLIPS, _OUTSIDE, _BITS = range(3)


@njit(nogil=True, cache=True)
def _prepare(items: Any, target: float, keys: Any, lane: Any, reals: Any, bits: Any) -> int:
    """Write the lane's keys and start its state; return the answer if it is plain to see, else a marker.

    Items are made positive (dropping a negative item is keeping its absolute value), so the goal becomes
    target - (sum of the negative items). ``reals`` gets the scale of the fixed-point numbers, the key of one
    fixed-point unit, how many units rounding can move a residual, and the best |residual| so far; ``bits``
    the negative items, the item outside both halves (n' odd) where it is kept, and the best subset so far.
    """
    half = items.size // 2
    most, least, flips, positive = 0.0, 0.0, 0, 0
    for k in range(items.size):
        most += max(items[k], 0.0)
        least += min(items[k], 0.0)
        flips |= int(items[k] < 0.0) << k
        positive |= int(items[k] > 0.0) << k
    size = most - least
    answer = _PENDING
    if target <= least:
        answer = flips
    elif target >= most:
        answer = positive
    scale = np.float64(np.int64(1) << (49 - half)) / size if size > 0.0 else 0.0
    if answer == _PENDING and not np.isfinite(scale):
        answer = _SCALAR
    if answer != _PENDING:
        scale = 0.0
    unit = np.float64(np.int64(2) << half)
    goal = max(0.0, min(target - least, size)) * scale
    rounding = abs(goal - np.rint(goal)) + 0.5
    for k in range(items.size):
        bit = np.int64(2) << (k if k < half else k - half) if k < 2 * half else 0
        value = abs(items[k]) * scale
        rounding += abs(value - np.rint(value))
        keys[np.uint64(k) * _W + lane] = np.rint(value) * unit + np.float64(bit)
    keys[np.uint64(items.size + 2) * _W + lane] = np.rint(goal) * unit + 1.0
    reals[_SCALE], reals[_UNIT], reals[_ROUNDING], reals[_BEST] = scale, unit, rounding, np.inf
    bits[_FLIPS], bits[_OUTSIDE], bits[_BITS] = flips, 0, 0
    return answer


@njit(nogil=True, cache=True)
def _compare_candidates(
    merged: Any,
    gaps: Any,
    chunks: Any,
    lane: Any,
    goal: float,
    items: Any,
    target: float,
    reals: Any,
    bits: Any,
) -> bool:
    """Compare every pair that can be the best by its float64 residual; False if there are too many.

    A subset with |residual| ≤ ρ lies within (ρ·scale + rounding + 2)·unit of the goal in keys; the 2 is for
    the bits of the two subsets below the fixed-point sums. Any pair that close, neighbours or not, spans a
    pair of neighbours from both sides that is at least as close.
    """
    half = np.int64(items.size // 2)
    low_bits = (np.int64(1) << half) - 1
    least = gaps[lane]
    for c in range(_1, chunks):
        least = min(least, gaps[c * _W + lane])
    margin = (reals[_ROUNDING] + 2.0) * reals[_UNIT]
    reach = min(least + 2.0 * margin, reals[_BEST] * reals[_SCALE] * reals[_UNIT] + margin)
    most = 1024 + (32 << max(0, items.size + half - 44))
    rows, per_chunk = chunks * np.uint64(GAPS), np.uint64(GAPS)
    seen = 0
    for c in range(_0, chunks):
        if gaps[c * _W + lane] > reach:
            continue
        for k in range(c * per_chunk, (c + _1) * per_chunk):
            low, high = merged[k * _W + lane], merged[(k + _1) * _W + lane]
            if high - low > reach or (np.int64(low - BIAS) ^ np.int64(high - BIAS)) & 1 == 0:
                continue
            i = np.int64(k)
            while i >= 0 and high - merged[np.uint64(i) * _W + lane] <= reach:
                x = merged[np.uint64(i) * _W + lane]
                j = k + _1
                while j < rows and merged[j * _W + lane] - x <= reach:
                    seen += 1
                    if seen > most:
                        return False
                    a, b = np.int64(x - BIAS), np.int64(merged[j * _W + lane] - BIAS)
                    j += _1
                    if (a ^ b) & 1 == 0:
                        continue
                    if a & 1:
                        a, b = b, a
                    subset = ((a >> 1) & low_bits) | ((((np.int64(goal) - b) >> 1) & low_bits) << half)
                    subset = (subset | bits[_OUTSIDE]) ^ bits[_FLIPS]
                    size = abs(_residual(items, target, subset))
                    if size < reals[_BEST] or (size == reals[_BEST] and subset < bits[_BITS]):
                        reals[_BEST], bits[_BITS] = size, subset
                        reach = min(reach, size * reals[_SCALE] * reals[_UNIT] + margin)
                i -= 1
    return True


@njit(nogil=True, cache=True)
def solve_lanes(items: Any, targets: Any, masks: Any, residuals: Any) -> None:
    """Fill ``masks`` (P, n') and ``residuals`` (P,) with the best subsets, n' from ``FEWEST_ITEMS`` to 40.

    With n' odd, the last item belongs to neither half: the halves are joined once without and once with it.
    """
    problems, count = items.shape
    half = np.uint64(count // 2)
    lower = _1 << (half - _1)
    rows, chunks = lower << _2, (lower << _2) // np.uint64(GAPS)
    left, right, gaps = _aligned(lower * _W), _aligned(lower * _W), _aligned(chunks * _W)
    merged, keys = _aligned((rows + _1) * _W), _aligned(np.uint64(count + 3) * _W)
    merged[rows * _W :] = 2.0 * BIAS
    keys[:] = 0.0
    last, goal = np.uint64(count - 1), np.uint64(count + 2)
    left_total, right_total = np.uint64(count), np.uint64(count + 1)
    answers, reals, bits = np.zeros(LANES, np.int64), np.zeros((LANES, 4)), np.zeros((LANES, 3), np.int64)
    for start in range(0, problems, LANES):
        lanes = min(LANES, problems - start)
        for lane in range(lanes):
            answers[lane] = _prepare(
                items[start + lane], targets[start + lane], keys, np.uint64(lane), reals[lane], bits[lane]
            )
        _lower_sums(left, keys, _0, half, left_total)
        _lower_sums(right, keys, half, half, right_total)
        for outside in range(1 + count % 2):
            for row in range(_0, lower):
                join(merged, row, lower, left, right, keys, left_total, right_total, goal)
            _sort_bitonic(merged, rows, lower)
            for c in range(_0, chunks):
                smallest_gap(merged, c * np.uint64(GAPS), gaps, c)
            for lane in range(lanes):
                u = np.uint64(lane)
                aim = keys[goal * _W + u]
                bits[lane, _OUTSIDE] = outside << (count - 1)
                if answers[lane] == _PENDING and not _compare_candidates(
                    merged,
                    gaps,
                    chunks,
                    u,
                    aim,
                    items[start + lane],
                    targets[start + lane],
                    reals[lane],
                    bits[lane],
                ):
                    answers[lane] = _SCALAR
                keys[goal * _W + u] = aim - keys[last * _W + u]
        for lane in range(lanes):
            problem = start + lane
            subset = answers[lane]
            if subset == _PENDING:
                subset = bits[lane, _BITS]
            elif subset == _SCALAR:
                subset = best_subset(items[problem], targets[problem])
            _write(items[problem], targets[problem], subset, masks, residuals, problem)


@njit(nogil=True, cache=True)
def _write(items: Any, target: float, subset: int, masks: Any, residuals: Any, problem: int) -> None:
    for k in range(items.size):
        masks[problem, k] = (subset >> k) & 1
    residuals[problem] = _residual(items, target, subset)


@njit(nogil=True, cache=True)
def solve_exact(items: Any, targets: Any, masks: Any, residuals: Any) -> None:
    """Fill ``masks`` (P, n') and ``residuals`` (P,) with the best subsets, n' from 1 to 40."""
    if items.shape[1] >= FEWEST_ITEMS:
        solve_lanes(items, targets, masks, residuals)
        return
    for problem in range(items.shape[0]):
        subset = best_subset(items[problem], targets[problem])
        _write(items[problem], targets[problem], subset, masks, residuals, problem)
