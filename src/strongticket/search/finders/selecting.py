"""Keep exactly the largest scores of a group of tensors, and write the weights they keep."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.compiling import announce
from strongticket.search.finders import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

PIECE = 1 << 19
"""Scores handled by one call of a kernel; the result does not depend on it."""


@dataclass(slots=True)
class Tensor:
    """One tensor's flat arrays: scores, random weights, where the kept weights go, and a pending AdamW update."""

    score: NDArray[Any]
    weight: NDArray[Any]
    effective: NDArray[Any]
    scale: float = 1.0
    moments: tuple[NDArray[Any], NDArray[Any]] | None = None
    gradient: NDArray[Any] | None = None
    adamw: tuple[float, ...] = ()
    """β₁, β₂, step size, √(1 - β₂ᵗ), ε, 1 - lr λ."""


@dataclass(slots=True)
class Group:
    """Tensors that share one threshold, ``keep`` weights of which are kept."""

    tensors: Sequence[Tensor]
    keep: int


def update_and_select(groups: Iterable[Group], threads: int) -> None:
    """Apply the pending updates, then write w ⊙ m with exactly ``keep`` ones in the m of each group.

    Among equal scores the earlier tensor and the lower index win, so the outcome is the same for any number
    of threads.

    >>> scores = np.array([0.1, -0.4, 0.3, 0.2], np.float32)
    >>> tensor = Tensor(scores, np.ones(4, np.float32), np.zeros(4, np.float32))
    >>> update_and_select([Group([tensor], keep=2)], threads=1)
    >>> tensor.effective
    array([0., 1., 1., 0.], dtype=float32)
    """
    announce(kernels.write)
    if threads == 1:
        for group in groups:
            _one_group(group, map)
        return
    with ThreadPoolExecutor(threads) as pool:
        for group in groups:
            _one_group(group, pool.map)


def _one_group(group: Group, run: Callable[..., Iterable[Any]]) -> None:
    pieces = [
        (tensor, slice(start, start + PIECE))
        for tensor in group.tensors
        for start in range(0, tensor.score.size, PIECE)
    ]
    counts = np.zeros(kernels.BUCKETS, np.int64)
    for tally in run(_count, pieces):
        counts += tally
    above = np.cumsum(counts[::-1])[::-1]
    bucket = int(np.flatnonzero(above >= group.keep)[-1])
    inside = int(counts[bucket])
    listed = list(run(lambda piece: _write(piece, bucket, inside), pieces))
    bits = np.concatenate([found_bits for _, found_bits in listed])
    kept = _largest(bits, group.keep - int(above[bucket] - inside))
    for (tensor, piece), (found, _), mine in zip(
        pieces, listed, np.split(kept, np.cumsum([len(f) for f, _ in listed])[:-1]), strict=True
    ):
        places = found[mine] + piece.start
        tensor.effective[places] = tensor.weight[places]


def _scratch(dtype: Any) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """A stride of keys, the same memory as unsigned integers, and how far a bucket is from the lowest bit."""
    keys = np.empty(kernels.STRIDE, dtype)
    unsigned = np.dtype(f"u{keys.itemsize}").type
    return keys, keys.view(unsigned), unsigned(8 * keys.itemsize - 1 - kernels.BUCKETS.bit_length() + 1)


def _count(piece: tuple[Tensor, slice]) -> NDArray[np.int32]:
    tensor, part = piece
    score = tensor.score[part]
    real = score.dtype.type
    keys, bits, shift = _scratch(score.dtype)
    counts = np.zeros(kernels.BUCKETS, np.int32)
    if tensor.gradient is None or tensor.moments is None:
        kernels.count(score, real(tensor.scale), shift, keys, bits, counts)
        return counts
    first, second = (moment[part] for moment in tensor.moments)
    numbers = [real(number) for number in tensor.adamw]
    kernels.update(
        score, first, second, tensor.gradient[part], tensor.weight[part], *numbers,
        real(tensor.scale), shift, keys, bits, counts,
    )  # fmt: skip
    return counts


def _write(piece: tuple[Tensor, slice], bucket: int, inside: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    tensor, part = piece
    score = tensor.score[part]
    keys, bits, shift = _scratch(score.dtype)
    low, high = (bits.dtype.type(number << int(shift)) for number in (bucket, bucket + 1))
    size = min(inside, score.size)
    found, found_bits = np.empty(size, np.int64), np.empty(size, bits.dtype)
    scale = score.dtype.type(tensor.scale)
    listed = kernels.write(
        score, tensor.weight[part], tensor.effective[part], scale, low, high, keys, bits, found, found_bits
    )
    return found[:listed], found_bits[:listed]


def _largest(bits: NDArray[Any], keep: int) -> NDArray[np.bool_]:
    """Which ``keep`` of the values are the largest, the earlier ones first among equals."""
    threshold = np.partition(bits, bits.size - keep)[bits.size - keep]
    kept = bits > threshold
    equal = np.flatnonzero(bits == threshold)
    kept[equal[: keep - int(kept.sum())]] = True
    return kept
