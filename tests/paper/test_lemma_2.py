"""Lemma 2: a two-layer ReLU network contains W if n ≥ d1·C·log(2·d1·d2/ε). The width, and the masks."""

import numpy as np
import pytest
from reference import unit

from strongticket.construct import relu
from strongticket.theory import linear_pair_width, relu_pair_width


def test_width_by_hand():
    # d1=4, d2=5, ε=0.04: 2·4·5/0.04 = 1000, log(1000) = 6.907755, times 4 = 27.631021
    width = relu_pair_width(d1=4, d2=5, eps=0.04)
    assert width.exact == pytest.approx(27.631021115928547, rel=1e-14)
    assert (width.units, width.items, width.probability) == (28, 7, 0.96)


def test_constant_scales_the_width():
    # C=2.5: 2.5·27.631021 = 69.077553, and 2.5·6.907755 = 17.269388 items
    width = relu_pair_width(d1=4, d2=5, eps=0.04, C=2.5)
    assert (width.units, width.items) == (70, 18)


def test_relu_costs_log_2_more_than_a_linear_pair():
    # log(2·d1·d2/ε) - log(d1·d2/ε) = log 2 = 0.6931471805599453, times d1=7
    more = relu_pair_width(d1=7, d2=3, eps=0.1).exact - linear_pair_width(d1=7, d2=3, eps=0.1).exact
    assert more == pytest.approx(7 * 0.6931471805599453, rel=1e-13)


@pytest.mark.parametrize("eps", [0.0, 1.0, -0.1, float("nan"), float("inf")])
def test_eps_outside_the_assumption(eps):
    with pytest.raises(ValueError, match="Lemma 2 assumes 0 < eps < 1"):
        relu_pair_width(d1=4, d2=5, eps=eps)


class TestConstruction:
    """W x from (W2 ⊙ M2) ReLU((W1 ⊙ M1) x)."""

    def test_error_is_at_most_eps_for_unit_inputs(self):
        # d1=d2=4, ε=0.05, ‖W‖ ≤ 1: with C=7, n = 28·log(2·16/0.05) = 180.9
        eps, rng = 0.05, np.random.default_rng(0)
        width = relu_pair_width(d1=4, d2=4, eps=eps, C=7.0).units
        inputs = rng.standard_normal((2000, 4))
        inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
        for seed in range(4):
            target = unit(rng, 4, 4)
            pair = relu(target, width=width, seed=seed, layout="paper")
            assert np.linalg.norm(pair(inputs) - inputs @ target.T, axis=1).max() <= eps

    def test_both_signs_of_an_input_are_served(self):
        target = np.array([[0.5, -0.25], [0.75, 0.125]])
        pair = relu(target, items=14, refine=200)
        positive, negative = pair.parts()
        np.testing.assert_allclose(positive, target, atol=pair.max_error + 1e-15)
        np.testing.assert_allclose(negative, -target, atol=pair.max_error + 1e-15)
        assert pair.max_error < 1e-3
