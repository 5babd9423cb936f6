"""Read the layers of GPT-2 models of transformers, which are ``Conv1D``: x ↦ x W + b with W (d_in × d_out)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.checks import checked_matrix
from strongticket.construct.targets.attention import AttentionTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_attention(model: Any, path: str) -> AttentionTarget:
    """The merged matrices of the ``GPT2Attention`` at ``path``, such as "h.0.attn".

    Per head W_QK has the rows s W_Q W_Kᵀ and s b_Q W_Kᵀ, and W_VO the rows W_V W_O and b_V W_O + b_O / H. The layer's
    own scaling s is 1 / √d_K, unless the configuration turns it off or divides it by the number of the layer.
    """
    layer = model.get_submodule(path)
    query, key, value = np.split(read_linear(model, f"{path}.c_attn").T, 3, axis=1)
    output = read_linear(model, f"{path}.c_proj").T
    relative = layer.scaling * math.sqrt(layer.head_dim)
    return AttentionTarget.from_biased_matrices(relative * query, key, value, output, heads=layer.num_heads)


def read_linear(model: Any, path: str) -> NDArray[np.float64]:
    """[Wᵀ, b] (d_out × (d_in + 1)) of the ``Conv1D`` at ``path``, such as "h.0.mlp.c_fc"."""
    layer = model.get_submodule(path)
    weight = checked_matrix(layer.weight, f"{path}.weight")
    bias = checked_matrix(layer.bias[:, None], f"{path}.bias")
    return np.hstack([weight.T, bias])
