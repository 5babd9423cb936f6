"""The paper's transformer block: attention and a ReLU network, both residual, no normalisation (§3.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from strongticket.construct.relu import check_layers
from strongticket.construct.targets.torch_attention import as_attention_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import torch
    from numpy.typing import ArrayLike, NDArray

    from strongticket.construct.targets.attention import AttentionTarget


@dataclass(frozen=True, eq=False, init=False)
class BlockTarget:
    """x ↦ F(Attn(x) + x) + Attn(x) + x with F(x) = W_L ReLU(W_{L-1} … ReLU(W_1 x)); ``layers`` = W_1 … W_L.

    The attention is an ``AttentionTarget`` or torch's layer. Blocks run on inputs (N, T, d) or (T, d), whatever its
    ``batch_first`` says.

    >>> import numpy as np
    >>> from strongticket.construct.targets.attention import AttentionTarget
    >>> eye = np.eye(2)[None]
    >>> block = BlockTarget(AttentionTarget.from_matrices(eye, eye, eye, eye), [0.5 * np.eye(2)])
    >>> block.size
    2
    """

    attention: AttentionTarget
    layers: tuple[NDArray[np.float64], ...]

    def __init__(self, attention: AttentionTarget | torch.nn.MultiheadAttention, layers: Sequence[ArrayLike]) -> None:
        """Check that every part maps vectors of one size to vectors of that size."""
        attention = replace(as_attention_target(attention), batch_first=True)
        matrices = check_layers(layers)
        size = matrices[0].shape[1]
        shapes = {
            "query": attention.qk[0].shape[0] - attention.bias,
            "key": attention.qk[0].shape[1],
            "value": attention.vo[0].shape[0] - attention.bias,
            "attention output": attention.vo[0].shape[1],
            "network output": matrices[-1].shape[0],
        }
        for part, found in shapes.items():
            if found != size:
                raise ValueError(
                    f"a residual block keeps the size of its input, but the network takes {size} and the "
                    f"{part} has {found}"
                )
        object.__setattr__(self, "attention", attention)
        object.__setattr__(self, "layers", tuple(matrices))

    @property
    def size(self) -> int:
        """The size of the vectors that the block maps, d."""
        return self.layers[0].shape[1]
