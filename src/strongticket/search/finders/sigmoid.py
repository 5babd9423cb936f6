"""Sigmoid masks: keep a weight while the sigmoid of its score is above one half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from strongticket.search.finders.base import Finder, adamw_step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from strongticket.source import Source


class SigmoidMask(Finder):
    """A straight-through threshold on scores with a density penalty, the family of supermask language models.

    m = 1[σ(s) > 1/2], and the gradient passes as if m were σ(s): g · w · σ'(s). The penalty pulls the density D
    of all masks to the one asked for: penalty · (D - density) / density · mean|g · w| is added to g · w, with the
    mean over the tensor, so that ``penalty`` does not depend on the scale of the loss. The density is
    therefore close to the one asked for, not equal to it. Scores start shifted so that the density is right.

    >>> from strongticket.search import randomize
    >>> model = torch.nn.Linear(10, 10)
    >>> optimizer = SigmoidMask(model, randomize(model, seed=0), density=0.3)
    >>> optimizer.densities()["all"]
    0.3
    """

    name = "sigmoid"

    def __init__(
        self, model: nn.Module, sources: Mapping[str, Source], *, penalty: float = 10.0, **options: Any
    ) -> None:
        if not penalty >= 0:
            raise ValueError(f"penalty must be at least 0, got {penalty}")
        self._wanted = options.get("density", 0.3)
        super().__init__(model, sources, penalty=penalty, **options)

    def _start(self, score: Tensor) -> dict[str, Any]:
        size = score.abs()
        drop = int((1.0 - self._wanted) * size.numel())
        threshold = size.reshape(-1).kthvalue(drop).values if drop else size.new_zeros(())
        return super()._start((size - threshold) / size.mean() if drop else size)

    def _update(self, group: dict[str, Any]) -> None:
        excess = (self.densities()["all"] - group["density"]) / group["density"] * group["penalty"]
        for name, parameter in self.masked():
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            gradient = parameter.grad * self.weights[name]
            gradient += excess * gradient.abs().mean()
            soft = state["score"].sigmoid()
            adamw_step(state["score"], gradient.mul_(soft).mul_(1.0 - soft), state, group)
        self._apply()

    def _apply(self) -> None:
        for name, parameter in self.masked():
            weight = self.weights[name]
            parameter.copy_(torch.where(self.state[parameter]["score"] > 0, weight, torch.zeros_like(weight)))
