"""Random subset sums: how often 15 items miss a target by more than 0.01."""

from __future__ import annotations

import math

import numpy as np
import pytest

from strongticket.subsetsum import solve
from strongticket.subsetsum.problems import random_problems

DRAWS = 100_000


@pytest.mark.parametrize(
    ("products", "share", "mean", "median"),
    [(True, 0.0355, 0.0077, 3.4e-5), (False, 0.0040, 0.00066, 4.9e-5)],
)
def test_published_share_above_one_hundredth(products, share, mean, median):
    errors = np.abs(solve(*random_problems(DRAWS, 15, seed=1, products=products)).residuals)
    both_sampled = math.sqrt(2 * share * (1 - share) / DRAWS)
    assert abs((errors > 0.01).mean() - share) < 3 * both_sampled
    assert abs(errors.mean() / mean - 1) < 0.2
    assert abs(np.median(errors) / median - 1) < 0.05


def test_problems_are_reproducible_and_of_the_stated_laws():
    items, targets = random_problems(20_000, 5, seed=3)
    again, _ = random_problems(20_000, 5, seed=3)
    other, _ = random_problems(20_000, 5, seed=4)
    single, _ = random_problems(20_000, 5, seed=3, products=False)
    assert np.array_equal(items, again)
    assert not np.array_equal(items, other)
    assert items.dtype == targets.dtype == np.float64
    assert abs(items.var() - 1 / 9) < 0.005
    assert abs(single.var() - 1 / 3) < 0.01
    assert abs(targets.var() - 1 / 3) < 0.02
    assert max(np.abs(single).max(), np.abs(targets).max()) <= 1.0
