"""Read ``torch.nn.MultiheadAttention``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from strongticket.construct.checks import checked_matrix
from strongticket.construct.targets.attention import AttentionTarget

if TYPE_CHECKING:
    import torch


def read_multihead_attention(layer: torch.nn.MultiheadAttention) -> AttentionTarget:
    """The merged matrices of torch's attention layer, with or without biases, ``kdim`` and ``vdim`` included.

    >>> import torch
    >>> target = read_multihead_attention(torch.nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=True))
    >>> target.qk[0].shape, target.vo[0].shape, target.bias
    ((9, 5), (7, 8), True)
    """
    if layer.bias_k is not None or layer.bias_v is not None or layer.add_zero_attn:
        raise ValueError(
            "MultiheadAttention with add_bias_kv or add_zero_attn attends to positions that no input has, "
            "which merged matrices cannot express; build the layer without them"
        )
    if layer.in_proj_weight is not None:
        projections = np.split(checked_matrix(layer.in_proj_weight, "in_proj_weight"), 3)
    else:
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        projections = [checked_matrix(getattr(layer, name), name) for name in names]
    packed = [matrix.T for matrix in (*projections, checked_matrix(layer.out_proj.weight, "out_proj.weight"))]
    if layer.in_proj_bias is None:
        target = AttentionTarget.from_matrices(*packed, heads=layer.num_heads)
    else:
        biases = np.split(checked_matrix(layer.in_proj_bias[None], "in_proj_bias"), 3, axis=1)
        biases.append(checked_matrix(layer.out_proj.bias[None], "out_proj.bias"))
        biased = (np.vstack(pair) for pair in zip(packed, biases, strict=True))
        target = AttentionTarget.from_biased_matrices(*biased, heads=layer.num_heads)
    return replace(target, batch_first=bool(layer.batch_first))


def as_attention_target(target: torch.nn.MultiheadAttention | AttentionTarget) -> AttentionTarget:
    """``target`` itself, or what the reader of its framework makes of it."""
    if isinstance(target, AttentionTarget):
        return target
    import torch

    if isinstance(target, torch.nn.MultiheadAttention):
        return read_multihead_attention(target)
    raise ValueError(
        f"the target must be torch.nn.MultiheadAttention or an AttentionTarget, got {type(target).__name__}; "
        "AttentionTarget.from_matrices takes plain matrices"
    )
