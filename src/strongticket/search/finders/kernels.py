"""Numba kernels of edge-popup: score update and exact selection in two sweeps over memory, without sorting.

Sweep 1 (``update``) does AdamW on the scores and counts them in buckets by the leading bits of |s|; floats that are
not negative are ordered as their bits are. Sweep 2 (``write``) writes w or 0 for every score whose bucket decides, and
lists the few that share a bucket with the threshold; those are then ordered exactly.

Each sweep works on short strides that stay in the first-level cache, in loops over few arrays each: with many arrays
in one loop LLVM gives up proving that they do not overlap, and does not vectorise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[Any]
    Bits = NDArray[Any]
    Counts = NDArray[np.int32]
    Places = NDArray[np.int64]

BUCKETS = 1 << 16
"""One bucket per value of the exponent and the leading mantissa bits: eight in float32, five in float64."""

STRIDE = 1024
"""Scores handled at a time."""

BLOCK = 64
"""Scores tested at a time for the threshold's bucket."""


@njit(nogil=True, error_model="numpy", inline="always")
def _tally(s: Values, scale: Any, shift: Any, keys: Values, bits: Bits, counts: Counts) -> None:
    for j in range(s.size):
        keys[j] = np.abs(s[j]) * scale
    for j in range(s.size):
        counts[np.int64(bits[j] >> shift)] += np.int32(1)


@njit(nogil=True, cache=True, error_model="numpy")
def update(
    score: Values,
    first: Values,
    second: Values,
    gradient: Values,
    weight: Values,
    beta1: Any,
    beta2: Any,
    step_size: Any,
    root_correction: Any,
    epsilon: Any,
    keep_factor: Any,
    scale: Any,
    shift: Any,
    keys: Values,
    bits: Bits,
    counts: Counts,
) -> None:
    """AdamW on the scores in place, with the score gradient g w sign(s), then count the new scores.

    s ← s keep_factor - step_size m / (√v / root_correction + ε), where m and v are the moments, step_size is
    lr / (1 - β₁ᵗ), root_correction is √(1 - β₂ᵗ) and keep_factor is 1 - lr λ with the decay λ.
    """
    one = beta1 / beta1
    zero = one - one
    rest1, rest2, inverse = one - beta1, one - beta2, one / root_correction
    for start in range(0, score.size, STRIDE):
        stop = min(start + STRIDE, score.size)
        s, m, v = score[start:stop], first[start:stop], second[start:stop]
        g, w = gradient[start:stop], weight[start:stop]
        for j in range(s.size):
            product = g[j] * w[j]
            signed = product if s[j] > zero else -product
            keys[j] = zero if s[j] == zero else signed
        for j in range(s.size):
            m[j] = beta1 * m[j] + rest1 * keys[j]
            v[j] = beta2 * v[j] + rest2 * (keys[j] * keys[j])
        for j in range(s.size):
            s[j] = s[j] * keep_factor - step_size * m[j] / (np.sqrt(v[j]) * inverse + epsilon)
        _tally(s, scale, shift, keys, bits, counts)


@njit(nogil=True, cache=True, error_model="numpy")
def count(score: Values, scale: Any, shift: Any, keys: Values, bits: Bits, counts: Counts) -> None:
    """Add the number of scores in each bucket of |s| scale to ``counts``; ``bits`` is ``keys`` seen as integers."""
    for start in range(0, score.size, STRIDE):
        _tally(score[start : min(start + STRIDE, score.size)], scale, shift, keys, bits, counts)


@njit(nogil=True, cache=True, error_model="numpy")
def write(
    score: Values,
    weight: Values,
    effective: Values,
    scale: Any,
    low: Any,
    high: Any,
    keys: Values,
    bits: Bits,
    found: Places,
    found_bits: Bits,
) -> int:
    """Write w where the bits are at least ``high``, 0 elsewhere; list those from ``low`` on and count them."""
    zero = scale - scale
    listed = 0
    for start in range(0, score.size, STRIDE):
        stop = min(start + STRIDE, score.size)
        s, w, e = score[start:stop], weight[start:stop], effective[start:stop]
        for j in range(s.size):
            keys[j] = np.abs(s[j]) * scale
        for j in range(s.size):
            e[j] = w[j] if bits[j] >= high else zero
        for begin in range(0, s.size, BLOCK):
            end = min(begin + BLOCK, s.size)
            hit = False
            for j in range(begin, end):
                hit = hit | ((bits[j] >= low) & (bits[j] < high))
            if hit:
                for j in range(begin, end):
                    if bits[j] >= low and bits[j] < high:
                        found[listed] = start + j
                        found_bits[listed] = bits[j]
                        listed += 1
    return listed
