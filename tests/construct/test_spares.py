"""Spare units: held back, then given to the columns whose worst entries they mend."""

from dataclasses import replace

import numpy as np
import pytest

from strongticket import construct
from strongticket.construct.layouts import by_size
from strongticket.construct.prune import Problem, prune
from strongticket.construct.search import Search
from strongticket.construct.spares import matched_units, start_with_spares, wanted_sizes


def random_problem(rows, columns, items, seed=0):
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-1, 1, (columns, items * columns)), rng.uniform(-1, 1, (rows, items * columns))
    return Problem(rng.normal(0, 0.3, (rows, columns)), u, v, threads=1)


def test_every_unit_serves_and_one_column_in_16_gives_its_last_to_another():
    problem = random_problem(12, 40, 8)
    pruned = start_with_spares(problem)
    sizes = np.bincount(pruned.serves, minlength=40)
    assert sizes.sum() == problem.units
    assert (sizes >= 7).all()
    assert (sizes <= 9).all()
    assert np.count_nonzero(sizes == 7) <= 2


def test_the_last_units_go_to_the_columns_with_the_worst_entries():
    problem = random_problem(60, 64, 10)
    target = problem.target.copy()
    target[5, 7] = 4.0
    pruned = start_with_spares(replace(problem, target=target))
    assert len(pruned.units_of(7)) == 11


def test_errors_are_those_of_the_masks():
    problem = random_problem(12, 20, 8)
    pruned = start_with_spares(problem)
    for column in range(problem.columns):
        units = pruned.units_of(column)
        kept = (problem.items(column, units) * pruned.mask[:, units]).sum(axis=1)
        np.testing.assert_allclose(problem.target[:, column] - kept, pruned.error[:, column], atol=1e-12)


def test_no_entry_is_worse_than_without_the_spare_units():
    problem = random_problem(16, 24, 9)
    before = np.abs(prune(problem, matched_units(problem, wanted_sizes(problem))).error)
    assert (np.abs(start_with_spares(problem).error) <= before + 1e-12).all()


@pytest.mark.parametrize("items", [8, 12])
def test_the_same_units_leave_less_squared_error_than_an_assignment_by_size_alone(items):
    problem = random_problem(96, 64, items)
    plain = np.mean(prune(problem, by_size(problem.u)).error ** 2)
    assert np.mean(start_with_spares(problem).error ** 2) < 0.7 * plain


def test_large_matrices_start_with_spares_and_report_all_their_progress():
    target = np.random.default_rng(1).normal(0, 0.2, (64, 70))
    solved = []
    pair = construct.linear(target, items=6, refine=3, progress=solved.append, threads=1)
    assert sum(solved) == Search(refine=3).subset_sums(70, 64, 6 * 64)
    again = construct.linear(target, items=6, refine=3, threads=2)
    assert all((a == b).all() for a, b in zip(pair.masks, again.masks, strict=True))


def test_behind_a_relu_only_units_of_the_right_sign_are_added():
    target = np.random.default_rng(2).normal(0, 0.2, (8, 33))
    pair = construct.relu(target, items=5, refine=0)
    x = np.random.default_rng(3).normal(size=(10, 33))
    positive, negative = pair.parts()
    np.testing.assert_allclose(pair(x), np.maximum(x, 0) @ positive.T + np.maximum(-x, 0) @ negative.T, atol=1e-12)
    assert pair.masks[0].sum(axis=1).max() == 1


def test_columns_get_units_of_their_own_size():
    problem = random_problem(40, 64, 12)
    sizes = np.where(np.arange(64) < 8, 1.0, 0.05)
    problem = replace(problem, target=problem.target * sizes)
    wanted = wanted_sizes(problem)
    assert wanted[:8].min() > 4 * wanted[8:].max()
    pruned = start_with_spares(problem)
    typical = [np.median(np.abs(problem.u[g, pruned.units_of(g)])) for g in range(64)]
    np.testing.assert_allclose(typical, wanted, rtol=0.25)


def test_an_outlier_column_does_not_cost_the_others_their_resolution():
    rng = np.random.default_rng(5)
    target = rng.normal(0, 0.01, (80, 80))
    spiked = target.copy()
    spiked[:, 0] *= 10
    plain, found = (construct.linear(t, items=12, range="auto", refine=0).errors()[:, 1:] for t in (target, spiked))
    assert np.sqrt(np.mean(found**2)) < 1.5 * np.sqrt(np.mean(plain**2))
