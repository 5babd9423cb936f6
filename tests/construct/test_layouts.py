"""Which column does each hidden unit serve?"""

import numpy as np
import pytest
from construct_reference import best_assignment, best_error, uniform
from scipy.optimize import linear_sum_assignment

from strongticket.construct import layouts, linear
from strongticket.construct.greedy import greedy_assignment
from strongticket.construct.layouts import by_size, contiguous, sizes, without_useless
from strongticket.construct.prune import Problem, prune


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 6), (1, 1)])
def test_paper_layout_has_the_support_of_equation_6(shape):
    items, target = 6, uniform(1, *shape)
    pair = linear(target, items=items, layout="paper", seed=5)
    unit, column = np.indices(pair.masks[0].shape)
    np.testing.assert_array_equal(pair.masks[0], unit // items == column)
    w1, w2 = (source.weights().astype(np.float64) for source in pair.sources)
    for row in range(shape[0]):
        for column in range(shape[1]):
            served = slice(column * items, (column + 1) * items)
            best = best_error(w2[row, served] * w1[served, column], target[row, column])
            assert abs(pair.errors()[row, column]) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("width", [12, 13, 14, 15, 31])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4)])
def test_every_unit_serves_once(shape, width):
    pair = linear(uniform(0, *shape), width=width, refine=30)
    blocks = pair.masks[0] if shape[1] <= shape[0] else pair.masks[1].T
    assert blocks.shape == (width, 3)
    assert (blocks.sum(axis=1) == 1).all()
    assert set(blocks.sum(axis=0)) <= {width // 3, width // 3 + 1}


def test_the_smaller_side_has_more_items_at_the_same_width():
    target = uniform(0, 2, 8)
    paper, assigned = (linear(target, width=32, layout=x, refine=0) for x in ("paper", "assigned"))
    assert set(paper.masks[0].sum(axis=0)) == {4}
    assert set(assigned.masks[1].sum(axis=1)) == {16}
    assert assigned.max_error < paper.max_error


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [0.05, 1.0, 3.0])
def test_never_worse_than_the_paper_layout(seed, size):
    target = size * uniform(seed, 5, 5)
    paper = linear(target, items=8, seed=seed, layout="paper")
    assigned = linear(target, items=8, seed=seed, refine=0)
    assert (assigned.errors() ** 8).sum() <= (paper.errors() ** 8).sum() * (1 + 1e-9)


def test_the_claimed_error_is_the_real_one():
    target, u, v = uniform(0, 5, 3), uniform(1, 3, 20), uniform(2, 5, 20)
    serves = np.random.default_rng(3).integers(-1, 3, 20)
    pruned = prune(Problem(target, u, v), serves)
    chosen = np.zeros_like(u)
    for unit, column in enumerate(serves):
        if column >= 0:
            chosen[column, unit] = u[column, unit]
    np.testing.assert_allclose(pruned.error, target - (v * pruned.mask) @ chosen.T, rtol=0, atol=1e-14)
    assert not pruned.mask[:, serves < 0].any()
    assert pruned.max_error == np.abs(pruned.error).max()


def test_columns_without_units_stay_unsolved():
    target, done = uniform(0, 4, 3), []
    pruned = prune(Problem(target, uniform(1, 3, 6), uniform(2, 4, 6)), np.array([0, 0, 2, 2, 2, -1]), done.append)
    np.testing.assert_array_equal(pruned.error[:, 1], target[:, 1])
    assert sum(done) == target.size


@pytest.mark.parametrize(("units", "columns"), [(4, 2), (5, 2), (7, 3), (6, 3), (5, 1), (3, 3)])
def test_by_size_is_the_best_assignment(units, columns):
    for seed in range(5):
        u = uniform(seed, columns, units)
        serves = by_size(u)
        room = sizes(units, columns).tolist()
        assert np.bincount(serves, minlength=columns).tolist() == room
        total = np.abs(u)[serves, np.arange(units)].sum()
        assert total == pytest.approx(best_assignment(np.abs(u), room), rel=1e-12)


@pytest.mark.parametrize(("units", "columns"), [(60, 7), (128, 8), (300, 25)])
def test_greedy_assignment_is_nearly_the_best(units, columns):
    gain, room = np.abs(uniform(units, columns, units)), sizes(units, columns)
    serves = greedy_assignment(gain, room)
    np.testing.assert_array_equal(np.bincount(serves, minlength=columns), room)
    slots = contiguous(units, columns)
    places, chosen = linear_sum_assignment(gain[slots], maximize=True)
    best = gain[slots[places], chosen].sum()
    assert 0.97 * best <= gain[serves, np.arange(units)].sum() <= best * (1 + 1e-12)


def test_many_units_are_assigned_greedily(monkeypatch):
    target = uniform(0, 8, 8)
    monkeypatch.setattr(layouts, "_LARGEST_EXACT", 20)
    pair = linear(target, width=83, refine=20)
    assert (pair.masks[0].sum(axis=1) == 1).all()
    assert set(pair.masks[0].sum(axis=0)) == {10, 11}


def test_units_of_weight_zero_serve_none():
    u = np.array([[0.5, 0.0, 0.1], [0.0, 0.0, 0.2]])
    assert without_useless(np.array([0, 1, 1]), u).tolist() == [0, -1, 1]
    assert without_useless(np.array([1, 0, 0]), u).tolist() == [-1, -1, 0]
    assert by_size(u)[1] == -1


def test_contiguous_blocks_differ_by_one_unit_at_most():
    for units in range(1, 12):
        for columns in range(1, units + 1):
            blocks = contiguous(units, columns)
            assert (np.diff(blocks) >= 0).all()
            np.testing.assert_array_equal(np.bincount(blocks), sizes(units, columns))
            assert sizes(units, columns).min() == units // columns
