"""One matrix from two: Lemma 4 (and its restatement, Lemma 7)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from strongticket.construct.checks import checked_matrix, checked_range
from strongticket.construct.layouts import contiguous
from strongticket.construct.pair import Pair
from strongticket.construct.prune import Problem
from strongticket.construct.ranges import choose_range
from strongticket.construct.search import Search
from strongticket.source import Source, Uniform

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from strongticket.construct.search import Layout

DEFAULT_ITEMS = 16


def linear(
    W: ArrayLike,
    *,
    items: int | None = None,
    width: int | None = None,
    seed: int = 0,
    name: str = "linear",
    layout: Layout = "assigned",
    refine: int | None = None,
    seconds: float | None = None,
    range: float | Literal["auto"] = 1.0,
    tol: float = 0.0,
    threads: int | None = None,
    progress: Callable[[int], Any] | None = None,
) -> Pair:
    """Prune two random matrices so that their product is ``W``.

    W (d2 × d1) ≈ (W2 ⊙ M2)(W1 ⊙ M1) with W1 (n × d1) and W2 (d2 × n) from U[-r, r], drawn once from ``seed``
    and ``name`` before W is looked at (Lemma 4). Each hidden unit serves one input (or one output), so each
    entry of W is a subset sum of n' products of two random weights.

    Args:
        W: the target matrix.
        items: n', how many products may sum to one entry; 16 unless ``width`` is given.
        width: n, the number of hidden units, instead of ``items``.
        seed: the seed of the sources.
        name: the name of the sources; other names give other weights.
        layout: "assigned", or "paper" for the proof's block-diagonal form.
        refine: rounds of the swap search; by default about a second for a 16 × 16 matrix, 0 for none.
        seconds: end the swap search early; the result then depends on the machine.
        range: r, or "auto" to choose it from the target by ``strongticket.construct.ranges``.
        tol: an entry error that is good enough; 0 asks for the best masks.
        threads: how many threads to use; every core by default. The result does not depend on it.
        progress: called with the number of subset sums solved since the last call.

    >>> pair = linear([[0.5, -0.25], [0.125, 0.75]], items=12, seed=1)
    >>> pair.max_error < 1e-3
    True
    """
    search = Search(layout=layout, refine=refine, seconds=seconds, tol=tol, threads=threads)
    target = checked_matrix(W, "W")
    columns = target.shape[1] if layout == "paper" else min(target.shape)
    n = resolve_width(items, width, columns, f"a target of shape {target.shape}")
    r = checked_range(range)
    if r is None:
        r = choose_range(target, n // columns, products=layout == "paper")
    sources = (
        Source(seed=seed, name=f"{name}/first", shape=(n, target.shape[1]), law=Uniform(r)),
        Source(seed=seed, name=f"{name}/second", shape=(target.shape[0], n), law=Uniform(r)),
    )
    return prune_pair(target, sources, search, name=name, progress=progress)


def resolve_width(items: int | None, width: int | None, columns: int, what: str) -> int:
    """n from the number of items or of units, whichever is given; ``columns`` share the units of ``what``."""
    if items is not None and width is not None:
        raise ValueError(f"give items or width, not both: got items={items} and width={width}")
    if width is None:
        items = DEFAULT_ITEMS if items is None else items
        if items < 1:
            raise ValueError(f"items must be at least 1, got {items}")
        return items * columns
    if width < columns:
        raise ValueError(
            f"width must be at least {columns} for {what}, so that every subset sum has an item, got {width}; "
            f"a width of {DEFAULT_ITEMS * columns} gives {DEFAULT_ITEMS} items"
        )
    return width


def prune_pair(
    target: NDArray[np.float64],
    sources: tuple[Source, Source],
    search: Search,
    *,
    name: str,
    scale: float = 1.0,
    progress: Callable[[int], Any] | None = None,
) -> Pair:
    """The masks over two given sources W1 (n × d1), W2 (d2 × n) so that scale·(W2 ⊙ M2)(W1 ⊙ M1) is ``target``."""
    w1, w2 = (source.weights().astype(np.float64) for source in sources)
    by_input = search.layout == "paper" or target.shape[1] <= target.shape[0]
    goal, u, v = (target, w1.T, w2) if by_input else (target.T, w2, w1.T)
    if scale != 1.0:
        u, v = u * math.sqrt(scale), v * math.sqrt(scale)
    problem = Problem(np.ascontiguousarray(goal), u, v, search.tol, search.threads)
    blocks = contiguous(problem.units, problem.columns)
    pruned = search.run(problem, blocks, seed=sources[0].seed, name=name, progress=progress)
    chosen = np.zeros(u.shape, dtype=np.bool_)
    used = np.flatnonzero(pruned.serves >= 0)
    chosen[pruned.serves[used], used] = True
    masks = (chosen.T.copy(), pruned.mask) if by_input else (pruned.mask.T.copy(), chosen)
    return Pair(target, sources, masks, scale, {"name": name, **asdict(search)})
