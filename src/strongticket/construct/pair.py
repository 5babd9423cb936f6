"""Two pruned random matrices that stand in for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strongticket.source import Source
    from strongticket.ticket import Ticket

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pair:
    """W (d2 × d1) ≈ scale · (W2 ⊙ M2)(W1 ⊙ M1), Lemma 4: two sources, two masks, and the target W.

    ``sources`` are W1 (n × d1) and W2 (d2 × n), ``masks`` M1 and M2 of the same shapes; ``settings`` says how
    the masks were found. ``scale`` is 1 but for query and key, where it is attention's 1/√n_K.
    """

    target: Floats
    sources: tuple[Source, Source]
    masks: tuple[Mask, Mask]
    scale: float = 1.0
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """The number of hidden units, n."""
        return self.sources[0].shape[0]

    @property
    def density(self) -> float:
        """The fraction of the weights that is kept."""
        return sum(int(m.sum()) for m in self.masks) / sum(m.size for m in self.masks)

    def weights(self) -> tuple[Floats, Floats]:
        """The pruned weights W1 ⊙ M1 and W2 ⊙ M2, drawn anew from the sources, in float64."""
        first, second = (
            np.where(mask, source.weights(), np.float32(0)).astype(np.float64)
            for source, mask in zip(self.sources, self.masks, strict=True)
        )
        return first, second

    def product(self) -> Floats:
        """scale · (W2 ⊙ M2)(W1 ⊙ M1) in float64, from the real masked weights."""
        first, second = self.weights()
        return self.scale * (second @ first)

    def errors(self) -> Floats:
        """The target minus the product, entry by entry."""
        return self.target - self.product()

    def ticket(self, *, include_target: bool = True) -> Ticket:
        """The pair as a ticket; its target is stored with it unless ``include_target`` is False."""
        from strongticket.construct.tickets import pair_ticket

        return pair_ticket(self, include_target=include_target)

    @cached_property
    def max_error(self) -> float:
        """The largest |target - product| of an entry."""
        return float(np.abs(self.errors()).max())


@dataclass(frozen=True, eq=False)
class ReluPair(Pair):
    """W x ≈ (W2 ⊙ M2) ReLU((W1 ⊙ M1) x), Lemma 2.

    Each row of W1 ⊙ M1 has one weight u, and ReLU(u x_i) is u ReLU(x_i) for u > 0 and |u| ReLU(-x_i) for u < 0.
    So the pair maps x to P ReLU(x) + N ReLU(-x); P is to be W, and N is to be -W unless the inputs are known to
    be ``nonnegative``.
    """

    nonnegative: bool = False

    def __call__(self, x: Floats) -> Floats:
        """Run the pruned random weights on the rows of ``x`` (…, d1)."""
        first, second = self.weights()
        return np.maximum(x @ first.T, 0.0) @ second.T

    def parts(self) -> tuple[Floats, Floats]:
        """P and N in float64, from the real masked weights."""
        first, second = self.weights()
        return second @ np.maximum(first, 0.0), second @ np.maximum(-first, 0.0)

    def product(self) -> Floats:
        """P, what the pair multiplies ReLU(x) with."""
        return self.parts()[0]

    def errors(self) -> Floats:
        """[W - P, -W - N], or only W - P where inputs are nonnegative."""
        positive, negative = self.parts()
        if self.nonnegative:
            return self.target - positive
        return np.concatenate([self.target - positive, -self.target - negative], axis=1)
