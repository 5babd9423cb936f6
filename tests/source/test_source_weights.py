"""Weights against the reference, pieces against the whole, streams against each other."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_reference import weight

from strongticket.source import Law, Normal, Signed, Source, Uniform, weights

LAWS = [Uniform(0.3), Normal(0.7), Signed(0.1)]
BIG = 2**35

laws = st.sampled_from(LAWS)
seeds = st.integers(0, 2**64 - 1)
names = st.text(st.characters(codec="utf-8"), min_size=1)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype == np.float32 and a.tobytes() == b.tobytes()


@settings(max_examples=60, deadline=None)
@given(laws, seeds, names, st.integers(0, BIG - 700), st.integers(0, 700))
def test_any_range_equals_the_reference(law: Law, seed: int, name: str, start: int, length: int) -> None:
    source = Source(seed, name, (BIG,), law)
    expected = np.array([weight(source, i) for i in range(start, start + length)], np.float32)
    assert same_bits(source.tile((start, start + length)), expected)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("boundary", [2**32, 2**33, 3 * 2**34])
def test_block_numbers_beyond_32_bits(law: Law, boundary: int) -> None:
    boundary *= law.values_per_block
    source = Source(3, "far", (2**60,), law)
    start, stop = boundary - 131, boundary + 131
    expected = np.array([weight(source, i) for i in range(start, stop)], np.float32)
    assert same_bits(source.tile((start, stop)), expected)


@pytest.mark.parametrize("law", LAWS)
def test_many_batches_equal_the_reference_at_scattered_places(law: Law) -> None:
    source = Source(2**63 + 11, "layer.3/Schlüssel", (40_009,), law)
    drawn = source.weights()
    for i in [*range(0, 40_009, 997), 2047, 2048, 4095, 4096, 40_008]:
        assert drawn[i] == weight(source, i)


@st.composite
def slices(draw: st.DrawFn, length: int) -> slice:
    bound = st.none() | st.integers(-length - 3, length + 3)
    return slice(draw(bound), draw(bound))


@settings(max_examples=150, deadline=None)
@given(st.data(), laws, st.integers(1, 70), st.integers(1, 700))
def test_tile_is_a_slice_of_the_whole(data: st.DataObject, law: Law, height: int, width: int) -> None:
    source = Source(5, "w", (height, width), law)
    rows, columns = data.draw(slices(height)), data.draw(slices(width))
    whole = source.weights()
    assert same_bits(source.tile(rows, columns), whole[rows, columns])
    assert same_bits(source.tile(rows), whole[rows])
    assert same_bits(source.tile((rows.start, rows.stop), (columns.start, columns.stop)), whole[rows, columns])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("shape", [(9,), (9, 5, 7), (9, 2, 3, 5)])
def test_rows_of_other_dimensions(law: Law, shape: tuple[int, ...]) -> None:
    source = Source(5, "w", shape, law)
    assert same_bits(source.tile((2, 7)), source.weights()[2:7])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("chunk", [1, 127, 1000, 4096])
def test_threads_and_chunks_do_not_matter(law: Law, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(1, "w", (37, 113), law)
    whole, part, digest = source.weights(threads=1), source.tile((3, 30), (5, 90), threads=1), source.digest()
    monkeypatch.setattr(weights, "CHUNK", chunk)
    for threads in (1, 2, 5):
        assert same_bits(source.weights(threads=threads), whole)
        assert same_bits(source.tile((3, 30), (5, 90), threads=threads), part)
    assert source.digest() == digest


@pytest.mark.parametrize("law", LAWS)
def test_the_shape_only_reshapes(law: Law) -> None:
    flat = Source(1, "w", (24,), law).weights()
    assert same_bits(Source(1, "w", (2, 3, 4), law).weights(), flat.reshape(2, 3, 4))


@pytest.mark.parametrize("law", LAWS)
def test_names_and_seeds_give_unrelated_streams(law: Law) -> None:
    n = 200_000
    keys = [(0, "a"), (0, "b"), (1, "a"), (2**32, "a"), (0, "a "), (0, "ab")]
    streams = np.stack([Source(seed, name, (n,), law).weights() for seed, name in keys]).astype(np.float64)
    correlations = np.corrcoef(streams) - np.eye(len(keys))
    assert np.abs(correlations).max() < 5 / math.sqrt(n)
    for lag in (1, 2, 4, 8, 128):
        shifted = np.corrcoef(streams[0, :-lag], streams[0, lag:])[0, 1]
        assert abs(shifted) < 5 / math.sqrt(n)


N = 1 << 20


@pytest.mark.parametrize(
    ("law", "variance", "fourth"),
    [(Uniform(1.0), 1 / 3, 1 / 5), (Normal(1.0), 0.9999797, 2.9991254), (Signed(1.0), 1.0, 1.0)],
)
def test_moments(law: Law, variance: float, fourth: float) -> None:
    drawn = Source(2, "moments", (N,), law).weights().astype(np.float64)
    assert abs(drawn.mean()) < 5 * math.sqrt(variance / N)
    assert abs((drawn**2).mean() - variance) <= 5 * math.sqrt((fourth - variance**2) / N)
    assert (drawn**4).mean() == pytest.approx(fourth, rel=0.02)


def test_uniform_stays_inside_and_fills_its_range() -> None:
    drawn = Source(2, "w", (N,), Uniform(0.3)).weights()
    assert float(np.abs(drawn).max()) <= Uniform(0.3).r
    counts, _ = np.histogram(drawn, bins=256, range=(-0.3, 0.3))
    chi_squared = ((counts - N / 256) ** 2 / (N / 256)).sum()
    assert abs(chi_squared - 255) < 5 * math.sqrt(2 * 255)
    assert np.count_nonzero(drawn) == N


def test_normal_uses_every_quantile_equally() -> None:
    drawn = Source(2, "w", (1 << 22,), Normal(1.0)).weights()
    values, counts = np.unique(drawn, return_counts=True)
    assert len(values) == 65536
    chi_squared = ((counts - 64) ** 2 / 64).sum()
    assert abs(chi_squared - 65535) < 5 * math.sqrt(2 * 65535)


def test_signed_has_two_values() -> None:
    assert set(Source(2, "w", (N,), Signed(0.1)).weights()) == {np.float32(0.1), -np.float32(0.1)}


@pytest.mark.parametrize("law", LAWS)
def test_fill_writes_a_range_of_the_flat_weights(law: Law) -> None:
    source = Source(5, "fill", (40, 30), law)
    whole = source.weights().reshape(-1)
    for start, stop in ((0, 1200), (0, 0), (7, 8), (129, 1001), (1200, 1200)):
        out = np.empty(stop - start, np.float32)
        source.fill(out, start)
        np.testing.assert_array_equal(out, whole[start:stop])


def test_fill_refuses_what_it_cannot_write_to() -> None:
    source = Source(5, "fill", (40, 30), Uniform(1.0))
    with pytest.raises(ValueError, match="contiguous float32 array of one dimension, got float64"):
        source.fill(np.empty(3))
    with pytest.raises(ValueError, match=r"3 weights from index 1198 on lie outside 0 \.\. 1199"):
        source.fill(np.empty(3, np.float32), 1198)
