"""Read the layers of BERT models of transformers, which are torch's ``Linear``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.checks import checked_matrix
from strongticket.construct.targets.attention import AttentionTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_attention(model: Any, path: str) -> AttentionTarget:
    """The merged matrices of the ``BertAttention`` at ``path``, such as "encoder.layer.0.attention".

    Per head W_QK has the rows W_Q W_Kᵀ / √d_K and b_Q W_Kᵀ / √d_K, and W_VO the rows W_V W_O and b_V W_O + b_O / H.
    """
    inner = ("self.query", "self.key", "self.value", "output.dense")
    query, key, value, output = (read_linear(model, f"{path}.{name}").T for name in inner)
    heads = model.get_submodule(f"{path}.self").num_attention_heads
    return AttentionTarget.from_biased_matrices(query, key, value, output, heads=heads)


def read_linear(model: Any, path: str) -> NDArray[np.float64]:
    """[W, b] (d_out × (d_in + 1)) of the linear layer at ``path``, such as "encoder.layer.0.intermediate.dense"."""
    layer = model.get_submodule(path)
    weight = checked_matrix(layer.weight, f"{path}.weight")
    bias = checked_matrix(layer.bias[:, None], f"{path}.bias")
    return np.hstack([weight, bias])
