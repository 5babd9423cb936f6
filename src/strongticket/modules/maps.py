"""Linear maps with their bias inside: one matrix, or two pruned random matrices as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.floating[Any]]

HIDDEN_BYTES = 2**24


def with_one(x: Tensor, bias: bool) -> Tensor:
    """x̃ = [x, 1] with a ``bias``, otherwise x."""
    return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1) if bias else x


def _tensor(matrix: Array) -> Tensor:
    return torch.tensor(np.ascontiguousarray(matrix))


class MergedMap(nn.Module):
    """x ↦ W x̃ with x̃ = [x, 1], or x̃ = x without ``bias``; ``matrix`` is W (d_out × d_in (+1))."""

    matrix: Tensor

    def __init__(self, matrix: Array, *, bias: bool = True) -> None:
        super().__init__()
        self.bias = bias
        self.register_buffer("matrix", _tensor(matrix))

    def forward(self, x: Tensor) -> Tensor:
        """Map the last dimension of ``x``."""
        if self.bias:
            return nn.functional.linear(x, self.matrix[:, :-1], self.matrix[:, -1])
        return nn.functional.linear(x, self.matrix)


class PrunedMap(nn.Module):
    """x ↦ s W₂ W₁ x̃ through two pruned random matrices, one of which keeps a single weight per hidden unit.

    Hidden units come in c groups of m, one group per entry of x̃ with ``units_first`` and one per output without.
    ``units`` (c × m) has the one kept weight of each unit, zero where a group is smaller than m, and ``dense`` the
    other matrix, on whose side all weights may be kept:

    - ``units_first``: y = s Σ_ik x̃_i units_ik dense_ik, with ``dense`` (c m × d_out);
    - otherwise: y_i = s Σ_k units_ik (x̃ᵀ dense)_ik, with ``dense`` (d_in (+1) × c m).
    """

    units: Tensor
    dense: Tensor

    def __init__(self, units: Array, dense: Array, *, units_first: bool, scale: float = 1.0, bias: bool = True) -> None:
        super().__init__()
        self.units_first, self.scale, self.bias = units_first, scale, bias
        self.register_buffer("units", _tensor(units))
        self.register_buffer("dense", _tensor(dense))

    def forward(self, x: Tensor) -> Tensor:
        """Map the last dimension of ``x``, some positions at a time so that the hidden units stay within 16 MB."""
        positions = max(1, HIDDEN_BYTES // (self.units.numel() * x.element_size()))
        parts = x.reshape(-1, x.shape[-1]).split(positions)
        y = torch.cat([self._map(with_one(part, self.bias)) for part in parts])
        return y.reshape(*x.shape[:-1], y.shape[-1])

    def _map(self, x: Tensor) -> Tensor:
        if self.units_first:
            return self.scale * ((x[:, :, None] * self.units).flatten(1) @ self.dense)
        return self.scale * ((x @ self.dense).unflatten(1, self.units.shape) * self.units).sum(-1)
