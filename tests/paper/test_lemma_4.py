"""Lemma 4 (Lemma 7): two random layers contain W if n ≥ d1·C·log(d1·d2/ε). The width, and the masks."""

import numpy as np
import pytest

from strongticket.construct import linear
from strongticket.theory import linear_pair_width


def test_width_by_hand():
    # d1=2, d2=50, ε=0.1: 2·50/0.1 = 1000, log(1000) = 6.907755, times 2 = 13.815511
    width = linear_pair_width(d1=2, d2=50, eps=0.1)
    assert width.exact == pytest.approx(13.815510557964274, rel=1e-14)
    assert (width.units, width.items, width.probability) == (14, 7, 0.9)


def test_d2_defaults_to_d1():
    # d1=d2=10, ε=0.1: log(100/0.1) = 6.907755, times 10
    assert linear_pair_width(d1=10, eps=0.1).exact == pytest.approx(69.07755278982137, rel=1e-14)


def test_edges_of_the_assumption():
    # d1=d2=1, ε just below 1: log(1/ε) is just above 0, so one unit
    assert linear_pair_width(d1=1, eps=1 - 1e-12).units == 1
    # ε = 1e-300: log(1e300) = 300·2.302585 = 690.775528
    assert linear_pair_width(d1=1, eps=1e-300).exact == pytest.approx(690.7755278982137, rel=1e-14)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"d1": 0}, "Lemma 4 assumes d1 >= 1"),
        ({"d2": -3}, "Lemma 4 assumes d2 >= 1"),
        ({"d1": 2.5}, "a whole number; got d1=2.5"),
        ({"d1": float("nan")}, "Lemma 4 assumes d1"),
        ({"eps": 1.0}, "Lemma 4 assumes 0 < eps < 1, got eps=1.0"),
        ({"C": 0.0}, "universal constant C > 0, got C=0.0"),
        ({"C": float("inf")}, "universal constant C > 0"),
        ({"C": float("nan")}, "universal constant C > 0"),
    ],
)
def test_what_the_lemma_does_not_cover(wrong, message):
    with pytest.raises(ValueError, match=message):
        linear_pair_width(**({"d1": 4, "d2": 4, "eps": 0.1, "C": 1.0} | wrong))


class TestConstruction:
    """W ≈ (W2 ⊙ M2)(W1 ⊙ M1) with the masks of Lemma 7."""

    def test_max_error_is_at_most_eps_over_d1_d2(self):
        # d1=d2=4, ε=0.16, C=5: n = 20·log(100) = 92.1, 23 products per entry; ε/(d1·d2) = 0.01
        eps, reached = 0.16, 0
        width = linear_pair_width(d1=4, d2=4, eps=eps, C=5.0).units
        rng = np.random.default_rng(0)
        for seed in range(8):
            pair = linear(rng.uniform(-1, 1, (4, 4)), width=width, seed=seed, layout="paper")
            reached += pair.max_error <= eps / 16
        assert reached >= 7

    def test_masks_are_those_of_the_proof(self):
        pair = linear(np.eye(3), items=5, layout="paper")
        unit, column = np.indices((15, 3))
        np.testing.assert_array_equal(pair.masks[0], unit // 5 == column)

    def test_error_falls_exponentially_with_the_width(self):
        rng = np.random.default_rng(1)
        targets = rng.uniform(-1, 1, (3, 6, 6))
        median = [
            np.median([np.abs(linear(W, items=n, seed=s, layout="paper").errors()) for s, W in enumerate(targets)])
            for n in (8, 14, 20)
        ]
        assert median[1] < median[0] / 10
        assert median[2] < median[1] / 10
