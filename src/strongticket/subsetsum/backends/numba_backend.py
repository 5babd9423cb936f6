"""The default: sorting networks over vector lanes, compiled by numba."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongticket.compiling import announce
from strongticket.subsetsum.backends.lanes import solve_exact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

threaded = True


def block_size(items: int) -> int:
    """Blocks of some ten milliseconds, and of few problems where each needs much memory."""
    return max(32, min(1 << 14, (1 << 24) >> (items // 2)))


def solve_block(
    items: NDArray[np.float64],
    targets: NDArray[np.float64],
    masks: NDArray[np.bool_],
    residuals: NDArray[np.float64],
) -> None:
    """Solve every problem of the block exactly."""
    announce(solve_exact)
    solve_exact(items, targets, masks, residuals)
