"""The swap search lowers Σ |error|^8 and keeps every promise of the pruning it starts from."""

import numpy as np
import pytest
from construct_reference import uniform

from strongticket.construct.layouts import contiguous, without_useless
from strongticket.construct.prune import Problem, prune
from strongticket.construct.swaps import PROPOSALS, default_rounds, swap_search


def problem_of(seed, rows=5, columns=4, units=26, **settings):
    return Problem(
        uniform(seed, rows, columns), uniform(seed + 1, columns, units), uniform(seed + 2, rows, units), **settings
    )


def real_error(problem, pruned):
    chosen = np.zeros_like(problem.u)
    used = np.flatnonzero(pruned.serves >= 0)
    chosen[pruned.serves[used], used] = problem.u[pruned.serves[used], used]
    return problem.target - (problem.v * pruned.mask) @ chosen.T


def search(problem, pruned, rounds, **settings):
    swap_search(problem, pruned, rounds=rounds, **({"seed": 0, "name": "test"} | settings))
    return pruned


@pytest.mark.parametrize("seed", range(4))
def test_the_cost_never_rises(seed):
    problem = problem_of(seed)
    start = contiguous(problem.units, problem.columns)
    costs = [
        problem.cost(search(problem, prune(problem, start), rounds).error).sum() for rounds in (0, 1, 2, 5, 20, 80)
    ]
    assert (np.diff(costs) <= 0.0).all()
    assert costs[-1] < 1e-3 * costs[0]


@pytest.mark.parametrize("seed", range(4))
def test_the_claimed_error_is_the_real_one(seed):
    problem = problem_of(seed)
    start = contiguous(problem.units, problem.columns)
    pruned = search(problem, prune(problem, start), 50)
    np.testing.assert_allclose(pruned.error, real_error(problem, pruned), rtol=0, atol=1e-13)
    again = prune(problem, pruned.serves)
    np.testing.assert_allclose(np.abs(again.error), np.abs(pruned.error), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(np.bincount(pruned.serves), np.bincount(start))
    assert (pruned.serves != start).any()


@pytest.mark.parametrize("seed", range(6))
def test_useless_units_stay_out(seed):
    problem = problem_of(seed)
    u = np.where(problem.u > 0.2, problem.u, 0.0)
    problem = Problem(problem.target, u, problem.v)
    start = without_useless(contiguous(problem.units, problem.columns), u)
    assert (start < 0).any()
    pruned = search(problem, prune(problem, start), 60)
    np.testing.assert_array_equal(np.flatnonzero(pruned.serves < 0), np.flatnonzero(start < 0))
    used = np.flatnonzero(pruned.serves >= 0)
    assert (u[pruned.serves[used], used] > 0.0).all()
    assert not pruned.mask[:, start < 0].any()
    np.testing.assert_allclose(pruned.error, real_error(problem, pruned), rtol=0, atol=1e-13)


def test_nothing_to_exchange():
    problem, done = problem_of(0, columns=2, units=6), []
    pruned = search(problem, prune(problem, np.array([0, 0, 0, 0, -1, -1])), 9, progress=done.append)
    assert pruned.serves.tolist() == [0, 0, 0, 0, -1, -1]
    assert sum(done) == 9 * PROPOSALS * 5


def test_progress_counts_every_round_also_after_an_early_end():
    problem, done = problem_of(0, tol=0.5), []
    pruned = prune(problem, contiguous(problem.units, problem.columns))
    before = pruned.serves.copy()
    search(problem, pruned, 1000, tol=2.0, progress=done.append)
    assert done == [1000 * PROPOSALS * 5]
    np.testing.assert_array_equal(pruned.serves, before)


def test_gives_up_after_200_rounds_without_a_change():
    problem, done = problem_of(0, rows=1, columns=2, units=2), []
    search(problem, prune(problem, np.array([0, 1])), 5000, progress=done.append)
    assert sum(done) == 5000 * PROPOSALS
    assert len(done) < 500


def test_seed_and_name_draw_the_exchanges():
    problem = problem_of(0)
    start = contiguous(problem.units, problem.columns)
    found = [
        search(problem, prune(problem, start), 5, **which).serves for which in ({}, {}, {"seed": 1}, {"name": "other"})
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()
    assert (found[0] != found[3]).any()


def test_default_rounds_fall_with_the_size():
    assert default_rounds(1, 1) == default_rounds(16, 16) == 1000
    assert default_rounds(768, 16) == 41
    assert default_rounds(4096, 40) == 0
