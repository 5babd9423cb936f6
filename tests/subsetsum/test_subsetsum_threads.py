"""The result does not depend on threads or on how the problems are cut; progress adds up."""

from __future__ import annotations

import time

import numpy as np
import pytest
from subsetsum_reference import random_batch

from strongticket.parallel import resolve_threads, run_chunks
from strongticket.subsetsum import solve
from strongticket.subsetsum.backends import numba_backend


def same(a, b):
    return np.array_equal(a.masks, b.masks) and np.array_equal(a.residuals, b.residuals)


@pytest.mark.parametrize("tol", [0.0, 1e-3])
@pytest.mark.parametrize("count", [3, 8, 13, 20])
def test_threads(count, tol):
    items, targets = random_batch(30, 40_000 if count < 10 else 4_001, count)
    one = solve(items, targets, tol=tol, threads=1)
    for threads in (2, 3, None):
        assert same(one, solve(items, targets, tol=tol, threads=threads))


@pytest.mark.parametrize("tol", [0.0, 1e-3])
@pytest.mark.parametrize("chunk", [1, 3, 4, 29, 1000])
def test_chunks(chunk, tol, monkeypatch):
    rng = np.random.default_rng(0)
    items, targets = random_batch(31, 203, 11)
    items[::5] = rng.integers(-4, 4, items[::5].shape)
    whole = solve(items, targets, tol=tol)
    monkeypatch.setattr(numba_backend, "block_size", lambda count: chunk)
    assert same(whole, solve(items, targets, tol=tol, threads=2))


def test_neighbours_in_the_batch_do_not_matter():
    items, targets = random_batch(32, 50, 15)
    whole = solve(items, targets)
    order = np.random.default_rng(0).permutation(50)
    shuffled = solve(items[order], targets[order])
    assert np.array_equal(shuffled.masks, whole.masks[order])
    alone = np.concatenate([solve(items[p : p + 1], targets[p : p + 1]).masks for p in range(50)])
    assert np.array_equal(alone, whole.masks)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tol", [0.0, 1e-2])
def test_progress_adds_up(threads, tol, backend):
    items, targets = random_batch(33, 1237, 24 if backend == "numba" else 20)
    steps = []
    solve(items, targets, tol=tol, threads=threads, progress=steps.append, backend=backend)
    assert sum(steps) == 1237
    assert min(steps) > 0


def test_chunks_cover_the_range_once():
    for threads in (1, 3):
        seen = np.zeros(103, dtype=int)

        def work(start, stop, seen=seen):
            seen[start:stop] += 1

        steps = []
        run_chunks(work, 103, 10, threads, steps.append)
        assert np.all(seen == 1)
        assert sorted(steps) == [3] + [10] * 10


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("watched", [True, False])
def test_an_error_in_one_chunk_is_raised_and_stops_the_rest(threads, watched):
    started = []

    def work(start, stop):
        started.append(start)
        if start == 0:
            raise RuntimeError("broken piece")
        time.sleep(0.01)

    with pytest.raises(RuntimeError, match="broken piece"):
        run_chunks(work, 500, 1, threads, (lambda count: None) if watched else None)
    assert len(started) < 500


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_progress_is_raised(threads):
    items, targets = random_batch(34, 400, 20)

    def progress(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(items, targets, threads=threads, progress=progress)


def test_default_threads(monkeypatch):
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    cores = resolve_threads(None)
    assert cores >= 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert resolve_threads(None) == 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "100000")
    assert resolve_threads(None) == cores
    assert resolve_threads(7) == 7
