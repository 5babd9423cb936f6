"""Lemma 13: inputs that move by at most e move a target's block by H·√d1·(α·(exp(4·α·e) - 1) + 2·e).

Its proof ends with twice that. The printed bound is true all the same from d1 = 2 on: with tanh in place of
Lemma 8, attention moves by at most H·(2·α·tanh(α·e) + e), and a block by at most twice that plus 2·e.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import block, masks, unit, worst

from strongticket.theory import lemma_12_bound, lemma_13_bound


def test_values_by_hand():
    # H=2, d1=4, α=2, e=0.05: 4·(2·0.4918246976412703 + 0.1) as printed, 8·(…) by its proof
    assert lemma_13_bound(0.05, d1=4, heads=2, alpha=2.0) == pytest.approx(4.334597581130162, rel=1e-14)
    corrected = lemma_13_bound(0.05, d1=4, heads=2, alpha=2.0, corrected=True)
    assert corrected == pytest.approx(8.669195162260324, rel=1e-14)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    d1=st.integers(1, 10_000),
    heads=st.integers(1, 64),
    stretch=st.floats(1.0, 100.0),
    shift=st.floats(1e-12, 10.0),
)
def test_corrected_covers_what_the_proof_starts_from(d1, heads, stretch, shift):
    alpha = stretch * math.sqrt(d1)
    proof = 2 * lemma_12_bound(shift, d1=d1, heads=heads, alpha=alpha) + 2 * shift
    assert proof <= lemma_13_bound(shift, d1=d1, heads=heads, alpha=alpha, corrected=True) * (1 + 1e-12)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    d1=st.integers(2, 10_000),
    heads=st.integers(1, 64),
    stretch=st.floats(1.0, 100.0),
    shift=st.floats(1e-12, 10.0),
)
def test_the_printed_bound_is_true_from_two_dimensions_on(d1, heads, stretch, shift):
    alpha = stretch * math.sqrt(d1)
    sharp = 2 * heads * (2 * alpha * math.tanh(alpha * shift) + shift) + 2 * shift
    assert sharp <= lemma_13_bound(shift, d1=d1, heads=heads, alpha=alpha) * (1 + 1e-12)


@pytest.mark.parametrize(("heads", "d1", "shift"), [(1, 2, 0.01), (2, 2, 0.05), (1, 4, 0.1)])
def test_inequality_on_the_worst_inputs_found(heads, d1, shift):
    rng = np.random.default_rng(d1 + heads)
    alpha, length = math.sqrt(d1), 4
    qk, vo = [unit(rng, d1, d1) for _ in range(heads)], [unit(rng, d1, d1) for _ in range(heads)]
    layers, mask = [unit(rng, d1, d1)], masks(length)[0]

    def error(inputs):
        x = inputs[0]
        moved = x + inputs[1]
        moved = moved * torch.clamp(alpha / moved.norm(dim=1, keepdim=True), max=1.0)
        return (block(x, qk, vo, layers, mask) - block(moved, qk, vo, layers, mask)).norm(dim=1)

    found = worst(error, [(length, d1)] * 2, [alpha, shift], steps=60)
    assert 0.0 < found <= lemma_13_bound(shift, d1=d1, heads=heads, alpha=alpha)
