"""One matrix from two: Lemma 4 (and its restatement, Lemma 7)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from strongticket.construct.checks import checked_matrix, checked_range
from strongticket.construct.layouts import contiguous
from strongticket.construct.pair import Pair
from strongticket.construct.prune import Problem
from strongticket.construct.ranges import choose_range, largest_scale_range
from strongticket.construct.search import Search
from strongticket.construct.spares import spares_help
from strongticket.source import Source, Uniform

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from strongticket.construct.search import Layout

    Mask = NDArray[np.bool_]

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
    columns = target.shape[1] if units_serve_inputs(target.shape, layout) else target.shape[0]
    n = resolve_width(items, width, columns, f"a target of shape {target.shape}")
    r = checked_range(range)
    if r is None:
        r = auto_range(target, n, layout)
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
    w1, w2 = (source.weights(threads=search.threads) for source in sources)
    masks, _ = solve_pair(target, w1, w2, search, seed=sources[0].seed, name=name, scale=scale, progress=progress)
    return Pair(target, sources, masks, scale, {"name": name, **asdict(search)})


def solve_pair(
    target: NDArray[np.float64],
    w1: NDArray[np.float32],
    w2: NDArray[np.float32],
    search: Search,
    *,
    seed: int,
    name: str,
    scale: float = 1.0,
    progress: Callable[[int], Any] | None = None,
) -> tuple[tuple[Mask, Mask], NDArray[np.float64]]:
    """The masks over the weights W1 (n × d1) and W2 (d2 × n), and the error of every entry of ``target``."""
    by_input = units_serve_inputs(target.shape, search.layout)
    goal, u, v = (target, w1.T, w2) if by_input else (target.T, w2, w1.T)
    problem = Problem(np.ascontiguousarray(goal), u, v, search.tol, search.threads, scale)
    blocks = contiguous(problem.units, problem.columns)
    pruned = search.run(problem, blocks, seed=seed, name=name, progress=progress)
    used = np.flatnonzero(pruned.serves >= 0)
    if by_input:
        chosen = np.zeros(w1.shape, dtype=np.bool_)
        chosen[used, pruned.serves[used]] = True
        return (chosen, pruned.mask), pruned.error
    chosen = np.zeros(w2.shape, dtype=np.bool_)
    chosen[pruned.serves[used], used] = True
    return (pruned.mask.T, chosen), pruned.error.T


def units_serve_inputs(shape: tuple[int, int], layout: Layout) -> bool:
    """Whether each unit serves one input, a column of the target, or one output: the proof's way, or the fewer.

    >>> units_serve_inputs((2, 3), "assigned"), units_serve_inputs((2, 3), "paper")
    (False, True)
    """
    return layout == "paper" or shape[1] <= shape[0]


def auto_range(target: NDArray[np.float64], units: int, layout: Layout) -> float:
    """The range of sources with so many units for ``target``, chosen as fits the layout; see ``ranges``."""
    goal = target if units_serve_inputs(target.shape, layout) else target.T
    items = units // goal.shape[1]
    if layout != "paper" and spares_help(goal.shape[1], units):
        return largest_scale_range(goal, items)
    return choose_range(target, items, products=layout == "paper")
