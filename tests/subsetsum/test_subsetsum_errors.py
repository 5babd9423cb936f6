"""Bad input is refused before any work, in words that help."""

from __future__ import annotations

import numpy as np
import pytest

from strongticket.subsetsum import BACKENDS, solve

ITEMS, TARGETS = np.ones((6, 3)), np.ones(6)


def spoiled(array, *changes):
    copy = array.copy()
    for place, value in changes:
        copy[place] = value
    return copy


@pytest.mark.parametrize(
    ("items", "targets", "message"),
    [
        (
            spoiled(ITEMS, ((4, 1), np.nan)),
            TARGETS,
            r"items .* got 1 NaN or infinite value, .* items\[4, 1\] = nan",
        ),
        (
            spoiled(ITEMS, ((2, 2), -np.inf), ((5, 0), np.nan)),
            TARGETS,
            r"got 2 NaN or infinite values, the first at items\[2, 2\] = -inf",
        ),
        (ITEMS, spoiled(TARGETS, (3, np.inf)), r"targets .* got 1 .* the first at targets\[3\] = inf"),
        (ITEMS, np.ones(5), r"items of shape \(6, 3\) and targets of shape \(5,\)"),
        (np.ones(6), TARGETS, r"items of shape \(6,\) and targets of shape \(6,\)"),
        (ITEMS, np.ones((6, 1)), r"items of shape \(6, 3\) and targets of shape \(6, 1\)"),
        (np.ones((6, 0)), TARGETS, r"at least one item, got items of shape \(6, 0\)"),
        (ITEMS.astype(complex), TARGETS, "items must be real numbers, got dtype complex128"),
        (ITEMS, TARGETS.astype(str), "targets must be real numbers, got dtype <U"),
        (spoiled(ITEMS, ((4, 0), 1e308), ((4, 1), 1e308)), TARGETS, "sums of problem 4 overflow float64"),
        (
            spoiled(ITEMS, ((1, 0), 1e308)),
            spoiled(TARGETS, (1, -1e308)),
            "sums of problem 1 overflow float64",
        ),
    ],
)
def test_values_and_shapes(items, targets, message):
    with pytest.raises(ValueError, match=message):
        solve(items, targets)


def test_the_first_bad_value_is_found_far_down():
    items = np.ones((70_000, 2), dtype=np.float32)
    items[69_999, 1] = items[69_998, 0] = np.nan
    with pytest.raises(ValueError, match=r"got 2 .* the first at items\[69998, 0\]"):
        solve(items, np.ones(70_000))


@pytest.mark.parametrize("tol", [-1e-9, -np.inf, np.nan])
def test_tol(tol):
    with pytest.raises(ValueError, match=r"tol must be 0 .* or a positive"):
        solve(ITEMS, TARGETS, tol=tol)


@pytest.mark.parametrize("threads", [0, -1])
def test_threads(threads):
    with pytest.raises(ValueError, match=f"threads must be at least 1, got {threads}"):
        solve(ITEMS, TARGETS, threads=threads)


def test_unknown_backend():
    with pytest.raises(ValueError, match="unknown backend 'cplex'; choose one of numba, torch, gurobi, highs, ortools"):
        solve(ITEMS, TARGETS, backend="cplex")
    assert list(BACKENDS) == ["numba", "torch", "gurobi", "highs", "ortools"]


def test_nothing_is_reported_before_an_error():
    steps = []
    with pytest.raises(ValueError, match="NaN"):
        solve(spoiled(ITEMS, ((5, 2), np.nan)), TARGETS, progress=steps.append)
    assert steps == []
