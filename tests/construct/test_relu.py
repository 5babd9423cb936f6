"""construct.relu: a linear map through a pruned random ReLU layer."""

import numpy as np
import pytest
from construct_reference import best_error, uniform
from hypothesis import given, settings
from hypothesis import strategies as st

from strongticket.construct import relu
from strongticket.construct.search import Search

FAST = {"refine": 20, "threads": 1}


def run(pair, x):
    """The two pruned layers, one neuron after the other."""
    (w1, w2), (m1, m2) = (source.weights().astype(np.float64) for source in pair.sources), pair.masks
    out = np.zeros(len(w2))
    for k in range(len(w1)):
        out += w2[:, k] * m2[:, k] * max(0.0, float((w1[k] * m1[k]) @ x))
    return out


@pytest.mark.parametrize("layout", ["assigned", "paper"])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_runs_the_pruned_weights(layout, nonnegative):
    pair = relu(uniform(0, 3, 4), items=8, layout=layout, nonnegative=nonnegative, **FAST)
    inputs = uniform(1, 5, 4)
    positive, negative = pair.parts()
    for x, y in zip(inputs, pair(inputs), strict=True):
        np.testing.assert_allclose(y, run(pair, x), rtol=0, atol=1e-13)
        by_parts = positive @ np.maximum(x, 0) + negative @ np.maximum(-x, 0)
        np.testing.assert_allclose(y, by_parts, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(pair.product(), positive)
    if nonnegative:
        assert not negative.any()


@pytest.mark.parametrize("shape", [(3, 4), (4, 2), (1, 3), (3, 1)])
def test_is_the_linear_map(shape):
    target = uniform(0, *shape)
    pair = relu(target, items=16, refine=100)
    inputs = uniform(1, 50, shape[1])
    errors = np.abs(pair(inputs) - inputs @ target.T)
    assert (errors <= pair.max_error * np.abs(inputs).sum(axis=1, keepdims=True) + 1e-12).all()
    assert pair.max_error < 0.05
    positive, negative = pair.parts()
    assert pair.max_error == max(np.abs(target - positive).max(), np.abs(target + negative).max())


def test_nonnegative_inputs_need_half_the_width():
    target = uniform(0, 4, 3)
    both, one = (relu(target, items=12, nonnegative=n, refine=100) for n in (False, True))
    assert (both.width, one.width) == (72, 36)
    inputs = np.abs(uniform(1, 20, 3))
    assert np.abs(one(inputs) - inputs @ target.T).max() <= 3 * one.max_error


def test_paper_layout_has_the_support_of_the_proof():
    items, target = 4, uniform(0, 3, 2)
    pair = relu(target, items=items, layout="paper", seed=2)
    unit, column = np.indices(pair.masks[0].shape)
    np.testing.assert_array_equal(pair.masks[0], unit // (2 * items) == column)
    w1, w2 = (source.weights().astype(np.float64) for source in pair.sources)
    for sign, part in zip((1, -1), pair.parts(), strict=True):
        for row, i in np.ndindex(target.shape):
            served = np.flatnonzero((np.arange(16) // 8 == i) & (sign * w1[:, i] > 0))
            best = best_error(w2[row, served] * np.abs(w1[served, i]), sign * target[row, i])
            assert abs(sign * target[row, i] - part[row, i]) == pytest.approx(best, abs=1e-12)


def test_paper_layout_for_nonnegative_inputs_drops_negative_weights():
    pair = relu(uniform(0, 3, 2), items=6, nonnegative=True, layout="paper")
    unit, column = np.indices(pair.masks[0].shape)
    np.testing.assert_array_equal(pair.masks[0], (unit // 6 == column) & (pair.sources[0].weights() > 0))


def test_progress_adds_up():
    sums = []
    relu(uniform(0, 3, 2), width=21, refine=30, progress=sums.append)
    assert sum(sums) == Search(refine=30).subset_sums(3, 4, 21)
    sums.clear()
    relu(uniform(0, 3, 2), width=21, refine=30, nonnegative=True, progress=sums.append)
    assert sum(sums) == Search(refine=30).subset_sums(3, 2, 21)


def test_same_seed_same_masks_for_any_threads():
    pairs = [relu(uniform(0, 4, 4), items=8, refine=50, threads=threads) for threads in (1, 2)]
    for a, b in zip(*(pair.masks for pair in pairs), strict=True):
        np.testing.assert_array_equal(a, b)


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 12),
    st.booleans(),
    st.sampled_from(["assigned", "paper"]),
    st.integers(0, 2**32),
)
def test_any_shape_and_width(d2, d1, more, nonnegative, layout, seed):
    target = uniform(seed, d2, d1)
    width = d1 * (1 if nonnegative else 2) + more
    pair = relu(target, width=width, nonnegative=nonnegative, seed=seed, layout=layout, refine=6, threads=1)
    assert (pair.masks[0].sum(axis=1) <= 1).all()
    positive, negative = pair.parts()
    assert (np.abs(target - positive) <= np.abs(target) + 1e-13).all()
    if nonnegative:
        assert not negative.any()
    else:
        assert (np.abs(-target - negative) <= np.abs(target) + 1e-13).all()
    x = uniform(seed + 1, d1)
    np.testing.assert_allclose(pair(x), run(pair, x), rtol=0, atol=1e-13)


def test_width_that_is_too_small():
    with pytest.raises(ValueError, match=r"at least 6 for a target of shape \(2, 3\) through ReLU.* got 5"):
        relu(uniform(0, 2, 3), width=5)
    with pytest.raises(ValueError, match="at least 3"):
        relu(uniform(0, 2, 3), width=2, nonnegative=True)
