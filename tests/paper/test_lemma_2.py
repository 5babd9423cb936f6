"""Lemma 2: a two-layer ReLU network contains W if n ≥ d1·C·log(2·d1·d2/ε). The width."""

import pytest

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
