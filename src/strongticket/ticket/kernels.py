"""Numba kernels on masked float32 weights: clear what is not kept, and put hidden units together.

Weights come in pieces of a matrix in C order, from flat index ``start`` on. ``slots`` gives the place of each hidden
unit in its result, -1 where the unit is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


@njit(nogil=True, cache=True)
def fold_columns(
    piece: NDArray[np.float32],
    start: int,
    slots: NDArray[np.int64],
    units: NDArray[np.float64],
    out: NDArray[Any],
) -> None:
    """out[i, slots[k]] += weight[i, k] units[k]."""
    done = 0
    while done < piece.size:
        row, first = divmod(start + done, slots.size)
        length = min(slots.size - first, piece.size - done)
        for k in range(length):
            if slots[first + k] >= 0:
                out[row, slots[first + k]] += np.float64(piece[done + k]) * units[first + k]
        done += length


@njit(nogil=True, cache=True)
def fold_rows(
    piece: NDArray[np.float32],
    start: int,
    slots: NDArray[np.int64],
    units: NDArray[np.float64],
    out: NDArray[Any],
) -> None:
    """out[slots[k], j] += units[k] weight[k, j]."""
    done = 0
    while done < piece.size:
        unit, first = divmod(start + done, out.shape[1])
        length = min(out.shape[1] - first, piece.size - done)
        if slots[unit] >= 0:
            for j in range(length):
                out[slots[unit], first + j] += units[unit] * np.float64(piece[done + j])
        done += length
