"""An independent attention layer, block and transformer in torch, and a search for the worst input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def tensor(matrix) -> torch.Tensor:
    return torch.as_tensor(np.asarray(matrix), dtype=torch.float64)


def softmax(logits: np.ndarray, mask: np.ndarray) -> np.ndarray:
    allowed = np.where(mask, logits, -np.inf)
    weights = np.exp(allowed - allowed.max())
    return weights / weights.sum()


def with_one(x: torch.Tensor, bias: bool) -> torch.Tensor:
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1) if bias else x


def attention(queries, values, qk: Sequence, vo: Sequence, mask: torch.Tensor, bias: bool = False) -> torch.Tensor:
    out = torch.zeros(len(queries), np.shape(vo[0])[1], dtype=torch.float64)
    for w_qk, w_vo in zip(qk, vo, strict=True):
        logits = with_one(queries, bias) @ tensor(w_qk) @ values.T
        weights = torch.softmax(logits.masked_fill(~mask, -torch.inf), dim=1)
        out = out + weights @ with_one(values, bias) @ tensor(w_vo)
    return out


def network(x: torch.Tensor, layers: Sequence, bias: bool = False) -> torch.Tensor:
    """Layers are matrices, or pairs (P, N) that act as P·ReLU(x) + N·ReLU(-x)."""
    for number, layer in enumerate(layers):
        if number:
            x = torch.relu(x)
        if isinstance(layer, tuple):
            positive, negative = tensor(layer[0]), tensor(layer[1])
            reach = x.shape[1]
            x = with_one(torch.relu(x), bias) @ positive.T + torch.relu(-x) @ negative[:, :reach].T
        else:
            x = with_one(x, bias) @ tensor(layer).T
    return x


def block(x: torch.Tensor, qk, vo, layers, mask: torch.Tensor, bias: bool = False) -> torch.Tensor:
    middle = attention(x, x, qk, vo, mask, bias) + x
    return network(middle, layers, bias) + middle


def masks(length: int) -> list[torch.Tensor]:
    """All positions, the causal mask, and a mask with a single allowed position per row."""
    full = torch.ones(length, length, dtype=torch.bool)
    single = torch.zeros(length, length, dtype=torch.bool)
    single[torch.arange(length), torch.arange(length).flip(0)] = True
    return [full, full.tril(), single]


def worst(
    error: Callable[[list[torch.Tensor]], torch.Tensor],
    shapes: Sequence[tuple[int, int]],
    radii: Sequence[float],
    steps: int = 120,
    starts: int = 2,
    seed: int = 0,
) -> float:
    """Gradient ascent on the largest of ``error(inputs)``, over inputs whose rows stay within the radii."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return max(_ascend(error, shapes, radii, steps, seed + start) for start in range(starts))
    finally:
        torch.set_num_threads(threads)


def _ascend(error, shapes, radii, steps: int, seed: int) -> float:
    generator = torch.Generator().manual_seed(seed)
    best = 0.0
    inputs = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    with torch.no_grad():
        for x, radius in zip(inputs, radii, strict=True):
            x.mul_(radius / x.norm(dim=1, keepdim=True))
    optimizer = torch.optim.Adam([{"params": [x], "lr": 0.1 * radius} for x, radius in zip(inputs, radii, strict=True)])
    for _ in range(steps):
        optimizer.zero_grad()
        found = error(inputs).max()
        best = max(best, found.item())
        (-found).backward()
        optimizer.step()
        with torch.no_grad():
            for x, radius in zip(inputs, radii, strict=True):
                x.mul_(torch.clamp(radius / x.norm(dim=1, keepdim=True), max=1.0))
    return best


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """A random matrix of spectral norm 1."""
    matrix = rng.standard_normal(shape)
    return matrix / np.linalg.norm(matrix, 2)
