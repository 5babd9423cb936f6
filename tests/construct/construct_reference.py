"""Constructions computed again, slowly and differently."""

from __future__ import annotations

import itertools

import numpy as np


def masked_product(pair) -> np.ndarray:
    """Σ_k M2[:, k] W2[:, k] · M1[k, :] W1[k, :], one hidden unit after the other."""
    (w1, w2), (m1, m2) = (source.weights().astype(np.float64) for source in pair.sources), pair.masks
    total = np.zeros((len(w2), w1.shape[1]))
    for k in range(len(w1)):
        total += np.outer(w2[:, k] * m2[:, k], w1[k] * m1[k])
    return pair.scale * total


def best_error(items: np.ndarray, target: float) -> float:
    """The least |target - subset sum|, over all subsets."""
    subsets = np.array(list(itertools.product([0, 1], repeat=len(items))))
    return float(np.abs(target - subsets @ items).min())


def best_assignment(gain: np.ndarray, room: list[int]) -> float:
    """The largest Σ gain[column, unit] where column c takes room[c] units, over all assignments."""
    slots = [column for column, size in enumerate(room) for _ in range(size)]
    return max(
        sum(gain[column, unit] for unit, column in enumerate(order)) for order in set(itertools.permutations(slots))
    )


def uniform(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)
