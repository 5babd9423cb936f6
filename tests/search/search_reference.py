"""Edge-popup as in the original: scores are parameters, and an autograd function sorts them at every forward pass."""

from __future__ import annotations

import torch


class TopByScore(torch.autograd.Function):
    """Forward: 1 for the largest scores, 0 for the rest. Backward: straight through."""

    @staticmethod
    def forward(ctx, scores, density):
        order = scores.flatten().argsort()
        dropped = int((1.0 - density) * scores.numel())
        mask = torch.ones(scores.numel(), dtype=scores.dtype)
        mask[order[:dropped]] = 0
        return mask.view_as(scores)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class SortedEdgePopup:
    """A model called with w ⊙ m for the named parameters, its scores trained by torch's own AdamW."""

    def __init__(self, model, weights, scores, density, **adamw):
        self.model, self.weights, self.density = model, weights, density
        self.scores = {name: torch.nn.Parameter(score.clone()) for name, score in scores.items()}
        self.optimizer = torch.optim.AdamW(self.scores.values(), **adamw)

    def masks(self):
        return {name: TopByScore.apply(score.abs(), self.density) for name, score in self.scores.items()}

    def step(self, loss_of):
        effective = {name: self.weights[name] * mask for name, mask in self.masks().items()}
        loss = loss_of(lambda *x: torch.func.functional_call(self.model, effective, x))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()
