"""``solve``: check the input, cut it into blocks, hand the blocks to a backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.parallel import resolve_threads, run_chunks
from strongticket.subsetsum.backends import load_backend
from strongticket.subsetsum.stages import solve_in_stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

MOST_ITEMS = 40
_ROWS_PER_CHECK = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The best subsets: ``masks`` (P, n') bool, and ``residuals`` (P,) = target - sum of the kept items."""

    masks: NDArray[np.bool_]
    residuals: NDArray[np.float64]


def solve(
    items: ArrayLike,
    targets: ArrayLike,
    *,
    tol: float = 0.0,
    threads: int | None = None,
    progress: Callable[[int], Any] | None = None,
    backend: str = "numba",
) -> Solution:
    """Find, for each row of ``items``, the subset whose sum lies closest to its target.

    For problem p: the mask m in {0, 1}^n' with the least |targets[p] - Σ_k m_k items[p, k]|, the subset-sum
    problem behind Lemma 4 (Lueker 1998). Exact for 1 ≤ n' ≤ 40.

    With ``tol`` > 0 a subset with |residual| ≤ tol is enough: few items are tried first and more only for the
    problems still unsolved. A returned |residual| above ``tol`` means that no subset of the items tried comes
    that close, and up to 40 items all are tried. More than 40 items need ``tol`` > 0; see
    ``strongticket.subsetsum.stages`` for what is tried then.

    Args:
        items: (P, n') finite numbers.
        targets: (P,) finite numbers.
        tol: the |residual| that is good enough; 0 asks for the best subset.
        threads: how many threads to use; every core by default. The result does not depend on it.
        progress: called with the number of problems finished since the last call.
        backend: "numba", "torch" (CUDA where there is one), or the references "gurobi", "highs", "ortools".

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> items, targets = rng.uniform(-1, 1, (1000, 16)), rng.uniform(-1, 1, 1000)
    >>> solution = solve(items, targets)
    >>> bool(np.median(np.abs(solution.residuals)) < 1e-4)
    True
    """
    items, targets = np.asarray(items), np.asarray(targets)
    _check(items, targets, tol)
    return solve_checked(items, targets, tol=tol, threads=threads, progress=progress, backend=backend)


def solve_checked(
    items: NDArray[Any],
    targets: NDArray[Any],
    *,
    tol: float = 0.0,
    threads: int | None = None,
    progress: Callable[[int], Any] | None = None,
    backend: str = "numba",
) -> Solution:
    """``solve`` for arrays that are known to have the right shapes and sums that neither overflow nor are NaN."""
    threads = resolve_threads(threads)
    solver = load_backend(backend)
    masks = np.empty(items.shape, dtype=np.bool_)
    residuals = np.empty(len(targets), dtype=np.float64)

    def work(start: int, stop: int) -> None:
        block, aims = _as_kernels_take_it(items[start:stop]), _as_kernels_take_it(targets[start:stop])
        if tol > 0.0:
            solve_in_stages(solver.solve_block, block, aims, tol, masks[start:stop], residuals[start:stop])
        else:
            solver.solve_block(block, aims, masks[start:stop], residuals[start:stop])

    if len(targets):
        chunk = solver.block_size(min(items.shape[1], MOST_ITEMS))
        run_chunks(work, len(targets), chunk, threads if solver.threaded else 1, progress)
    return Solution(masks, residuals)


def _as_kernels_take_it(array: NDArray[Any]) -> NDArray[np.float64]:
    """The values in the one layout that kernels are compiled for, which a read-only array has not."""
    return np.require(array, np.float64, ["C", "ALIGNED", "WRITEABLE"])


def _check(items: NDArray[Any], targets: NDArray[Any], tol: float) -> None:
    if items.ndim != 2 or targets.ndim != 1 or len(items) != len(targets):
        raise ValueError(
            "items must have the shape (problems, items) and targets (problems,), "
            f"got items of shape {items.shape} and targets of shape {targets.shape}"
        )
    if items.shape[1] == 0:
        raise ValueError(f"each problem needs at least one item, got items of shape {items.shape}")
    if not tol >= 0.0:
        raise ValueError(f"tol must be 0 (the best subset) or a positive |residual|, got {tol}")
    if items.shape[1] > MOST_ITEMS and tol == 0.0:
        raise ValueError(
            f"the best subset can be found among at most {MOST_ITEMS} items, got {items.shape[1]}; "
            "give a tol > 0 to accept the first subset that comes that close"
        )
    for name, array in (("items", items), ("targets", targets)):
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}")
        _check_finite(name, array)
    for start in range(0, len(items), _ROWS_PER_CHECK):
        rows = slice(start, start + _ROWS_PER_CHECK)
        with np.errstate(over="ignore"):
            size = np.abs(items[rows], dtype=np.float64).sum(axis=1) + np.abs(targets[rows], dtype=np.float64)
        if not np.isfinite(size).all():
            row = start + int(np.argmin(np.isfinite(size)))
            raise ValueError(f"the sums of problem {row} overflow float64; scale its items and target down")


def _check_finite(name: str, array: NDArray[Any]) -> None:
    if array.dtype.kind != "f":
        return
    count, first = 0, None
    for start in range(0, len(array), _ROWS_PER_CHECK):
        bad = ~np.isfinite(array[start : start + _ROWS_PER_CHECK])
        found = int(np.count_nonzero(bad))
        if found and first is None:
            where = np.argwhere(bad)[0]
            first = (int(where[0]) + start, *(int(k) for k in where[1:]))
        count += found
    if first is not None:
        raise ValueError(
            f"{name} must be finite, got {count} NaN or infinite value{'s' if count > 1 else ''}, "
            f"the first at {name}[{', '.join(map(str, first))}] = {array[first]}"
        )
