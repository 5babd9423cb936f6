"""Attention written out by hand around torch's scaled_dot_product_attention, and one example of every kind of mask."""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

MASKS = (
    "none",
    "boolean",
    "boolean per head",
    "additive",
    "additive per head",
    "causal",
    "padding",
    "additive padding",
    "boolean and padding",
    "additive and padding",
    "causal and padding",
)


def example_mask(kind, *, batch, heads, queries, keys, dtype=torch.float64):
    """Arguments of torch.nn.MultiheadAttention; every query may attend to the first key."""
    generator = torch.Generator().manual_seed(5)

    def forbidden(*shape):
        drawn = torch.rand(shape, generator=generator) < 0.4
        drawn[..., 0] = False
        return drawn

    def additive(*shape):
        return torch.randn(shape, generator=generator, dtype=dtype).masked_fill(forbidden(*shape), -math.inf)

    whole, per_head, padding = (queries, keys), (batch * heads, queries, keys), (batch, keys)
    return {
        "none": lambda: {},
        "boolean": lambda: {"attn_mask": forbidden(*whole)},
        "boolean per head": lambda: {"attn_mask": forbidden(*per_head)},
        "additive": lambda: {"attn_mask": additive(*whole)},
        "additive per head": lambda: {"attn_mask": additive(*per_head)},
        "causal": lambda: {"attn_mask": causal(queries, keys), "is_causal": True},
        "padding": lambda: {"key_padding_mask": forbidden(*padding)},
        "additive padding": lambda: {"key_padding_mask": additive(*padding)},
        "boolean and padding": lambda: {
            "attn_mask": forbidden(*whole),
            "key_padding_mask": forbidden(*padding),
        },
        "additive and padding": lambda: {
            "attn_mask": additive(*whole),
            "key_padding_mask": additive(*padding),
        },
        "causal and padding": lambda: {
            "attn_mask": causal(queries, keys),
            "key_padding_mask": forbidden(*padding),
        },
    }[kind]()


def causal(queries, keys):
    return torch.ones(queries, keys, dtype=torch.bool).triu(1)


def attention_by_hand(weights, query, key, value, bias, attn_mask=None, key_padding_mask=None, is_causal=False):
    """Output and weights per head for inputs (N, T, d); ``weights`` are W_Q, W_Kᵀ, W_Vᵀ, W_Oᵀ, lists over heads."""
    heads, dtype = len(weights[0]), query.dtype
    outputs, attended = [], []
    for n in range(len(query)):
        total, probabilities = 0.0, []
        for j in range(heads):
            w_q, w_k, w_v, w_o = (torch.as_tensor(part[j]).to(dtype) for part in weights)
            x, z = (one_more(query[n]), one_more(value[n])) if bias else (query[n], value[n])
            q, k, v = x @ w_q, key[n] @ w_k.T, z @ w_v.T
            added = torch.zeros(len(q), len(k), dtype=dtype)
            for mask in (
                attn_mask[n * heads + j] if attn_mask is not None and attn_mask.dim() == 3 else attn_mask,
                None if key_padding_mask is None else key_padding_mask[n][None],
                causal(len(q), len(k)) if is_causal else None,
            ):
                if mask is not None:
                    allowed = torch.zeros(mask.shape, dtype=dtype)
                    added = added + (allowed.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else mask)
            head = scaled_dot_product_attention(q, k, v, attn_mask=added, scale=1 / math.sqrt(w_q.shape[1]))
            total = total + head @ w_o.T
            probabilities.append(torch.softmax(q @ k.T / math.sqrt(w_q.shape[1]) + added, dim=1))
        outputs.append(total)
        attended.append(torch.stack(probabilities))
    return torch.stack(outputs), torch.stack(attended)


def one_more(x):
    return torch.nn.functional.pad(x, (0, 1), value=1.0)


def inputs(*sizes, seed=1, dtype=torch.float64):
    """Random inputs of the given shapes."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in sizes]
