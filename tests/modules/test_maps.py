"""Linear maps against products of matrices: shapes, precisions, gradients and memory."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strongticket.modules import MergedMap, PrunedMap, maps

D_IN, D_OUT, SIZE = 5, 4, 3


def folded(units, dense, *, units_first, scale=1.0):
    """The one matrix (d_out × d_in (+1)) that two pruned matrices are the product of, by their definition."""
    groups, size = units.shape
    hidden = np.zeros((groups, groups * size))
    for group in range(groups):
        hidden[group, group * size : (group + 1) * size] = units[group]
    return scale * ((hidden @ dense).T if units_first else hidden @ dense.T)


def random_pair(rng, d_in, d_out, size, *, units_first, bias):
    groups = d_in + bias if units_first else d_out
    units = rng.normal(size=(groups, size))
    units[np.arange(size) >= rng.integers(0, size + 1, (groups, 1))] = 0.0
    other = d_out if units_first else d_in + bias
    dense = rng.normal(size=(groups * size, other) if units_first else (other, groups * size))
    return units, dense


def by_hand(matrix, x, bias):
    return (np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1) if bias else x) @ matrix.T


def both_maps(*, bias=True):
    """A map of either kind and order of the pruned matrices, each with the matrix that it is."""
    rng = np.random.default_rng(7)
    matrix = rng.normal(size=(D_OUT, D_IN + bias))
    yield MergedMap(matrix, bias=bias), matrix
    for units_first in (True, False):
        units, dense = random_pair(rng, D_IN, D_OUT, SIZE, units_first=units_first, bias=bias)
        module = PrunedMap(units, dense, units_first=units_first, scale=0.7, bias=bias)
        yield module, folded(units, dense, units_first=units_first, scale=0.7)


@settings(max_examples=60, deadline=None)
@given(
    leading=st.lists(st.integers(0, 3), max_size=3),
    d_in=st.integers(1, 6),
    d_out=st.integers(1, 6),
    size=st.integers(1, 4),
    units_first=st.booleans(),
    bias=st.booleans(),
    scale=st.floats(-2, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_of_any_shape(leading, d_in, d_out, size, units_first, bias, scale, seed):
    rng = np.random.default_rng(seed)
    units, dense = random_pair(rng, d_in, d_out, size, units_first=units_first, bias=bias)
    matrix = folded(units, dense, units_first=units_first, scale=scale)
    x = rng.normal(size=(*leading, d_in))
    for module in (
        MergedMap(matrix, bias=bias),
        PrunedMap(units, dense, units_first=units_first, scale=scale, bias=bias),
    ):
        y = module(torch.from_numpy(x))
        assert y.shape == (*leading, d_out)
        np.testing.assert_allclose(y.numpy(), by_hand(matrix, x, bias), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5), (torch.bfloat16, 0.2)])
@pytest.mark.parametrize("inference", [False, True])
def test_precisions(dtype, tolerance, inference):
    x = torch.randn(2, 3, D_IN, generator=torch.Generator().manual_seed(0)).to(dtype)
    for module, matrix in both_maps():
        with torch.inference_mode(inference):
            y = module.to(dtype)(x)
        assert y.dtype == dtype
        wanted = by_hand(matrix, x.double().numpy(), True)
        np.testing.assert_allclose(y.double().numpy(), wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_buffers_are_copies_with_their_own_precision(dtype):
    units, dense = np.ones((4, 2), dtype), np.ones((8, 3), dtype)[:, ::-1]
    units.flags.writeable = False
    modules = [MergedMap(dense.T), PrunedMap(units, dense, units_first=True)]
    for module in modules:
        assert not list(module.parameters())
        assert {str(buffer.dtype) for buffer in module.buffers()} == {f"torch.{np.dtype(dtype)}"}
    dense[:] = 0.0
    assert modules[0].matrix.all()
    assert modules[1].dense.all()


@pytest.mark.parametrize("bias", [False, True])
def test_gradients_reach_the_input(bias):
    for module, matrix in both_maps(bias=bias):
        x = torch.randn(2, D_IN, dtype=torch.float64, requires_grad=True)
        module(x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.tile(matrix[:, :D_IN].sum(0), (2, 1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("units_first", [True, False])
@pytest.mark.parametrize("limit", [1, 100, 2**26])
def test_hidden_units_stay_within_the_limit(units_first, limit, monkeypatch):
    rng = np.random.default_rng(3)
    units, dense = random_pair(rng, D_IN, D_OUT, SIZE, units_first=units_first, bias=True)
    module = PrunedMap(units, dense, units_first=units_first)
    monkeypatch.setattr(maps, "HIDDEN_BYTES", limit)
    seen, inner = [], module._map
    monkeypatch.setattr(module, "_map", lambda x: seen.append(len(x)) or inner(x))
    x = rng.normal(size=(3, 7, D_IN))
    wanted = by_hand(folded(units, dense, units_first=units_first), x, True)
    np.testing.assert_allclose(module(torch.from_numpy(x)).numpy(), wanted, rtol=0, atol=1e-12)
    assert sum(seen) == 21
    assert max(seen) == 1 or max(seen) * units.size * 8 <= limit
