"""Lemma 4 (Lemma 7): two random layers contain W if n ≥ d1·C·log(d1·d2/ε). The width."""

import pytest

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
