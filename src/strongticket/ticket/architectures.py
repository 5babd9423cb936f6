"""From an architecture and its parameters to a torch module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]


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


def build(architecture: dict[str, Any], arrays: Arrays, max_bytes: int) -> nn.Module:
    """The module of any architecture, with ``arrays`` as its parameters."""
    kind = architecture["kind"]
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
