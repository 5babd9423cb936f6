"""The compiled loops against the same in plain NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongticket.construct.kernels import count_sizes, gather, match, probe, scatter, take_best

QUICK = settings(max_examples=40, deadline=None, derandomize=True)
ORDERS = pytest.mark.parametrize("order", ["C", "F"])
CASES = given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 7), st.integers(0, 5))


def case(order, seed, rows, columns, most):
    """v (rows × n), u (columns × n), and units of each column, padded with -1; some units serve none."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, most + 1, columns)
    n = int(sizes.sum()) + int(rng.integers(1, 5))
    v, u = (rng.uniform(-1, 1, (k, n)).astype(np.float32) for k in (rows, columns))
    taken, units = iter(rng.permutation(n)), np.full((columns, max(sizes)), -1)
    for column, size in enumerate(sizes):
        units[column, :size] = sorted(next(taken) for _ in range(size))
    weight = np.where(units >= 0, np.take_along_axis(u, units, axis=1).astype(np.float64), 0.0)
    return rng, np.asarray(v, order=order), u, units, weight


def entries(rng, rows, columns):
    """Some entries of a matrix, each at most once."""
    chosen = rng.permutation(rows * columns)[: rng.integers(0, rows * columns + 1)]
    return chosen // columns, chosen % columns


@ORDERS
@CASES
@QUICK
def test_gather(order, seed, rows, columns, most):
    rng, v, _, units, weight = case(order, seed, rows, columns, most)
    at, of = entries(rng, rows, columns)
    items = np.full((len(at), units.shape[1]), np.nan)
    gather(v, units, weight, at, of, items)
    for p in range(len(at)):
        for j, unit in enumerate(units[of[p]]):
            assert items[p, j] == (float(v[at[p], unit]) * weight[of[p], j] if unit >= 0 else 0.0)


@ORDERS
@CASES
@QUICK
def test_scatter(order, seed, rows, columns, most):
    rng, v, _, units, _ = case(order, seed, rows, columns, most)
    at, of = entries(rng, rows, columns)
    found, residuals = rng.random((len(at), units.shape[1])) < 0.5, rng.normal(size=len(at))
    mask, error = np.asarray(rng.random(v.shape) < 0.5, order=order), rng.normal(size=(rows, columns))
    wanted_mask, wanted_error = mask.copy(), error.copy()
    wanted_error[at, of] = residuals
    for p in range(len(at)):
        mine = units[of[p]] >= 0
        wanted_mask[at[p], units[of[p]][mine]] = found[p][mine]
    scatter(found, residuals, units, at, of, mask, error)
    assert np.array_equal(mask, wanted_mask)
    assert np.array_equal(error, wanted_error)


def matched(u, wanted, close, room):
    """The column of each unit, by the rule: the closest with room within ``close``, then the closest units left."""
    units, columns = u.shape
    misfit = np.where(u == 0, np.inf, np.abs(np.abs(u) / wanted - 1))
    room, serves = room.copy(), np.full(units, -1)
    for unit in range(units):
        fits = [(misfit[unit, column], column) for column in range(columns) if room[column]]
        if fits and min(fits)[0] < close:
            serves[unit] = min(fits)[1]
            room[serves[unit]] -= 1
    for column in range(columns):
        left = sorted(
            (misfit[unit, column], unit) for unit in range(units) if serves[unit] < 0 and u[unit, column] != 0
        )
        for _, unit in left[: room[column]]:
            serves[unit] = column
    return serves


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 7), st.sampled_from([0.0, 0.05, 0.5]))
@QUICK
def test_match(seed, units, columns, close):
    rng = np.random.default_rng(seed)
    u = np.where(rng.random((units, columns)) < 0.2, 0.0, rng.uniform(-1, 1, (units, columns))).astype(np.float32)
    wanted, room = rng.uniform(0.1, 1, columns), rng.integers(0, 5, columns)
    serves, left = np.full(units, 99), room.copy()
    match(u, wanted, close, left, serves)
    assert np.array_equal(serves, matched(u.astype(np.float64), wanted, close, room))
    assert np.array_equal(left, room - np.bincount(serves[serves >= 0], minlength=columns))


@ORDERS
@CASES
@QUICK
def test_probe(order, seed, rows, columns, most):
    rng, v, u, units, weight = case(order, seed, rows, columns, most)
    u[rng.random(u.shape) < 0.3] = 0.0
    target, error = rng.normal(size=(2, rows, columns))
    wanted, batch = rng.uniform(0.1, 1, columns), rng.permutation(columns)[: rng.integers(1, columns + 1)]
    free = np.setdiff1d(np.arange(v.shape[1]), units)
    count, worst_rows = int(rng.integers(1, len(free) + 1)), int(rng.integers(1, rows + 1))
    shape = len(batch), count, worst_rows
    candidates, items, targets = np.full(shape[:2], 99), np.full((*shape, units.shape[1] + 1), np.nan), np.empty(shape)
    probe(u, v, target, error, units, weight, wanted, batch, free, candidates, items, targets)
    for b, column in enumerate(batch):
        usable = free[u[column, free] != 0]
        fit = np.abs(np.abs(u[column, usable].astype(np.float64)) / wanted[column] - 1)
        best = usable[np.argsort(fit, kind="stable")][:count]
        assert candidates[b].tolist() == [*best, *[-1] * (count - len(best))]
        worst = np.argsort(-np.abs(error[:, column]), kind="stable")[:worst_rows]
        assert np.array_equal(targets[b], np.tile(target[worst, column], (count, 1)))
        own = np.where(units[column] >= 0, v[worst][:, units[column]].astype(np.float64) * weight[column], 0.0)
        for k in range(count):
            assert np.array_equal(items[b, k, :, :-1], own)
            added = v[worst, best[k]].astype(np.float64) * u[column, best[k]] if k < len(best) else np.zeros(len(worst))
            np.testing.assert_allclose(items[b, k, :, -1], added, rtol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 6))
@QUICK
def test_take_best(seed, columns, count):
    rng = np.random.default_rng(seed)
    candidates = np.array([rng.permutation(np.arange(-1, 9))[:count] for _ in range(columns)])
    cost, batch = rng.random((columns, count)), rng.permutation(columns)
    serves = np.where(rng.random(9) < 0.3, 50, -1)
    wanted = serves.tolist()
    for b, column in enumerate(batch):
        for _, unit in sorted(zip(cost[b], candidates[b], strict=True)):
            if unit >= 0 and wanted[unit] == -1:
                wanted[unit] = column
                break
    take_best(serves, batch, candidates, cost)
    assert serves.tolist() == wanted


@ORDERS
def test_count_sizes(order):
    sizes = 2.0 ** np.array([[0.0, -1.0], [-0.26, -1.13], [-0.2, -50.0]])
    target = np.asarray(3.0 * sizes * [[-1, 1], [1, -1], [-1, 1]], order=order)
    target = np.asarray(np.vstack([target, np.zeros((2, 2))]), order=order)
    counts = np.zeros((2, 9), dtype=np.intp)
    count_sizes(target, 3.0, counts)
    assert counts.tolist() == [[2, 0, 0, 0, 0, 0, 0, 2, 1], [3, 0, 0, 1, 1, 0, 0, 0, 0]]
