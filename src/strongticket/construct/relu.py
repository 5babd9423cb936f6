"""One matrix from two with a ReLU between them (Lemma 2), and networks of such layers (Theorem 10)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from strongticket.construct.checks import checked_matrix, checked_range
from strongticket.construct.layouts import contiguous, without_useless
from strongticket.construct.linear import resolve_width
from strongticket.construct.pair import ReluPair
from strongticket.construct.prune import Problem
from strongticket.construct.ranges import choose_range
from strongticket.construct.search import Search
from strongticket.source import Source, Uniform
from strongticket.theory import Certificate, network_certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from strongticket.construct.search import Layout
    from strongticket.ticket import Ticket

    Floats = NDArray[np.float64]


def relu(
    W: ArrayLike,
    *,
    items: int | None = None,
    width: int | None = None,
    nonnegative: bool = False,
    seed: int = 0,
    name: str = "relu",
    layout: Layout = "assigned",
    refine: int | None = None,
    seconds: float | None = None,
    range: float | Literal["auto"] = 1.0,
    tol: float = 0.0,
    threads: int | None = None,
    progress: Callable[[int], Any] | None = None,
) -> ReluPair:
    """Prune a random two-layer ReLU network so that it is the linear map ``W``.

    W x ≈ (W2 ⊙ M2) ReLU((W1 ⊙ M1) x) with W1 (n × d1), W2 (d2 × n) from U[-r, r] (Lemma 2). A unit with the one
    kept weight u passes on the positive part of its input for u > 0 and the negative part for u < 0, so each
    entry of W takes two subset sums, of n' = n / (2 d1) products each. ``nonnegative`` inputs, such as those of
    the second layer of a network, need only the positive part: n' = n / d1. Other arguments as in ``linear``;
    here the units always serve inputs.

    >>> pair = relu([[0.5, -0.25]], items=12, seed=1)
    >>> bool(abs(pair(np.array([1.0, -2.0])) - 1.0).max() < 1e-2)
    True
    """
    search = Search(layout=layout, refine=refine, seconds=seconds, tol=tol, threads=threads)
    target = checked_matrix(W, "W")
    columns = target.shape[1] * (1 if nonnegative else 2)
    n = resolve_width(items, width, columns, f"a target of shape {target.shape} through ReLU")
    r = checked_range(range)
    if r is None:
        r = choose_range(target, n // columns, products=layout == "paper")
    sources = (
        Source(seed=seed, name=f"{name}/first", shape=(n, target.shape[1]), law=Uniform(r)),
        Source(seed=seed, name=f"{name}/second", shape=(target.shape[0], n), law=Uniform(r)),
    )
    return prune_relu_pair(target, sources, search, name=name, nonnegative=nonnegative, progress=progress)


def prune_relu_pair(
    target: Floats,
    sources: tuple[Source, Source],
    search: Search,
    *,
    name: str,
    nonnegative: bool,
    progress: Callable[[int], Any] | None = None,
) -> ReluPair:
    """The masks over two given sources; column i of the problem is +x_i, column d1 + i is -x_i."""
    w1, w2 = (source.weights(threads=search.threads) for source in sources)
    u, goal = np.maximum(w1.T, np.float32(0)), target
    blocks = contiguous(len(w1), target.shape[1])
    if not nonnegative:
        u, goal = np.concatenate([u, np.maximum(-w1.T, np.float32(0))]), np.concatenate([target, -target], axis=1)
        blocks = blocks + target.shape[1] * (w1[np.arange(len(w1)), blocks] < 0.0)
    blocks = without_useless(blocks, u)
    problem = Problem(np.ascontiguousarray(goal), u, w2, search.tol, search.threads)
    pruned = search.run(problem, blocks, seed=sources[0].seed, name=name, progress=progress)
    used = np.flatnonzero(pruned.serves >= 0)
    first = np.zeros(w1.shape, dtype=np.bool_)
    first[used, pruned.serves[used] % target.shape[1]] = True
    settings = {"name": name, **asdict(search)}
    return ReluPair(target, sources, (first, pruned.mask), 1.0, settings, nonnegative)


@dataclass(frozen=True, eq=False)
class Network:
    """W_L ReLU(W_{L-1} … ReLU(W_1 x)) as 2 L pruned random layers with ReLU between all of them, Theorem 10."""

    pairs: tuple[ReluPair, ...]

    @property
    def targets(self) -> list[Floats]:
        """The target's matrices W_1 … W_L."""
        return [pair.target for pair in self.pairs]

    @property
    def max_error(self) -> float:
        """The largest error of an entry over all layers."""
        return max(pair.max_error for pair in self.pairs)

    def __call__(self, x: Floats) -> Floats:
        """Run the pruned random weights on the rows of ``x`` (…, d_1)."""
        for pair in self.pairs[:-1]:
            x = np.maximum(pair(x), 0.0)
        return self.pairs[-1](x)

    def layers(self) -> list[Floats | tuple[Floats, Floats]]:
        """What each pair multiplies its input with, in the form that certificates take."""
        return [pair.product() if pair.nonnegative else pair.parts() for pair in self.pairs]

    def ticket(self, *, include_target: bool = True) -> Ticket:
        """The network as a ticket; its target is stored with it unless ``include_target`` is False."""
        from strongticket.construct.tickets import network_ticket

        return network_ticket(self, include_target=include_target)

    def certificate(self, alpha: float) -> Certificate:
        """A bound of the output's error for every input with ‖x‖ ≤ alpha."""
        return network_certificate(self.targets, self.layers(), alpha)


def network(
    weights: Sequence[ArrayLike],
    *,
    items: int | None = None,
    width: int | None = None,
    seed: int = 0,
    name: str = "network",
    progress: Callable[[int], Any] | None = None,
    **settings: Any,
) -> Network:
    """Prune a random ReLU network of 2 L layers into the target with the matrices ``weights`` = W_1 … W_L.

    F(x) = W_L ReLU(W_{L-1} … ReLU(W_1 x)), no biases (Theorem 10). Layer l becomes the pair ``relu(W_l)`` with the
    sources ``name/l``; from the second layer on, inputs are nonnegative. ``items`` or ``width`` hold for every
    layer; other arguments as in ``linear``.

    >>> found = network([[[1.0, -0.5], [0.25, 0.5]], [[0.5, -1.0]]], items=12)
    >>> found(np.array([1.0, 1.0])).shape
    (1,)
    """
    targets = check_layers(weights)
    return Network(
        tuple(
            relu(
                target,
                items=items,
                width=width,
                nonnegative=layer > 0,
                seed=seed,
                name=f"{name}/{layer}",
                progress=progress,
                **settings,
            )
            for layer, target in enumerate(targets)
        )
    )


def check_layers(weights: Sequence[ArrayLike]) -> list[Floats]:
    """The matrices of a ReLU network, checked to follow one another."""
    if len(weights) == 0:
        raise ValueError("a network needs at least one weight matrix, got none")
    targets = [checked_matrix(weight, f"weights[{layer}]") for layer, weight in enumerate(weights)]
    for layer in range(1, len(targets)):
        if targets[layer].shape[1] != targets[layer - 1].shape[0]:
            raise ValueError(
                f"weights[{layer}] of shape {targets[layer].shape} takes {targets[layer].shape[1]} inputs, but "
                f"weights[{layer - 1}] of shape {targets[layer - 1].shape} gives {targets[layer - 1].shape[0]}"
            )
    return targets
