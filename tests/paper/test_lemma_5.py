"""Lemma 5: logits that move by at most e ≤ 1/2 move the output of attention by at most 4·√d1·α·e."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import softmax

from strongticket.theory import lemma_5_bound, lemma_8_bound, softmax_output_bound


def test_value_by_hand():
    # 4·√9·2·0.25 = 6
    assert lemma_5_bound(0.25, d1=9, alpha=2.0) == 6.0


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    length=st.sampled_from([1, 2, 3, 7, 64, 4096]),
    d1=st.integers(1, 5),
    shift=st.sampled_from([0.0, 1e-9, 0.01, 0.3, 0.5]),
    scale=st.sampled_from([0.0, 1.0, 30.0]),
    single=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_inequality(length, d1, shift, scale, single, seed):
    rng = np.random.default_rng(seed)
    alpha = float(np.sqrt(d1))
    x = rng.standard_normal((length, d1))
    x *= alpha / np.linalg.norm(x, axis=1, keepdims=True)
    logits = scale * rng.standard_normal(length)
    moved = logits + shift * rng.choice([-1.0, 1.0], length)
    mask = np.zeros(length, bool) if single else rng.random(length) < 0.7
    mask[rng.integers(length)] = True
    error = np.linalg.norm(softmax(logits, mask) @ x - softmax(moved, mask) @ x)
    assert error <= softmax_output_bound(shift, alpha=alpha) + 1e-14
    assert error <= lemma_5_bound(shift, d1=d1, alpha=alpha) + 1e-14


def test_it_follows_from_lemma_8_up_to_one_half():
    for shift in np.linspace(0.0, 0.5, 51):
        assert lemma_8_bound(shift, d1=4, alpha=2.0) <= lemma_5_bound(shift, d1=4, alpha=2.0) + 1e-12


@pytest.mark.parametrize("shift", [-0.1, 0.5000001, float("nan")])
def test_shift_outside_the_assumption(shift):
    with pytest.raises(ValueError, match="Lemma 5 assumes 0 <= shift <= 1/2"):
        lemma_5_bound(shift, d1=4, alpha=2.0)
