"""From an architecture and its parameters to a torch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from strongticket.ticket.errors import TicketError
from strongticket.ticket.pairs import product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strongticket.ticket.ticket import Ticket

    Arrays = dict[str, NDArray[Any]]


MODES = ("pruned", "merged")
"""The random weights as they are kept, or the products of pairs of them."""


class LinearPair(nn.Module):
    """x ↦ scale · second first x, two pruned random matrices in a row."""

    first: Tensor
    second: Tensor

    def __init__(self, first: NDArray[np.float32], second: NDArray[np.float32], scale: float) -> None:
        super().__init__()
        self.register_buffer("first", torch.as_tensor(first))
        self.register_buffer("second", torch.as_tensor(second))
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Run on the last dimension of ``x``."""
        return (x @ self.first.T) @ self.second.T * self.scale


def _modules() -> Any:
    from strongticket import modules

    return modules


def build(ticket: Ticket, mode: str, max_bytes: int) -> nn.Module:
    """The module of any ticket."""
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    architecture = ticket.architecture
    kind = architecture["kind"]
    if kind == "model":
        from strongticket.ticket.models import build as build_pairs

        return build_pairs(ticket, mode, max_bytes)
    if mode == "merged":
        return _merged(ticket)
    arrays = ticket.parameters()
    if kind == "huggingface":
        from strongticket.ticket.huggingface import build as build_model

        return build_model(architecture, {name: tensor(array) for name, array in arrays.items()}, max_bytes)
    if kind == "linear":
        return LinearPair(arrays["first"], arrays["second"], float(architecture["scale"]))
    if kind == "relu":
        return _modules().ReluNetwork([arrays["first"], arrays["second"]])
    if kind == "network":
        return _network(len(architecture["nonnegative"]), arrays, "")
    if kind == "attention":
        return _attention(architecture, arrays, "")
    blocks = architecture["blocks"]
    return _modules().Transformer(
        [_attention(block, arrays, f"blocks.{place}.attention.") for place, block in enumerate(blocks)],
        [_network(len(block["nonnegative"]), arrays, f"blocks.{place}.network.") for place, block in enumerate(blocks)],
    )


def _merged(ticket: Ticket) -> nn.Module:
    architecture = ticket.architecture
    kind = architecture["kind"]
    if kind not in ("linear", "attention"):
        why = (
            "has no pairs to fold" if kind == "huggingface" else "has no merged form; linear, attention and model have"
        )
        raise TicketError("architecture.kind", f"{kind!r} {why}: take mode='pruned'")
    products = {place.name: product(place, ticket.entries).astype(np.float32) for place in ticket.pairs}
    if kind == "linear":
        return _modules().MergedMap(products["pair"], bias=False)
    heads = [f"heads.{head}." for head in range(architecture["heads"])]
    qk, vo = [products[f"{head}qk"] for head in heads], [products[f"{head}vo"].T for head in heads]
    return _modules().MergedAttention(qk, vo, bias=architecture["bias"], batch_first=architecture["batch_first"])


def tensor(array: NDArray[Any]) -> Tensor:
    """The array as a tensor, copied only if it may not be written to."""
    return torch.from_numpy(array) if array.flags.writeable else torch.tensor(array)


def _network(layers: int, arrays: Arrays, prefix: str) -> nn.Module:
    names = [f"{prefix}layers.{layer}.{part}" for layer in range(layers) for part in ("first", "second")]
    return _modules().ReluNetwork([arrays[name] for name in names])


def _attention(about: dict[str, Any], arrays: Arrays, prefix: str) -> nn.Module:
    projections = [
        [arrays[f"{prefix}heads.{head}.{part}"] for head in range(about["heads"])]
        for part in ("query", "key", "value", "output")
    ]
    return _modules().TicketAttention(*projections, bias=about["bias"], batch_first=about["batch_first"])
