"""Numba kernel: keep or clear float32 weights by packed bits, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

LANES = np.where(np.arange(256)[:, None] >> np.arange(8) & 1, np.uint32(0xFFFFFFFF), np.uint32(0))
"""For each byte, eight words: all ones where its bit is set."""
LANES.flags.writeable = False


@njit(nogil=True, cache=True)
def keep(weights: NDArray[np.uint32], bits: NDArray[np.uint8], lanes: NDArray[np.uint32]) -> None:
    """Clear ``weights[i]``, float32 seen as words, where bit i of ``bits`` (lowest first) is 0."""
    whole = weights.size // 8
    for i in range(whole):
        byte = bits[i]
        for j in range(8):
            weights[8 * i + j] &= lanes[byte, j]
    for i in range(8 * whole, weights.size):
        weights[i] &= lanes[bits[whole], i - 8 * whole]
