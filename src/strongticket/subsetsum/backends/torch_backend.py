"""All sums of both halves, one half sorted, the other looked up in it: for a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from strongticket.subsetsum.backends.bits import write_bits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

threaded = False
_SUMS_PER_BLOCK = 1 << 22


def block_size(items: int) -> int:
    """As many problems as keep the list of sums near 32 MB."""
    return max(1, _SUMS_PER_BLOCK >> (items - items // 2))


def _sums(items: torch.Tensor) -> torch.Tensor:
    sums = torch.zeros(len(items), 1, dtype=items.dtype, device=items.device)
    for k in range(items.shape[1]):
        sums = torch.cat([sums, sums + items[:, k : k + 1]], dim=1)
    return sums


def solve_block(
    items: NDArray[np.float64],
    targets: NDArray[np.float64],
    masks: NDArray[np.bool_],
    residuals: NDArray[np.float64],
) -> None:
    """Solve every problem of the block, on the first CUDA device where there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    values, goals = (torch.from_numpy(array).to(device) for array in (items, targets))
    half = items.shape[1] // 2
    left = _sums(values[:, :half])
    right, order = _sums(values[:, half:]).sort(dim=1)
    wanted = goals[:, None] - left
    above = torch.searchsorted(right, wanted).clamp_(max=right.shape[1] - 1)
    below = (above - 1).clamp_(min=0)
    gaps = torch.stack([(right.gather(1, place) - wanted).abs_() for place in (above, below)])
    nearest, side = gaps.min(dim=0)
    choice = nearest.argmin(dim=1, keepdim=True)
    place = torch.where(side == 0, above, below).gather(1, choice)
    subsets = choice | (order.gather(1, place) << half)
    write_bits(subsets.squeeze(1).cpu().numpy(), items, targets, masks, residuals)
