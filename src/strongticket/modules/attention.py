"""Attention layers: the pruned random weights as they are, and their folded equivalent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from strongticket.modules.maps import with_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Arrays = Sequence[NDArray[np.floating[Any]]]


def _stack(matrices: Arrays) -> Tensor:
    return torch.stack([torch.as_tensor(matrix) for matrix in matrices])


class _Attention(nn.Module):
    """What both forms share: torch's calling convention, masks and softmax."""

    def __init__(self, *, bias: bool, batch_first: bool) -> None:
        super().__init__()
        self.bias, self.batch_first = bias, batch_first

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        """(N, H, L, S) from queries (N, 1, L, d_q (+1)) and keys (N, 1, S, d_k)."""
        raise NotImplementedError

    def mix(self, weights: Tensor, value: Tensor) -> Tensor:
        """(N, L, d2) from attention weights (N, H, L, S) and values (N, 1, S, d_v (+1))."""
        raise NotImplementedError

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Called and answering like ``torch.nn.MultiheadAttention``; ``key`` and ``value`` default to ``query``.

        Masks follow torch: True, or -inf, forbids a position. ``is_causal`` without ``attn_mask`` lets each
        position attend to itself and those before it.
        """
        key = query if key is None else key
        value = key if value is None else value
        batched = query.dim() == 3
        if not batched:
            query, key, value = (x[None] for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        logits = self.logits(with_one(query, self.bias)[:, None], key[:, None])
        if is_causal and attn_mask is None:
            attn_mask = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        if attn_mask is not None:
            if attn_mask.dim() == 3:
                attn_mask = attn_mask.reshape(-1, logits.shape[1], *attn_mask.shape[1:])
            logits = _masked(logits, attn_mask)
        if key_padding_mask is not None:
            logits = _masked(logits, key_padding_mask[:, None, None])
        weights = logits.softmax(dim=-1)
        out = self.mix(weights, with_one(value, self.bias)[:, None])
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            out, weights = out[0], weights[0]
        elif not self.batch_first:
            out = out.transpose(0, 1)
        return out, weights if need_weights else None


def _masked(logits: Tensor, mask: Tensor) -> Tensor:
    return logits.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else logits + mask


class TicketAttention(_Attention):
    """Attention with its own four projections per head, such as pruned random weights.

    head_j = softmax(x̃ᵀ W_Q (Y W_K)ᵀ / √n_K) Ỹ W_V W_O, summed over heads (Equation 2); ``query`` is W_Q
    (d_q × n_K), ``key`` W_Kᵀ (n_K × d_k), ``value`` W_Vᵀ (n_V × d_v) and ``output`` W_Oᵀ (d2 × n_V), lists over heads.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor

    def __init__(
        self,
        query: Arrays,
        key: Arrays,
        value: Arrays,
        output: Arrays,
        *,
        bias: bool,
        batch_first: bool = True,
    ) -> None:
        super().__init__(bias=bias, batch_first=batch_first)
        named = {"query": query, "key": key, "value": value, "output": output}
        for name, matrices in named.items():
            self.register_buffer(name, _stack(matrices))

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        """(x̃ W_Q)(Y W_K)ᵀ / √n_K."""
        keys = key @ self.key.transpose(-1, -2)
        return (query @ self.query) @ keys.transpose(-1, -2) / math.sqrt(self.query.shape[-1])

    def mix(self, weights: Tensor, value: Tensor) -> Tensor:
        """Σ_j p_j Ỹ W_V W_O."""
        values = value @ self.value.transpose(-1, -2)
        return ((weights @ values) @ self.output.transpose(-1, -2)).sum(dim=1)


class MergedAttention(_Attention):
    """Attention with merged matrices: Σ_j softmax(x̃ᵀ W_QK Yᵀ) Ỹ W_VO (Equations 10 and 11)."""

    qk: Tensor
    vo: Tensor

    def __init__(self, qk: Arrays, vo: Arrays, *, bias: bool, batch_first: bool = True) -> None:
        super().__init__(bias=bias, batch_first=batch_first)
        self.register_buffer("qk", _stack(qk))
        self.register_buffer("vo", _stack(vo))

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        """x̃ᵀ W_QK Yᵀ."""
        return (query @ self.qk) @ key.transpose(-1, -2)

    def mix(self, weights: Tensor, value: Tensor) -> Tensor:
        """Σ_j p_j Ỹ W_VO."""
        return ((weights @ value) @ self.vo).sum(dim=1)
