"""Lemma 8: logits that move by at most e move the output of attention by at most √d1·α·(exp(2e) - 1).

The sharp statement behind the certificates: the weights move by at most tanh(e/2) in total variation.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import softmax

from strongticket.theory import lemma_8_bound, softmax_output_bound, total_variation_bound


def test_value_by_hand():
    # √4·3·(exp(2·0.5) - 1) = 6·1.718281828459045
    assert lemma_8_bound(0.5, d1=4, alpha=3.0) == pytest.approx(10.30969097075427, rel=1e-14)


def move(rng, length, shift, kind):
    if kind == "edge":
        return shift * rng.choice([-1.0, 1.0], length)
    if kind == "one":
        moved = np.full(length, -shift)
        moved[rng.integers(length)] = shift
        return moved
    return rng.uniform(-shift, shift, length)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    length=st.integers(1, 12) | st.sampled_from([100, 1000, 4096]),
    shift=st.floats(0.0, 40.0),
    scale=st.sampled_from([0.0, 0.1, 1.0, 10.0, 300.0]),
    kind=st.sampled_from(["edge", "one", "inside"]),
    allowed=st.sampled_from(["single", "some", "all"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_inequality(length, shift, scale, kind, allowed, seed):
    rng = np.random.default_rng(seed)
    logits = scale * rng.standard_normal(length)
    moved = logits + move(rng, length, shift, kind)
    mask = {"single": np.zeros(length, bool), "some": rng.random(length) < 0.5, "all": np.ones(length, bool)}[allowed]
    mask[rng.integers(length)] = True
    before, after = softmax(logits, mask), softmax(moved, mask)
    slack = 1e-13 * max(1.0, scale)
    assert 0.5 * np.abs(before - after).sum() <= total_variation_bound(shift) + slack
    if allowed == "single":
        assert np.abs(before - after).sum() == 0.0
    d1, alpha = 3, 2.0
    x = rng.standard_normal((length, d1))
    x *= alpha / np.linalg.norm(x, axis=1, keepdims=True)
    error = np.linalg.norm((before - after) @ x)
    assert error <= softmax_output_bound(shift, alpha=alpha) + slack
    assert error <= lemma_8_bound(shift, d1=d1, alpha=alpha) + slack


@pytest.mark.parametrize("shift", [0.0, 1e-6, 0.01, 0.1, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("length", [2, 5, 4096])
def test_attained_by_two_logits_that_swap(shift, length):
    mask = np.zeros(length, bool)
    mask[[0, length - 1]] = True
    logits, moved = np.zeros(length), np.zeros(length)
    logits[0], moved[-1] = shift, shift
    variation = 0.5 * np.abs(softmax(logits, mask) - softmax(moved, mask)).sum()
    assert variation == pytest.approx(math.tanh(shift / 2), abs=1e-12)
    assert total_variation_bound(shift) == pytest.approx(variation, abs=1e-12)


def test_attained_by_two_halves_of_a_long_sequence():
    length, shift = 4096, 0.7
    half = np.arange(length) < length // 2
    everything = np.ones(length, bool)
    before, after = softmax(shift * half, everything), softmax(shift * ~half, everything)
    assert 0.5 * np.abs(before - after).sum() == pytest.approx(math.tanh(shift / 2), abs=1e-12)


def test_it_is_at_least_twice_as_sharp_as_lemma_8():
    for shift in (1e-6, 0.1, 1.0, 5.0):
        assert 2 * softmax_output_bound(shift, alpha=1.0) <= lemma_8_bound(shift, d1=1, alpha=1.0) * (1 + 1e-12)


@pytest.mark.parametrize("shift", [-1.0, float("nan")])
def test_a_shift_is_a_number_from_zero_on(shift):
    with pytest.raises(ValueError, match="shift of the logits must be a number >= 0"):
        total_variation_bound(shift)


def test_large_shifts_do_not_overflow():
    assert total_variation_bound(math.inf) == 1.0
    assert lemma_8_bound(1e6, d1=2, alpha=1.0) == math.inf
