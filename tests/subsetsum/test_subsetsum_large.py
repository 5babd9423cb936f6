"""From 16 to 40 items against a meet in the middle written with sort and searchsorted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from subsetsum_reference import EPS, meet_in_the_middle, random_batch

from strongticket.subsetsum import solve


def check(items, targets, backend="numba"):
    solution = solve(items, targets, backend=backend)
    for row, target, mask, residual in zip(items, targets, solution.masks, solution.residuals, strict=True):
        exact, in_order = meet_in_the_middle(row, target)
        assert abs(residual) == in_order
        rounding = len(row) * EPS * (np.abs(row[mask]).sum() + abs(target))
        assert abs(math.fsum([target, *(-row[mask])])) <= exact + rounding


@pytest.mark.parametrize(("count", "problems"), [(16, 33), (20, 17), (24, 9), (27, 5), (30, 5), (33, 3), (36, 2)])
def test_random_items(count, problems):
    check(*random_batch(10, problems, count))


@pytest.mark.parametrize(("count", "problems"), [(16, 9), (21, 5), (24, 3), (30, 1)])
def test_random_items_torch(count, problems):
    check(*random_batch(11, problems, count), backend="torch")


def test_forty_items():
    check(*random_batch(12, 1, 40))


@pytest.mark.slow
@pytest.mark.parametrize("count", [37, 38, 39, 40])
def test_most_items(count):
    check(*random_batch(13, 5, count))


@pytest.mark.parametrize("count", [16, 21, 30])
def test_items_of_very_different_sizes(count):
    items, targets = random_batch(14, 6, count)
    items *= 10.0 ** -(np.arange(count) / 2)
    check(items, targets)


@pytest.mark.parametrize("count", [20, 25, 30])
def test_equal_items_take_the_scalar_path(count):
    targets = np.array([0.3, 7.4, 11.75, count + 3.0, -2.0])
    solution = solve(np.ones((5, count)), targets)
    kept = np.clip(np.round(targets), 0, count)
    assert np.array_equal(solution.masks.sum(axis=1), kept)
    assert np.array_equal(solution.residuals, targets - kept)


@pytest.mark.parametrize("count", [20, 29])
def test_whole_numbers(count):
    rng = np.random.default_rng(count)
    items = rng.integers(-50, 50, (9, count)).astype(np.float64)
    solution = solve(items, np.full(9, 3.25))
    assert np.array_equal(solution.residuals, np.full(9, 0.25))


def test_a_planted_subset_is_found():
    rng = np.random.default_rng(0)
    items = rng.integers(-(2**40), 2**40, (5, 36)).astype(np.float64)
    kept = rng.random((5, 36)) < 0.5
    solution = solve(items, np.where(kept, items, 0.0).sum(axis=1))
    assert np.array_equal(solution.residuals, np.zeros(5))
