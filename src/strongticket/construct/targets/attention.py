"""An attention layer as its merged matrices, two per head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.checks import checked_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttentionTarget:
    """Σ_j softmax(x̃ᵀ W_QK⁽ʲ⁾ Yᵀ) Ỹ W_VO⁽ʲ⁾, the merged form of attention (Equations 10 and 11).

    ``qk`` holds W_QK = W_Q W_Kᵀ / √d_K, one (d_q × d_k) matrix per head, and ``vo`` W_VO = W_V W_O (d_v × d2). With
    ``bias`` a one is appended to queries and values, x̃ = [x, 1], and both have one more row: b_Q W_Kᵀ / √d_K and
    b_V W_O + b_O / H. The terms with b_K are the same for every key and cancel in the softmax.
    """

    qk: tuple[Floats, ...]
    vo: tuple[Floats, ...]
    bias: bool = False
    batch_first: bool = True

    def __post_init__(self) -> None:
        """Check every matrix, and that all heads have the same shapes."""
        if not self.qk or len(self.qk) != len(self.vo):
            raise ValueError(f"every head needs one matrix in qk and one in vo, got {len(self.qk)} and {len(self.vo)}")
        for name in ("qk", "vo"):
            matrices = tuple(checked_matrix(m, f"{name}[{j}]") for j, m in enumerate(getattr(self, name)))
            shapes = sorted({matrix.shape for matrix in matrices})
            if len(shapes) > 1:
                raise ValueError(f"{name} must have one shape for all heads, got {shapes}")
            if self.bias and shapes[0][0] < 2:
                raise ValueError(f"{name} with the row of a bias needs at least two rows, got {shapes[0]}")
            object.__setattr__(self, name, matrices)

    @property
    def heads(self) -> int:
        """The number of heads, H."""
        return len(self.qk)

    @classmethod
    def from_matrices(
        cls,
        query: ArrayLike | Sequence[ArrayLike],
        key: ArrayLike | Sequence[ArrayLike],
        value: ArrayLike | Sequence[ArrayLike],
        output: ArrayLike | Sequence[ArrayLike],
        *,
        heads: int | None = None,
    ) -> AttentionTarget:
        """The paper's attention (§2.2), without biases, from its projections.

        Either one matrix per head, W_Q (d1 × d_K), W_K (d1 × d_K), W_V (d1 × d_V) and W_O (d_V × d2), or, with
        ``heads``, packed matrices (d1 × H d_K), (d1 × H d_K), (d1 × H d_V) and (H d_V × d2).

        >>> rng = np.random.default_rng(0)
        >>> q, k, v = rng.normal(size=(3, 2, 4, 8))
        >>> o = rng.normal(size=(2, 8, 3))
        >>> target = AttentionTarget.from_matrices(q, k, v, o)
        >>> target.heads, target.qk[0].shape, target.vo[0].shape
        (2, (4, 4), (4, 3))
        """
        split = {
            name: _per_head(matrices, name, heads, axis=0 if name == "output" else 1)
            for name, matrices in (("query", query), ("key", key), ("value", value), ("output", output))
        }
        counts = {name: len(matrices) for name, matrices in split.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(f"every projection needs one matrix per head, got {counts}")
        for j, (q, k, v, o) in enumerate(zip(*split.values(), strict=True)):
            if q.shape[1] != k.shape[1] or v.shape[1] != o.shape[0]:
                raise ValueError(
                    f"head {j}: query {q.shape} and key {k.shape} must have as many columns, and value {v.shape} "
                    f"as many as output {o.shape} has rows"
                )
        return cls(
            tuple(q @ k.T / math.sqrt(q.shape[1]) for q, k in zip(split["query"], split["key"], strict=True)),
            tuple(v @ o for v, o in zip(split["value"], split["output"], strict=True)),
        )

    @classmethod
    def from_biased_matrices(
        cls, query: Floats, key: Floats, value: Floats, output: Floats, *, heads: int
    ) -> AttentionTarget:
        """Attention with biases from its packed projections, each with its bias as one more row at the end.

        >>> q, k, v, o = np.random.default_rng(0).normal(size=(4, 7, 6))
        >>> target = AttentionTarget.from_biased_matrices(q, k, v, o, heads=2)
        >>> target.qk[0].shape, target.vo[0].shape
        ((7, 6), (7, 6))
        """
        merged = cls.from_matrices(query, key[:-1], value, output[:-1], heads=heads)
        vo = tuple(np.vstack([matrix[:-1], matrix[-1] + output[-1] / heads]) for matrix in merged.vo)
        return cls(merged.qk, vo, bias=True)


def _per_head(matrices: Any, name: str, heads: int | None, axis: int) -> list[Floats]:
    if heads is None:
        if any(np.ndim(matrix) == 1 for matrix in matrices):
            raise ValueError(f"{name} must hold one matrix per head, got a single matrix; say heads= if it is packed")
        return [checked_matrix(matrix, f"{name}[{j}]") for j, matrix in enumerate(matrices)]
    packed = checked_matrix(matrices, name)
    if heads < 1 or packed.shape[axis] % heads:
        raise ValueError(
            f"heads must divide the packed size: {name} of shape {packed.shape} has {packed.shape[axis]} "
            f"{'rows' if axis == 0 else 'columns'}, which {heads} heads do not divide"
        )
    return np.split(packed, heads, axis=axis)
