"""Transformers of attention layers and ReLU networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray


class ReluNetwork(nn.Module):
    """x ↦ W_L ReLU(W_{L-1} … ReLU(W_1 x)), of trained matrices or of 2 L pruned random ones."""

    def __init__(self, layers: Sequence[NDArray[np.floating[Any]]]) -> None:
        super().__init__()
        self.depth = len(layers)
        for place, matrix in enumerate(layers):
            self.register_buffer(f"layer_{place}", torch.tensor(matrix))

    def forward(self, x: Tensor) -> Tensor:
        """Run on the last dimension of ``x``."""
        for place in range(self.depth):
            x = (torch.relu(x) if place else x) @ getattr(self, f"layer_{place}").T
        return x


class Transformer(nn.Module):
    """Blocks x ↦ F(Attn(x) + x) + Attn(x) + x one after the other (§3.3)."""

    def __init__(self, attentions: Sequence[nn.Module], networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.attentions, self.networks = nn.ModuleList(attentions), nn.ModuleList(networks)

    def states(self, x: Tensor, **masks: Any) -> Iterator[Tensor]:
        """The output of each block in turn; ``masks`` as in torch's attention."""
        for attention, network in zip(self.attentions, self.networks, strict=True):
            x = attention(x, need_weights=False, **masks)[0] + x
            x = network(x) + x
            yield x

    def forward(self, x: Tensor, **masks: Any) -> Tensor:
        """The output of the last block."""
        for state in self.states(x, **masks):
            x = state
        return x
