"""Read ``torch.nn.MultiheadAttention``."""

from __future__ import annotations

import math
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
    size, heads = layer.embed_dim, layer.num_heads
    if layer.in_proj_weight is not None:
        projections = np.split(checked_matrix(layer.in_proj_weight, "in_proj_weight"), 3)
    else:
        named = (
            (layer.q_proj_weight, "q_proj_weight"),
            (layer.k_proj_weight, "k_proj_weight"),
            (layer.v_proj_weight, "v_proj_weight"),
        )
        projections = [checked_matrix(weight, name) for weight, name in named]
    query, key, value = (np.split(projection, heads) for projection in projections)
    output = np.split(checked_matrix(layer.out_proj.weight, "out_proj.weight").T, heads)
    root = math.sqrt(size // heads)
    qk = [q.T @ k / root for q, k in zip(query, key, strict=True)]
    vo = [v.T @ o for v, o in zip(value, output, strict=True)]
    bias = layer.in_proj_bias is not None
    if bias:
        in_bias = checked_matrix(layer.in_proj_bias[None], "in_proj_bias")[0]
        out_bias = checked_matrix(layer.out_proj.bias[None], "out_proj.bias")[0]
        of_query, _, of_value = (part.reshape(heads, -1) for part in np.split(in_bias, 3))
        qk = [np.vstack([m, b @ k / root]) for m, b, k in zip(qk, of_query, key, strict=True)]
        vo = [np.vstack([m, b @ o + out_bias / heads]) for m, b, o in zip(vo, of_value, output, strict=True)]
    return AttentionTarget(tuple(qk), tuple(vo), bias, bool(layer.batch_first))


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
