"""Lemma 12: inputs that move by at most e move a target's attention by H·√d1·(α·(exp(4·α·e) - 1) + e)."""

import math

import numpy as np
import pytest
import torch
from reference import attention, masks, unit, worst

from strongticket.theory import lemma_12_bound


def test_value_by_hand():
    # H=2, d1=4, α=2, e=0.05: 2·2·(2·(exp(0.4) - 1) + 0.05) = 4·(2·0.4918246976412703 + 0.05)
    assert lemma_12_bound(0.05, d1=4, heads=2, alpha=2.0) == pytest.approx(4.134597581130162, rel=1e-14)


@pytest.mark.parametrize("mask_number", [0, 1, 2])
@pytest.mark.parametrize(("heads", "d1", "shift"), [(1, 1, 0.01), (1, 2, 0.05), (2, 3, 0.1)])
def test_inequality_on_the_worst_inputs_found(heads, d1, shift, mask_number):
    rng = np.random.default_rng(d1)
    alpha, length = math.sqrt(d1), 4
    qk, vo = [unit(rng, d1, d1) for _ in range(heads)], [unit(rng, d1, d1) for _ in range(heads)]
    mask = masks(length)[mask_number]

    def error(inputs):
        x = inputs[0]
        moved = x + inputs[1]
        moved = moved * torch.clamp(alpha / moved.norm(dim=1, keepdim=True), max=1.0)
        return (attention(x, x, qk, vo, mask) - attention(moved, moved, qk, vo, mask)).norm(dim=1)

    found = worst(error, [(length, d1)] * 2, [alpha, shift], steps=60)
    assert 0.0 < found <= lemma_12_bound(shift, d1=d1, heads=heads, alpha=alpha)
