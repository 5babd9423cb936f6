"""Which parameters of a module are linear layers and embeddings, and which parts of them are query and key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

QUERY = frozenset({"q", "q_proj", "q_lin", "q_attn", "query", "query_proj", "to_q", "wq"})
KEY = frozenset({"k", "k_proj", "k_lin", "key", "key_proj", "to_k", "wk"})
FUSED_BY_HEAD = frozenset({"query_key_value", "qkv_proj", "Wqkv", "qkv", "in_proj"})
RESIDUAL = frozenset({"c_proj", "o_proj", "out_proj", "down_proj", "fc2", "linear2", "dense_4h_to_h", "out_lin"})


@dataclass(frozen=True, slots=True)
class Part:
    """A range of one axis of a parameter and what it computes: query, key or value."""

    role: str
    axis: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Layer:
    """One weight tensor: its name among the model's parameters and what it is used for."""

    name: str
    shape: tuple[int, ...]
    embedding: bool
    fan_in: int
    residual: bool
    parts: tuple[Part, ...]
    """How the tensor divides into query, key and value; empty where it is none of them or unknown."""
    unknown_layout: bool = False


def find_layers(model: nn.Module) -> list[Layer]:
    """Every linear layer and embedding of ``model``; a tensor with several names (a tied head) appears once.

    >>> model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    >>> model[1].weight = model[0].weight
    >>> [(layer.name, layer.embedding) for layer in find_layers(model)]
    [('0.weight', True)]
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found: dict[int, Layer] = {}
    for path, module in model.named_modules():
        for attribute in ("weight", "in_proj_weight"):
            parameter = getattr(module, attribute, None)
            if isinstance(parameter, nn.Parameter) and id(parameter) not in found:
                layer = _layer(names[id(parameter)], path, module, attribute, tuple(parameter.shape))
                if layer is not None:
                    found[id(parameter)] = layer
    return list(found.values())


def _layer(name: str, path: str, module: nn.Module, attribute: str, shape: tuple[int, ...]) -> Layer | None:
    last = path.rpartition(".")[2]
    residual = last in RESIDUAL or path.endswith("output.dense")
    if attribute == "in_proj_weight":
        return Layer(name, shape, False, shape[1], False, _thirds(shape, 0))
    if isinstance(module, nn.Embedding):
        return Layer(name, shape, True, shape[1], False, ())
    if type(module).__name__ == "Conv1D" and len(shape) == 2:
        parts = _thirds(shape, 1) if last == "c_attn" else _whole(last, shape)
        return Layer(name, shape, False, shape[0], residual, parts)
    if isinstance(module, nn.Linear):
        return Layer(name, shape, False, shape[1], residual, _whole(last, shape), last in FUSED_BY_HEAD)
    return None


def _whole(last: str, shape: tuple[int, ...]) -> tuple[Part, ...]:
    role = "query" if last in QUERY else "key" if last in KEY else None
    return (Part(role, 0, 0, shape[0]),) if role else ()


def _thirds(shape: tuple[int, ...], axis: int) -> tuple[Part, ...]:
    """Query, key and value side by side; two equal halves are the key and value of GPT-2's cross-attention."""
    width = shape[1 - axis]
    roles = ("query", "key", "value") if shape[axis] == 3 * width else ("key", "value")
    size = shape[axis] // len(roles)
    return tuple(Part(role, axis, i * size, (i + 1) * size) for i, role in enumerate(roles))


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers that initial scales depend on: model width d, number of blocks b, head size."""

    width: int | None
    blocks: int
    head: int | None


def find_sizes(model: nn.Module, layers: list[Layer]) -> Sizes:
    """Width, blocks and head size from the model's configuration or, without one, from its layers."""
    config: Any = getattr(model, "config", None)
    attention = next((m for m in model.modules() if isinstance(m, nn.MultiheadAttention)), None)
    width = getattr(config, "hidden_size", None) or (attention.embed_dim if attention else None)
    if width is None:
        width = next((layer.shape[1] for layer in layers if layer.embedding), None)
    heads = getattr(config, "num_attention_heads", None)
    head = getattr(config, "head_dim", None) or (width // heads if width and heads else None)
    if head is None and attention is not None:
        head = attention.head_dim
    residual = sum(layer.residual for layer in layers)
    blocks = getattr(config, "num_hidden_layers", None) or max(1, residual // 2)
    return Sizes(width, blocks, head)
