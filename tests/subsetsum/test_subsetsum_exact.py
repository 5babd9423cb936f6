"""Every n' from 1 to 14 against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from subsetsum_reference import EPS, brute_force, random_batch, residuals_of

from strongticket.subsetsum import solve

ITEMS = range(1, 15)
BACKENDS = ("numba", "torch")

plain = st.floats(-1.0, 1.0)
whole = st.integers(-3, 3).map(float)
tiny = st.floats(-1e-290, 1e-290)
denormal = st.integers(-(2**20), 2**20).map(lambda k: k * 5e-324)
huge = st.floats(-1e300, 1e300)
mixed = st.one_of(plain, whole, tiny, denormal, huge, st.sampled_from([0.0, -0.0, 1e-8, 1e8, -1e16]))
few = st.sampled_from([0.1, -0.1, 0.3, 0.0])


def batches(count):
    """Up to five problems of ``count`` items, with values of one kind or of all kinds."""

    def of(kind):
        values = {"elements": kind, "fill": st.nothing()}
        return st.integers(1, 5).flatmap(
            lambda problems: st.tuples(
                arrays(np.float64, (problems, count), **values), arrays(np.float64, problems, **values)
            )
        )

    return st.sampled_from([plain, whole, tiny, denormal, huge, mixed, few]).flatmap(of)


def check(items, targets, backend):
    """The residual is the mask's own, and the least there is but for the rounding of the sums compared."""
    solution = solve(items, targets, backend=backend, threads=1)
    assert np.array_equal(solution.residuals, residuals_of(items, targets, solution.masks))
    masks, residuals = brute_force(items, targets)
    size = np.abs(targets) + (np.abs(items) * (masks * 1.0 + solution.masks)).sum(axis=1)
    assert np.all(np.abs(solution.residuals) >= np.abs(residuals))
    assert np.all(np.abs(solution.residuals) <= np.abs(residuals) + items.shape[1] * EPS * size)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", ITEMS)
def test_any_values_against_brute_force(count, backend):
    @settings(max_examples=50, deadline=None)
    @given(batches(count))
    @example((np.zeros((1, count)), np.zeros(1)))
    @example((np.ones((3, count)), np.array([0.4, 1.5, -2.0])))
    @example((np.full((1, count), 5e-324), np.array([1.5e-323])))
    def run(batch):
        check(*batch, backend)

    run()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("count", ITEMS)
def test_random_values_to_the_last_bit(count, scale, backend):
    items, targets = random_batch(1, 51, count, scale=scale)
    solution = solve(items, targets, backend=backend)
    masks, residuals = brute_force(items, targets)
    assert np.array_equal(solution.masks, masks)
    assert np.array_equal(solution.residuals, residuals)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", ITEMS)
def test_scales_mixed_in_one_problem(count, backend):
    rng = np.random.default_rng(count)
    items = rng.uniform(-1, 1, (33, count)) * 10.0 ** rng.integers(-30, 30, (33, count))
    targets = rng.uniform(-1, 1, 33) * 10.0 ** rng.integers(-30, 30, 33)
    check(items, targets, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", ITEMS)
def test_target_out_of_reach(count, backend):
    items, _ = random_batch(2, 8, count)
    far = np.where(np.arange(8) % 2, 1e6, -1e6)
    solution = solve(items, far, backend=backend)
    assert np.array_equal(solution.masks, (items > 0) == (far > 0)[:, None])


@pytest.mark.parametrize("count", [6, 9, 12, 13, 14])
def test_whole_numbers_have_many_equal_sums(count):
    rng = np.random.default_rng(count)
    items = rng.integers(-20, 20, (400, count)).astype(np.float64)
    targets = rng.integers(-100, 100, 400) + 0.25
    _, residuals = brute_force(items, targets)
    assert np.array_equal(np.abs(solve(items, targets).residuals), np.abs(residuals))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("problems", [0, 1, 2, 3, 4, 5, 7, 8, 9, 17])
@pytest.mark.parametrize("count", [1, 5, 8, 9])
def test_any_number_of_problems(problems, count, backend):
    items, targets = random_batch(3, problems, count)
    solution = solve(items, targets, backend=backend)
    assert solution.masks.shape == (problems, count)
    assert solution.masks.dtype == np.bool_
    assert solution.residuals.shape == (problems,)
    assert solution.residuals.dtype == np.float64
    assert np.array_equal(solution.residuals, brute_force(items, targets)[1])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.longdouble, ">f8"])
def test_other_number_types_are_taken_at_their_value(dtype):
    items, targets = (np.round(array * 8).astype(dtype) for array in random_batch(4, 20, 7, scale=10.0))
    _, residuals = brute_force(items, targets)
    assert np.array_equal(np.abs(solve(items, targets).residuals), np.abs(residuals))


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_layout_does_not_matter(backend):
    items, targets = random_batch(5, 30, 10)
    expected = solve(items, targets, backend=backend)
    locked = items.copy()
    locked.setflags(write=False)
    odd_address = np.frombuffer(b"\0" + items.tobytes(), np.uint8)[1:].view(np.float64).reshape(items.shape)
    wide = np.zeros((30, 20))
    wide[:, ::2] = items
    for same in (locked, odd_address, np.asfortranarray(items), wide[:, ::2], items.tolist()):
        solution = solve(same, targets, backend=backend)
        assert np.array_equal(solution.masks, expected.masks)
        assert np.array_equal(solution.residuals, expected.residuals)


def test_one_compiled_kernel_serves_every_layout():
    from strongticket.subsetsum.backends.lanes import solve_exact

    items, targets = random_batch(6, 4, 6)
    items.setflags(write=False)
    targets.setflags(write=False)
    solve(items, targets)
    solve(items.copy(), targets.copy(), tol=1e-3)
    assert len(solve_exact.signatures) == 1


def test_input_is_left_alone():
    items, targets = random_batch(7, 10, 60)
    before = items.copy(), targets.copy()
    solve(items, targets, tol=1e-3)
    assert np.array_equal(items, before[0])
    assert np.array_equal(targets, before[1])
