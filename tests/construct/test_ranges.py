"""range="auto" weighs reach against resolution."""

import numpy as np
import pytest

from strongticket.construct import linear, relu
from strongticket.construct.ranges import choose_range
from strongticket.source import Uniform

SMALL = np.random.default_rng(0).normal(0, 0.05, (24, 24))
LARGE = np.random.default_rng(1).normal(0, 3.0, (24, 24))


def mean_square(pair):
    return float(np.mean(pair.errors() ** 2))


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        (SMALL, {"refine": 150}),
        (LARGE, {"refine": 150}),
        (SMALL / 10, {"layout": "paper"}),
        (LARGE, {"layout": "paper"}),
    ],
    ids=["small", "large", "paper-smaller", "paper-large"],
)
def test_auto_is_better_than_1(target, settings):
    auto, one = (
        np.mean([mean_square(linear(target, items=12, seed=s, range=r, **settings)) for s in range(3)])
        for r in ("auto", 1.0)
    )
    assert auto < 0.8 * one


def test_auto_follows_the_size_of_the_target():
    base = choose_range(SMALL, 12, products=False)
    for size in (1e-20, 1e-3, 1e6):
        assert choose_range(size * SMALL, 12, products=False) == pytest.approx(base * np.sqrt(size), rel=1e-6)


def test_a_rare_large_entry_is_brought_within_reach():
    spiked = SMALL.copy()
    spiked[0, 0] = 1.25
    base, found = (choose_range(target, 16, products=False) for target in (SMALL, spiked))
    assert 2 * base < found < 4 * base
    errors = [abs(linear(spiked, items=16, range=r, refine=0).errors()[0, 0]) for r in (base, "auto")]
    assert errors[1] < 0.1 * errors[0]


def test_the_range_is_recorded_in_the_sources():
    pair = linear(SMALL, items=6, range="auto", refine=0)
    r = choose_range(SMALL, 6, products=False)
    assert {source.law for source in pair.sources} == {Uniform(r)}
    assert {source.law for source in linear(SMALL, items=6, range=0.25, refine=0).sources} == {Uniform(0.25)}
    assert relu(SMALL, items=6, range="auto", refine=0).sources[0].law == Uniform(r)


@pytest.mark.parametrize("items", [1, 2, 3, 20, 60])
@pytest.mark.parametrize("products", [False, True])
def test_any_number_of_items(items, products):
    assert 0.05 < choose_range(SMALL, items, products=products) < 2.0


def test_edges():
    assert choose_range(np.zeros((2, 2)), 8, products=False) == 1.0
    assert choose_range(np.full((2, 2), 1e-300), 8, products=False) == 2.0**-100
    assert choose_range(np.full((2, 2), 1e300), 8, products=False) == 2.0**100
    assert linear(np.zeros((2, 3)), items=4, range="auto").max_error == 0.0
