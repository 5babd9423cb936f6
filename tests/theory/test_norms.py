"""Norm bounds: never below the norm, close above it, whatever the scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongticket.theory import difference_norm_bound, norms, spectral_norm_bound


def lower_bound(matrix: np.ndarray) -> np.longdouble:
    """‖A·v‖/‖v‖ in extended precision: never above the norm."""
    scale = np.abs(matrix).max()
    a = matrix.astype(np.longdouble) / np.longdouble(scale)
    v = np.linalg.svd((matrix / scale).astype(np.float64))[2][0].astype(np.longdouble)
    for _ in range(4):
        v = a.T @ (a @ v)
        v /= np.sqrt((v * v).sum())
    return np.sqrt(((a @ v) ** 2).sum()) / np.sqrt((v * v).sum()) * np.longdouble(scale)


def hilbert(n: int) -> np.ndarray:
    return 1.0 / (np.arange(n)[:, None] + np.arange(n)[None, :] + 1)


def hard_cases() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    orthogonal = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    return {
        "one entry": np.array([[-0.3]]),
        "row": rng.standard_normal((1, 50)),
        "column": rng.standard_normal((50, 1)),
        "orthogonal": orthogonal,
        "equal top values": orthogonal @ np.diag(np.r_[np.ones(30), np.full(30, 1 - 1e-15)]) @ orthogonal.T,
        "hilbert": hilbert(40),
        "ones": np.ones((37, 53)),
        "nilpotent": np.eye(30, k=1) * 10.0 ** np.arange(30),
        "graded": np.diag(10.0 ** -np.arange(0.0, 300.0, 10.0)),
        "huge": 1e300 * rng.standard_normal((8, 5)),
        "tiny": 1e-300 * rng.standard_normal((8, 5)),
        "gaussian": rng.standard_normal((120, 80)),
    }


@pytest.mark.parametrize("name", hard_cases())
@pytest.mark.parametrize("limit", [norms.SVD_LIMIT, 0])
def test_never_below_the_norm_and_close_above_it(name, limit, monkeypatch):
    monkeypatch.setattr(norms, "SVD_LIMIT", limit)
    matrix = hard_cases()[name]
    bound, below = spectral_norm_bound(matrix), lower_bound(matrix)
    assert np.longdouble(bound) >= below
    looseness = 1e-11 if limit else max(matrix.shape) ** (1 / 128) - 1 + 1e-9
    assert bound <= float(below) * (1 + looseness)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1), st.integers(-200, 200))
def test_random_matrices(rows, columns, seed, exponent):
    matrix = np.random.default_rng(seed).standard_normal((rows, columns)) * 10.0**exponent
    assert np.longdouble(spectral_norm_bound(matrix)) >= lower_bound(matrix)


def test_it_does_not_trust_the_svd(monkeypatch):
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((20, 10))
    exact = np.linalg.svd

    def wrong(a, full_matrices=True):
        u, sigma, vt = exact(a, full_matrices=full_matrices)
        return u + 1e-3 * rng.standard_normal(u.shape), 0.5 * sigma, 1.01 * vt

    below = lower_bound(matrix)
    monkeypatch.setattr(np.linalg, "svd", wrong)
    assert np.longdouble(spectral_norm_bound(matrix)) >= below


def test_zero_and_empty():
    assert spectral_norm_bound(np.zeros((3, 4))) == 0.0
    assert spectral_norm_bound(np.zeros((0, 4))) == 0.0


def test_smallest_number_there_is():
    assert spectral_norm_bound(np.array([[5e-324]])) >= 5e-324


def test_difference_covers_its_own_rounding():
    # 1 - 2^-60 rounds to 1 in double precision, so the difference to 0 is not exact either way
    left, right = np.array([[1.0]]), np.array([[2.0**-60]])
    assert np.longdouble(difference_norm_bound(left, right)) >= np.longdouble(1) - np.longdouble(2.0**-60)
    assert difference_norm_bound(left, -right) > 1.0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones(3), "two dimensions"),
        (np.array([[np.nan]]), "NaN or infinity"),
        (np.array([[np.inf]]), "NaN or"),
    ],
)
def test_bad_input(matrix, message):
    with pytest.raises(ValueError, match=message):
        spectral_norm_bound(matrix)


@pytest.mark.slow
def test_a_large_matrix():
    matrix = np.random.default_rng(2).standard_normal((2048, 1500))
    bound, norm = spectral_norm_bound(matrix), np.linalg.norm(matrix, 2)
    assert norm <= bound <= 1.04 * norm
