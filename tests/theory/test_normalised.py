"""Certificates of transformers with LayerNorm, against NumPy and against fine grids."""

import doctest
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongticket.theory import (
    BlockMatrices,
    LayerNorm,
    NormalisedBlock,
    lipschitz_constant,
    normalised_certificate,
)
from strongticket.theory import normalised as module
from strongticket.theory.layers import Reach
from strongticket.theory.normalised import LIPSCHITZ

torch = pytest.importorskip("torch")
ROOM = 1 + 1e-9


def normalise(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) + beta


def norms(x):
    return np.linalg.norm(x, axis=-1)


def measured(x, gamma, beta, eps):
    """The LayerNorm with what it sees on the rows of x."""
    smallest = np.sqrt(norms(x - x.mean(axis=-1, keepdims=True)) ** 2 + x.shape[-1] * eps).min()
    return LayerNorm(gamma, beta, eps, float(smallest), float(norms(normalise(x, gamma, beta, eps)).max()))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    d=st.integers(2, 24),
    eps=st.sampled_from([0.0, 1e-12, 1e-5, 0.1, 10.0]),
    size=st.floats(-4.0, 3.0),
    shift=st.floats(-9.0, 4.0),
    inwards=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_layer_norm_error_covers_random_vectors(d, eps, size, shift, inwards, seed):
    rng = np.random.default_rng(seed)
    gamma, beta = rng.standard_normal((2, d))
    x = 10.0**size * rng.standard_normal((20, d)) + rng.standard_normal((20, 1))
    move = (1 - inwards) * rng.standard_normal((20, d)) - inwards * x / norms(x)[:, None]
    y = x + 10.0**shift * move
    norm = measured(x, gamma, beta, eps)
    apart = float(norms(x - y).max())
    found = norms(normalise(x, gamma, beta, eps) - normalise(y, gamma, beta, eps)).max()
    rounding = 1e-14 * (1 + np.abs(x).max() / norm.smallest) * d
    assert found <= norm.error(apart) * ROOM + rounding
    out = norm.pass_through(Reach(1e9, 1e9, apart))
    assert out.apart * ROOM + rounding >= found
    assert out.target * ROOM >= norms(normalise(x, gamma, beta, eps)).max()
    assert out.ticket * ROOM >= norms(normalise(y, gamma, beta, eps)).max()


def test_layer_norm_error_is_attained():
    d, apart = 8, 0.01
    x, side = np.zeros((2, d))
    x[:2], side[2:4] = (3.0, -3.0), (1.0, -1.0)
    across = x + apart * side / norms(side)
    gamma, beta = np.ones(d), np.zeros(d)
    norm = measured(x[None], gamma, beta, 0.0)
    found = norms(normalise(x, gamma, beta, 0.0) - normalise(across, gamma, beta, 0.0))
    assert found <= norm.error(apart) <= found * 1.002
    through = norms(normalise(x, gamma, beta, 0.0) - normalise(-x, gamma, beta, 0.0))
    assert norm.error(2 * norms(x)) == pytest.approx(through)


@pytest.mark.parametrize("apart", [1e3, 1e300, math.inf, math.nan])
def test_layer_norm_error_never_exceeds_the_diameter(apart):
    norm = LayerNorm(np.array([1.0, -3.0]), np.zeros(2), eps=0.0, smallest=0.1, largest=1.0)
    assert norm.error(apart) == pytest.approx(2 * 3 * math.sqrt(2))
    assert LayerNorm(np.ones(2), np.zeros(2), 0.0, 0.0, 0.0).error(1e-9) == pytest.approx(2 * math.sqrt(2))
    assert norm.error(0.0) == 0.0


@pytest.mark.parametrize("name", sorted(LIPSCHITZ))
def test_lipschitz_constants_on_a_grid(name):
    activations = pytest.importorskip("transformers").activations
    x = torch.arange(-12.0, 12.0, 1e-4, dtype=torch.float64)
    y = activations.ACT2FN[name](x)
    slopes = (y[1:] - y[:-1]) / (x[1:] - x[:-1])
    assert slopes.abs().max() <= lipschitz_constant(name)
    assert slopes.abs().max() >= lipschitz_constant(name) - 0.002
    assert (y.abs() <= x.abs()).all()


def test_the_constant_of_the_tanh_form_of_gelu_is_proven():
    """f = x·(1 + tanh u)/2, u = √(2/π)·(x + a·x³), has f'(x) + f'(-x) = 1, so |f'| ≤ max f' = max over x ≥ 0.

    Up to 5, |f''| ≤ u' + x·(u'' + 2·u'²)/2 ≤ 70 bounds f' between grid points; beyond, f' - 1 ≤ 2·x·u'·exp(-2u), whose
    logarithm has the slope 1/x + u''/u' - 2·u' < 0.
    """
    a, root, step = 0.044715, math.sqrt(2 / math.pi), 1e-5
    x = np.arange(0.0, 5.0 + step, step)
    u, du, ddu = root * (x + a * x**3), root * (1 + 3 * a * x**2), root * 6 * a * x
    assert (du + x * (ddu + 2 * du**2) / 2).max() < 70
    slopes = (1 + np.tanh(u)) / 2 + x * du / (2 * np.cosh(u) ** 2)
    assert slopes.max() + 70 * step / 2 < lipschitz_constant("gelu_new")
    assert 1 / x[-1] + ddu[-1] / du[-1] - 2 * du[-1] < 0
    assert 1 + 2 * x[-1] * du[-1] * math.exp(-2 * u[-1]) < lipschitz_constant("gelu_new")


@pytest.mark.parametrize("name", ["relu2", "nothing", np.tanh])
def test_refuses_unknown_activations(name):
    with pytest.raises(ValueError, match=r"no Lipschitz constant is known for the activation .*only for gelu, "):
        lipschitz_constant(name)


def attend(qk, vo, x):
    one = np.hstack([x, np.ones((len(x), 1))])
    out = 0.0
    for a, b in zip(qk, vo, strict=True):
        logits = one @ a @ x.T
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        out = out + weights / weights.sum(axis=1, keepdims=True) @ one @ b
    return out


def feed(layers, x):
    inner = np.tanh(x @ layers[0][:, :-1].T + layers[0][:, -1])
    return inner, inner @ layers[1][:, :-1].T + layers[1][:, -1]


def run(block, which, x, pre_norm):
    """The inputs of both LayerNorms, the hidden activations and the output."""
    qk, vo, layers = (getattr(block, f"{which}_{part}") for part in ("qk", "vo", "layers"))
    if pre_norm:
        y = x + attend(qk, vo, normalise(x, *NORMS))
        inner, out = feed(layers, normalise(y, *NORMS))
        return x, y, inner, y + out
    middle = attend(qk, vo, x) + x
    y = normalise(middle, *NORMS)
    inner, out = feed(layers, y)
    return middle, out + y, inner, normalise(out + y, *NORMS)


D, INNER, HEADS, BLOCKS = 6, 9, 2, 2
RNG = np.random.default_rng(3)
NORMS = 1 + 0.3 * RNG.standard_normal(D), 0.3 * RNG.standard_normal(D), 1e-5
SHAPES = [(D + 1, D)] * (2 * HEADS) + [(INNER, D + 1), (D, INNER + 1)]


def random_blocks(rng, noise):
    for _ in range(BLOCKS):
        target = [0.4 * rng.standard_normal(shape) for shape in SHAPES]
        ticket = [matrix + noise * rng.standard_normal(matrix.shape) for matrix in target]
        parts = [slice(HEADS), slice(HEADS, 2 * HEADS), slice(2 * HEADS, None)]
        yield BlockMatrices(*[one[part] for part in parts for one in (target, ticket)], bias=True)


def compare(noise, pre_norm, seed=0):
    """The certificate, and the largest distances found after every block and at the end."""
    rng = np.random.default_rng(seed)
    target = ticket = start = rng.standard_normal((7, D))
    blocks, found = [], []
    for matrices in random_blocks(rng, noise):
        *inputs, inner, target = run(matrices, "target", target, pre_norm)
        ticket = run(matrices, "ticket", ticket, pre_norm)[-1]
        both = tuple(measured(x, *NORMS) for x in inputs)
        blocks.append(
            NormalisedBlock(matrices, both, "tanh", norms(inner).max(), norms(target).max(), pre_norm=pre_norm)
        )
        found.append(norms(target - ticket).max())
    last = measured(target, *NORMS) if pre_norm else None
    found.append(norms(normalise(target, *NORMS) - normalise(ticket, *NORMS)).max() if pre_norm else found[-1])
    return normalised_certificate(blocks, float(norms(start).max()), last=last), found


def bounds(certificate):
    return [*(t.value for t in certificate.terms if t.where[-2:] in (" 1", " 2") and t.what == "output error")]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.floats(-10.0, 2.0), st.booleans(), st.integers(0, 2**32 - 1))
def test_bounds_cover_what_numpy_finds(noise, pre_norm, seed):
    certificate, found = compare(10.0**noise, pre_norm, seed)
    assert len(bounds(certificate)) == BLOCKS
    for bound, error in zip([*bounds(certificate), certificate.bound], found, strict=True):
        assert error <= bound * ROOM + 1e-12


@pytest.mark.parametrize("pre_norm", [False, True])
def test_small_errors_pass_in_proportion_and_none_stays_none(pre_norm):
    one, two = (compare(noise, pre_norm)[0] for noise in (1e-11, 2e-11))
    assert one.useful
    assert two.bound == pytest.approx(2 * one.bound, rel=1e-3)
    assert compare(0.0, pre_norm)[0].bound == 0.0


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("noise", [3.0, 1e150, 1e306])
def test_large_errors_are_said_to_be_useless(noise, pre_norm):
    rng = np.random.default_rng(1)
    norm = LayerNorm(*NORMS, smallest=0.5, largest=3.0)
    blocks = (NormalisedBlock(m, (norm, norm), "gelu", 2.0, 3.0, pre_norm=pre_norm) for m in random_blocks(rng, noise))
    certificate = normalised_certificate(blocks, 2.0, last=norm if pre_norm else None)
    assert not certificate.useful
    assert certificate.useless_from == 1
    assert certificate.bound >= certificate.trivial
    assert "says nothing from block 1 on" in str(certificate)


def test_prints_what_it_holds_for():
    text = str(compare(1e-6, pre_norm=True)[0])
    assert "holds for the samples that the target was run on" in text
    assert "every length" not in text
    assert "last LayerNorm" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": False}, "got bias=False"),
        ({"target_layers": [np.ones((D, D + 1))], "ticket_layers": [np.ones((D, D + 1))]}, "two linear layers, .* 1"),
        ({"target_vo": [np.ones((D + 1, 2))] * 2, "ticket_vo": [np.ones((D + 1, 2))] * 2}, "'attention output': 2"),
    ],
)
def test_refuses_blocks_that_do_not_fit(change, message):
    matrices = next(random_blocks(np.random.default_rng(0), 0.1))
    norm = LayerNorm(*NORMS, smallest=1.0, largest=1.0)
    block = NormalisedBlock(BlockMatrices(**vars(matrices) | change), (norm, norm), "relu", 1.0, 1.0, pre_norm=True)
    with pytest.raises(ValueError, match=f"block 1: .*{message}"):
        normalised_certificate([block], 1.0)


def test_examples():
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_refuses_no_blocks_and_bad_norms():
    with pytest.raises(ValueError, match="at least one block"):
        normalised_certificate([], 1.0)
    with pytest.raises(ValueError, match=r"one size, got shapes \(2,\) and \(3,\)"):
        LayerNorm(np.ones(2), np.ones(3), 1e-5, 1.0, 1.0)
    with pytest.raises(ValueError, match="must be finite"):
        LayerNorm(np.array([1.0, np.nan]), np.ones(2), 1e-5, 1.0, 1.0)
    with pytest.raises(ValueError, match="smallest must be a number >= 0, got nan"):
        LayerNorm(np.ones(2), np.ones(2), 1e-5, math.nan, 1.0)
