"""The paper's synthetic task and its small attention target (§B.1): tell the angular velocity of a point.

x_t = (cos(ωt + θ0), sin(ωt + θ0)) with ω from U[-π, π] and θ0 from U[0, π]; a regression token stands in front of the
sequence, and the output at the token is to be ω.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from strongticket.construct import AttentionTarget
from strongticket.experiments.options import TOKENS
from strongticket.source import Source, Uniform

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLES = 10_000
SHORTEST, LONGEST = 4, 256
EPOCHS = 25
_BATCH, _RATE, _DECAY = 1024, 0.1, 0.01
_QUERY_SIZE = 8


def draw_motions(split: str, seed: int, samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
    """ω and θ0 (samples,) of a split of the data, such as "train"."""

    def draw(name: str) -> Tensor:
        source = Source(seed=seed, name=f"angular/{split}/{name}", shape=(samples,), law=Uniform(1.0))
        return torch.from_numpy(source.weights()).double()

    return math.pi * draw("velocity"), 0.5 * math.pi * (1.0 + draw("phase"))


def sequences(velocity: Tensor, phase: Tensor, length: int, token: Tensor) -> Tensor:
    """(samples, 1 + length, 2): the token, then x_1 … x_length.

    >>> sequences(torch.zeros(3), torch.zeros(3), 4, torch.zeros(2)).shape
    torch.Size([3, 5, 2])
    """
    angles = velocity[:, None] * torch.arange(1, length + 1, dtype=velocity.dtype) + phase[:, None]
    points = torch.stack([angles.cos(), angles.sin()], dim=-1)
    return torch.cat([token.to(points.dtype).expand(len(points), 1, 2), points], dim=1)


@dataclass(frozen=True, eq=False)
class AngularTarget:
    """A trained single-head attention 2 → 1 with its regression token, and its R² on test sequences, by length."""

    attention: AttentionTarget
    token: NDArray[np.float64]
    r2: dict[int, float]

    def inputs(self, length: int, samples: int) -> Tensor:
        """The first test sequences, with the target's own token in front."""
        return sequences(*draw_motions("test", 0, samples), length, torch.from_numpy(self.token))

    @property
    def alpha(self) -> float:
        """The largest norm of an input: points of the unit circle, and the token."""
        return max(1.0, float(torch.from_numpy(self.token).norm()))


def train_target(
    seed: int = 0,
    *,
    token: Literal["learned", "zero"] = "learned",
    epochs: int = EPOCHS,
) -> AngularTarget:
    """Train the target as §B.1 does: AdamW, learning rate 0.1, batch 1024, 25 epochs, weight decay 0.01.

    Lengths vary from 4 to 256 between batches. Query and key start from U[-8^¼, 8^¼], value and output from
    U[-1, 1]. The token starts at zero and is learned; "zero" keeps it there.
    """
    if token not in TOKENS:
        raise ValueError(f"the token is one of {', '.join(TOKENS)}, got {token!r}")
    names = ("query", "key", "value", "output")
    shapes = ((2, _QUERY_SIZE), (2, _QUERY_SIZE), (2, _QUERY_SIZE), (_QUERY_SIZE, 1))
    ranges = (_QUERY_SIZE**0.25, _QUERY_SIZE**0.25, 1.0, 1.0)
    weights = [
        torch.from_numpy(Source(seed=seed, name=f"angular/{name}", shape=shape, law=Uniform(r)).weights())
        .double()
        .requires_grad_()
        for name, shape, r in zip(names, shapes, ranges, strict=True)
    ]
    start = torch.zeros(2, dtype=torch.float64, requires_grad=token == "learned")
    optimizer = torch.optim.AdamW([w for w in (*weights, start) if w.requires_grad], lr=_RATE, weight_decay=_DECAY)
    velocity, phase = draw_motions("train", seed)
    shuffle = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for batch in torch.randperm(SAMPLES, generator=shuffle).split(_BATCH):
            length = int(torch.randint(SHORTEST, LONGEST + 1, (), generator=shuffle))
            x = sequences(velocity[batch], phase[batch], length, start)
            loss = torch.nn.functional.mse_loss(_at_token(x, weights), velocity[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        r2 = _r_squared(weights, start, seed)
    attention = AttentionTarget.from_matrices(*(w.detach().numpy()[None] for w in weights))
    return AngularTarget(attention, start.detach().numpy(), r2)


def _at_token(x: Tensor, weights: list[Tensor]) -> Tensor:
    """The output of the attention at the first position."""
    query, key, value, output = weights
    logits = (x[:, :1] @ query @ key.T) @ x.transpose(1, 2) / math.sqrt(_QUERY_SIZE)
    return ((logits.softmax(-1) @ x) @ value @ output)[:, 0, 0]


def _r_squared(weights: list[Tensor], token: Tensor, seed: int) -> dict[int, float]:
    velocity, phase = draw_motions("test", seed)
    spread = (velocity - velocity.mean()).square().sum()
    found = {}
    for length in (SHORTEST, 16, 64, LONGEST):
        residual = _at_token(sequences(velocity, phase, length, token), weights) - velocity
        found[length] = float(1.0 - residual.square().sum() / spread)
    return found
