"""construct.linear: the pair, its masks, its sources and what it refuses."""

import numpy as np
import pytest
import torch
from construct_reference import masked_product, uniform
from hypothesis import given, settings
from hypothesis import strategies as st

from strongticket.construct import linear
from strongticket.construct.search import Search
from strongticket.source import Source, Uniform

FAST = {"refine": 20, "threads": 1}


@pytest.mark.parametrize("layout", ["assigned", "paper"])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 6), (6, 1)])
def test_product_is_that_of_the_masked_sources(shape, layout):
    target = uniform(0, *shape)
    pair = linear(target, items=9, layout=layout, **FAST)
    np.testing.assert_allclose(pair.product(), masked_product(pair), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(pair.errors(), target - pair.product())
    assert pair.max_error == np.abs(target - pair.product()).max()
    for mask, source in zip(pair.masks, pair.sources, strict=True):
        assert mask.dtype == np.bool_
        assert mask.shape == source.shape
    kept, size = (sum(f(m) for m in pair.masks) for f in (np.count_nonzero, np.size))
    assert pair.density == kept / size


def test_width_is_items_times_the_smaller_side():
    assert linear(uniform(0, 3, 5), items=7, refine=0).width == 21
    assert linear(uniform(0, 5, 3), items=7, refine=0).width == 21
    assert linear(uniform(0, 3, 5), items=7, layout="paper").width == 35
    assert linear(uniform(0, 3, 5), width=22, refine=0).width == 22
    assert linear(uniform(0, 2, 2), refine=0).width == 32


def test_sources_depend_on_nothing_but_seed_name_shape_and_range():
    first, second = (linear(uniform(s, 3, 4), items=5, seed=7, name="a", **FAST) for s in (0, 1))
    drawn = Source(7, "a/first", (15, 4), Uniform(1.0)), Source(7, "a/second", (3, 15), Uniform(1.0))
    digests = [source.digest() for source in drawn]
    assert first.sources == second.sources == drawn
    assert [source.digest() for source in first.sources] == digests
    assert any((a != b).any() for a, b in zip(first.masks, second.masks, strict=True))


def test_same_seed_same_masks_for_any_threads():
    target = uniform(0, 6, 6)
    one, two, again = (linear(target, items=14, seed=3, refine=60, threads=t) for t in (1, 2, None))
    for a, b, c in zip(one.masks, two.masks, again.masks, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


@pytest.mark.parametrize("other", [{"seed": 1}, {"name": "other"}])
def test_other_seed_or_name_other_masks(other):
    target = uniform(0, 4, 4)
    first, second = linear(target, items=8, **FAST), linear(target, items=8, **FAST, **other)
    assert (first.masks[1] != second.masks[1]).any()


def test_more_rounds_begin_with_the_same_rounds():
    target = uniform(0, 5, 5)
    errors = [linear(target, items=10, refine=rounds).max_error for rounds in (0, 10, 200)]
    assert errors[2] < errors[1] < errors[0]


@pytest.mark.parametrize("tol", [1e-2, 1e-3])
def test_tol_is_reached_and_ends_the_search(tol):
    target, sums = uniform(0, 6, 6), []
    pair = linear(target, items=20, tol=tol, refine=10_000, threads=1, progress=sums.append)
    assert pair.max_error <= tol
    best = linear(target, items=20, refine=10, threads=1)
    assert best.max_error < pair.max_error
    assert sum(sums) == Search(refine=10_000).subset_sums(6, 6, 120)


def test_seconds_end_the_search(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr("strongticket.construct.swaps.time.monotonic", lambda: next(now))
    stopped = linear(uniform(0, 4, 4), items=8, refine=10**6, seconds=10.5, threads=1)
    monkeypatch.undo()
    rounds = linear(uniform(0, 4, 4), items=8, refine=10, threads=1)
    np.testing.assert_array_equal(stopped.masks[1], rounds.masks[1])


@pytest.mark.parametrize("layout", ["assigned", "paper"])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 1), (1, 1)])
def test_progress_adds_up(shape, layout):
    sums = []
    pair = linear(uniform(0, *shape), width=23, layout=layout, refine=30, progress=sums.append)
    rows, columns = shape if layout == "paper" else (max(shape), min(shape))
    assert sum(sums) == Search(layout=layout, refine=30).subset_sums(rows, columns, pair.width)


def test_tensors_and_lists_are_taken():
    target = torch.tensor([[0.5, -0.25], [0.125, 0.75]], requires_grad=True)
    from_tensor = linear(target, items=6, **FAST)
    from_list = linear(target.tolist(), items=6, **FAST)
    np.testing.assert_array_equal(from_tensor.masks[1], from_list.masks[1])


def test_settings_say_how_the_masks_were_found():
    settings = linear(uniform(0, 2, 2), items=4, layout="paper", name="here", tol=0.5).settings
    assert settings["name"] == "here"
    assert settings["layout"] == "paper"
    assert settings["tol"] == 0.5


def test_more_than_40_items():
    pair = linear(uniform(0, 2, 2), width=100, tol=1e-9, refine=2)
    assert pair.max_error <= 1e-9
    assert linear(np.zeros((2, 2)), width=90).max_error == 0.0


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e30])
def test_targets_of_any_size(size):
    target = uniform(0, 4, 4)
    plain = linear(target, items=8, **FAST)
    scaled = linear(target * size, items=8, range=float(np.sqrt(size)), **FAST)
    assert scaled.max_error / size == pytest.approx(plain.max_error, rel=1e-2)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 30),
    st.sampled_from(["assigned", "paper"]),
    st.sampled_from(["uniform", "zeros", "zero row", "zero column"]),
    st.integers(0, 2**32),
)
def test_any_shape_and_width(d2, d1, more, layout, kind, seed):
    target = np.zeros((d2, d1)) if kind == "zeros" else uniform(seed, d2, d1)
    if kind == "zero row":
        target[0] = 0.0
    if kind == "zero column":
        target[:, -1] = 0.0
    columns = d1 if layout == "paper" else min(d1, d2)
    pair = linear(target, width=columns + more, seed=seed, layout=layout, refine=4, threads=1)
    np.testing.assert_allclose(pair.product(), masked_product(pair), rtol=0, atol=1e-13)
    assert pair.max_error <= np.abs(target).max() + 1e-13
    assert (np.abs(pair.errors()) <= np.abs(target) + 1e-13).all()
    blocks = pair.masks[0] if layout == "paper" or d1 <= d2 else pair.masks[1].T
    assert (blocks.sum(axis=1) == 1).all()


@pytest.mark.parametrize(
    ("W", "message"),
    [
        ([[0.0, float("nan")]], r"W must be finite, got 1 NaN or infinite entries, the first at \[0, 1\] = nan"),
        ([[float("inf")], [1.0]], r"the first at \[0, 0\] = inf"),
        (np.zeros((0, 3)), r"at least one row and column, got shape \(0, 3\)"),
        (np.zeros(3), r"W must be a matrix .* got shape \(3,\)"),
    ],
)
def test_targets_that_are_refused(W, message):
    with pytest.raises(ValueError, match=message):
        linear(W, items=4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 3}, r"width must be at least 4 for a target of shape \(4, 4\).* got 3; a width of 64 gives 16"),
        ({"items": 4, "width": 16}, "give items or width, not both: got items=4 and width=16"),
        ({"items": 0}, "items must be at least 1, got 0"),
        ({"layout": "block"}, "unknown layout 'block'; choose one of assigned, paper"),
        ({"refine": -1}, "refine must be a number of rounds, 0 for none, got -1"),
        ({"seconds": 0.0}, "seconds must be positive, got 0.0; leave it out"),
        ({"seconds": float("nan")}, "seconds must be positive, got nan"),
        ({"tol": -1e-3}, "tol must be 0 .* or a positive entry error, got -0.001"),
        ({"tol": float("nan")}, "tol must be 0 .* got nan"),
        ({"range": 0.0}, "range must be a positive number r .* got 0.0"),
        ({"range": float("inf")}, "range must be a positive number r .* got inf"),
        ({"range": "wide"}, "or \"auto\", got 'wide'"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
    ],
)
def test_settings_that_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        linear(uniform(0, 4, 4), **wrong)
