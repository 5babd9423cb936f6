"""A tolerance: enough is enough, and what is not found is not there."""

from __future__ import annotations

import numpy as np
import pytest
from subsetsum_reference import brute_force, random_batch, residuals_of

from strongticket.subsetsum import MOST_ITEMS, solve

BACKENDS = ("numba", "torch")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("count", [1, 5, 8, 9, 12, 14])
def test_within_tol_wherever_that_is_possible(count, tol, backend):
    items, targets = random_batch(20, 101, count)
    solution = solve(items, targets, tol=tol, backend=backend)
    best = np.abs(brute_force(items, targets)[1])
    assert np.array_equal(np.abs(solution.residuals) <= tol, best <= tol)
    assert np.array_equal(np.abs(solution.residuals)[best > tol], best[best > tol])
    assert np.array_equal(solution.residuals, residuals_of(items, targets, solution.masks))


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_above_tol_means_that_none_exists(tol):
    items, targets = random_batch(21, 500, 22)
    loose, exact = solve(items, targets, tol=tol), solve(items, targets)
    missed = np.abs(loose.residuals) > tol
    assert np.array_equal(missed, np.abs(exact.residuals) > tol)
    assert np.array_equal(loose.masks[missed], exact.masks[missed])


def test_items_beyond_those_tried_are_not_kept():
    items, targets = random_batch(22, 300, 30)
    solution = solve(items, targets, tol=1e-2)
    tried = 8
    while tried < 30:
        first = solve(items[:, :tried], targets)
        solved = np.abs(first.residuals) <= 1e-2
        assert not solution.masks[solved, tried:].any()
        tried += 4
    assert np.all(np.abs(solution.residuals) <= 1e-2)


def test_a_tolerance_below_reach_asks_for_the_best():
    items, targets = random_batch(23, 40, 17)
    assert np.array_equal(solve(items, targets, tol=1e-300).masks, solve(items, targets).masks)


def test_any_subset_is_within_infinity():
    items, targets = random_batch(24, 5, 50)
    assert np.isfinite(solve(items, targets, tol=np.inf).residuals).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [41, 60, 100])
def test_more_than_forty_items(count, backend):
    items, targets = random_batch(25, 50, count)
    solution = solve(items, targets, tol=1e-3, backend=backend)
    assert solution.masks.shape == (50, count)
    assert np.all(np.abs(solution.residuals) <= 1e-3)
    assert np.array_equal(solution.residuals, residuals_of(items, targets, solution.masks))


@pytest.mark.parametrize("count", [60, 100])
@pytest.mark.parametrize("share", [0.7, 0.95, -0.95])
def test_targets_beyond_the_reach_of_the_first_forty(count, share):
    items, _ = random_batch(26, 20, count)
    items[:, :MOST_ITEMS] *= 1e-2
    ends = np.where(items > 0, items, 0.0) if share > 0 else np.where(items < 0, items, 0.0)
    targets = abs(share) * ends.sum(axis=1)
    solution = solve(items, targets, tol=1e-3)
    kept = np.where(solution.masks, items, 0.0).sum(axis=1)
    assert np.all(np.abs(solution.residuals) <= 1e-3)
    assert np.allclose(solution.residuals, targets - kept, rtol=0, atol=1e-13)


def test_out_of_reach_of_all_items_keeps_all_of_one_sign():
    items, _ = random_batch(27, 10, 60)
    solution = solve(items, np.full(10, 1e3), tol=1e-3)
    assert np.array_equal(solution.masks, items > 0)


@pytest.mark.parametrize("count", [41, 60, 100])
def test_more_than_forty_items_need_a_tolerance(count):
    with pytest.raises(ValueError, match=f"at most 40 items, got {count}; give a tol > 0"):
        solve(np.ones((2, count)), np.ones(2))
