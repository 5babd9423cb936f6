"""range="auto" weighs reach against resolution."""

import numpy as np
import pytest

from strongticket.construct import linear, relu
from strongticket.construct.linear import auto_range
from strongticket.construct.ranges import choose_range, column_scales, expected_square, largest_scale_range
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


MANY = np.random.default_rng(2).normal(0, 0.05, (96, 64))
HEAVY = 0.05 * np.random.default_rng(3).standard_t(3, (96, 64))


class TestColumnScales:
    @pytest.mark.parametrize("size", [2.0**-30, 1e-7, 3.7, 1e5])
    def test_they_follow_the_size_of_the_target(self, size):
        np.testing.assert_allclose(column_scales(size * MANY, 12), size * column_scales(MANY, 12), rtol=1e-9)

    def test_they_follow_the_sizes_of_the_columns(self):
        sizes = 2.0 ** np.linspace(-8, 0, 64)
        ratio = column_scales(MANY * sizes, 12) / sizes / column_scales(MANY, 12)
        assert 0.7 < ratio.min() <= ratio.max() < 1.4

    def test_an_outlier_column_leaves_the_others_as_they_are(self):
        spiked = MANY.copy()
        spiked[:, 5] *= 100
        ratio = column_scales(spiked, 12) / column_scales(MANY, 12)
        assert 70 < ratio[5] < 140
        others = np.delete(ratio, 5)
        assert 0.8 < others.min() <= others.max() < 1.25

    def test_a_column_without_entries_asks_for_the_least(self):
        empty = MANY.copy()
        empty[:, 3] = 0.0
        found, full = column_scales(empty, 12), column_scales(MANY, 12)
        assert 0 < found[3] < 0.01 * np.delete(found, 3).min()
        assert np.array_equal(np.delete(found, 3), np.delete(full, 3))
        assert column_scales(np.zeros((3, 4)), 12).tolist() == [1.0] * 4

    def test_up_to_20_items_more_of_them_may_be_smaller(self):
        scales = [column_scales(MANY, items).mean() for items in (6, 12, 20)]
        assert scales == sorted(scales, reverse=True)
        assert scales[0] > 1.3 * scales[-1]
        assert np.array_equal(column_scales(MANY, 40), column_scales(MANY, 20))

    def test_the_range_of_sources_reaches_the_largest(self):
        largest = column_scales(MANY, 12).max()
        assert largest_scale_range(MANY, 12) ** 2 == pytest.approx(largest, rel=1e-6)
        assert largest_scale_range(np.zeros((2, 2)), 12) == 1.0


def test_auto_serves_the_smaller_side_of_many_columns():
    assert auto_range(MANY, 12 * 64, "assigned") == largest_scale_range(MANY, 12)
    assert auto_range(MANY.T, 12 * 64, "assigned") == largest_scale_range(MANY, 12)
    assert auto_range(MANY.T, 12 * 96, "paper") == choose_range(MANY, 12, products=True)
    assert auto_range(SMALL, 12 * 24, "assigned") == choose_range(SMALL, 12, products=False)
    assert linear(MANY.T, items=4, range="auto", refine=0).sources[0].law == Uniform(largest_scale_range(MANY, 4))


class TestExpectedSquare:
    @pytest.mark.parametrize("target", [MANY, HEAVY], ids=["normal", "heavy tails"])
    def test_every_item_lowers_it(self, target):
        found = expected_square(target, range(1, 41))
        assert found[0] < np.sum(target**2)
        assert (found > 0).all()
        assert (np.diff(found) < 0).all()
        assert np.array_equal(expected_square(target, [7, 30]), found[[6, 29]])

    @pytest.mark.parametrize("target", [MANY, HEAVY], ids=["normal", "heavy tails"])
    @pytest.mark.parametrize("items", [6, 9, 12])
    def test_it_is_about_what_matched_units_leave(self, target, items):
        found = np.sum(linear(target, items=items, range="auto", refine=0).errors() ** 2)
        assert 0.2 < found / expected_square(target, [items])[0] < 5

    def test_it_follows_the_square_of_the_target(self):
        one, other = (expected_square(size * MANY, [4, 12, 30]) for size in (1.0, 1e-3))
        np.testing.assert_allclose(other, 1e-6 * one, rtol=1e-9)
        assert expected_square(np.zeros((3, 4)), [4, 30]).tolist() == [0.0, 0.0]
