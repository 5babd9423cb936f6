"""How masks are stored, against the specification in docs/ticket.md."""

from __future__ import annotations

import math

import numpy as np
import pytest

from strongticket.ticket import TicketError
from strongticket.ticket.packing import check, decode, encode

TYPES = {1: "U8", 2: "U16", 4: "U32"}


def pack(mask):
    return np.packbits(mask.reshape(-1), bitorder="little")


def reference_decoder(words: list[int], size: int, count: int) -> list[int]:
    """The range code of docs/ticket.md in plain integers."""
    ones = min(max((2 * count * 2**24 + size) // (2 * size), 1), 2**24 - 1)
    zeros = 2**24 - ones
    following = iter(words)
    point = next(following, 0) * 2**32 + next(following, 0)
    lower, span, out = 0, 2**64 - 1, []
    for _ in range(size):
        scale = span // 2**24
        bit = int((point - lower) % 2**64 // scale >= zeros)
        lower = (lower + scale * (zeros if bit else 0)) % 2**64
        span = scale * (ones if bit else zeros)
        if span < 2**32:
            lower, span = lower * 2**32 % 2**64, span * 2**32
            point = (point * 2**32 + next(following, 0)) % 2**64
        out.append(bit)
    return out


def test_bits_are_row_major_and_lowest_first():
    mask = np.zeros((3, 5), bool)
    mask[0, 0] = mask[1, 4] = mask[2, 4] = True
    encoding, data = encode(pack(mask), mask.shape, 3, compress=False)
    assert encoding == "bits"
    assert data.tolist() == [0b00000001, 0b01000010]


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.001, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("shape", [(1,), (7,), (64,), (3, 1001), (129, 4), (2, 3, 50), (1, 1)])
def test_round_trip(shape, density, compress):
    mask = np.random.default_rng(0).random(shape) < density
    count = int(mask.sum())
    encoding, data = encode(pack(mask), shape, count, compress=compress)
    assert data.nbytes <= -(-mask.size // 8)
    check(encoding, shape, count, TYPES[data.itemsize], data.size, "mask")
    assert np.array_equal(decode(encoding, data, shape, count, "mask"), pack(mask))


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(300, 20, "u1"), (300, 255, "u1"), (40, 256, "u1"), (40, 257, "u2"), (9, 70_000, "u4")],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_one_unit_per_row_or_column(rows, columns, dtype, transposed):
    place = np.random.default_rng(1).integers(0, columns, rows)
    place[0] = columns - 1
    mask = np.zeros((rows, columns), bool)
    mask[np.arange(rows), place] = True
    mask = np.ascontiguousarray(mask.T) if transposed else mask
    encoding, data = encode(pack(mask), mask.shape, rows, compress=False)
    assert encoding == ("columns" if transposed else "rows")
    assert data.dtype == np.dtype(dtype)
    assert data.tolist() == place.tolist()
    assert np.array_equal(decode(encoding, data, mask.shape, rows, "mask"), pack(mask))


def test_rows_that_keep_nothing_hold_the_number_of_columns():
    mask = np.zeros((50, 100), bool)
    mask[np.arange(0, 50, 2), np.arange(0, 50, 2)] = True
    encoding, data = encode(pack(mask), mask.shape, 25, compress=False)
    assert encoding == "rows"
    assert data[1] == 100
    assert np.array_equal(decode(encoding, data, mask.shape, 25, "mask"), pack(mask))


def test_small_or_crowded_masks_stay_bits():
    assert encode(pack(np.eye(8, dtype=bool)), (8, 8), 8, compress=False)[0] == "bits"
    mask = np.eye(64, dtype=bool)
    mask[0, 5] = True
    assert encode(pack(mask), (64, 64), 65, compress=False)[0] == "bits"


@pytest.mark.parametrize("density", [0.02, 0.3, 0.5, 0.99])
def test_range_code_is_the_specified_one(density):
    mask = np.random.default_rng(2).random(5000) < density
    encoding, words = encode(pack(mask), mask.shape, int(mask.sum()), compress=True)
    if density != 0.5:
        assert encoding == "range"
        assert reference_decoder(words.tolist(), mask.size, int(mask.sum())) == mask.tolist()


def test_pinned_range_code():
    mask = np.arange(256) % 10 == 0
    encoding, words = encode(pack(mask), mask.shape, int(mask.sum()), compress=True)
    assert encoding == "range"
    assert words.tolist() == PINNED_WORDS


PINNED_WORDS = [4014259415, 264252492, 2858514243, 1708060152]


def test_density_of_030_comes_close_to_the_limit():
    size = 1 << 21
    mask = np.random.default_rng(3).random(size) < 0.30
    encoding, words = encode(pack(mask), mask.shape, int(mask.sum()), compress=True)
    p = mask.mean()
    limit = -(p * math.log2(p) + (1 - p) * math.log2(1 - p))
    assert encoding == "range"
    assert limit <= 8 * words.nbytes / size <= min(0.886, limit + 0.001)


@pytest.mark.parametrize(
    ("encoding", "shape", "count", "dtype", "length", "message"),
    [
        ("bits", (4, 4), 3, "U8", 3, "must hold 2 values"),
        ("bits", (4, 4), 3, "U16", 2, "must hold U8, got U16"),
        ("rows", (4, 4), 3, "F32", 4, "must hold U8 or U16 or U32"),
        ("rows", (4, 4), 5, "U8", 4, "cannot keep 5"),
        ("columns", (4, 4, 4), 3, "U8", 4, "needs 2 dimensions"),
        ("range", (1000, 1000), 300_000, "U32", 5, r"must hold 275\d\d \.\. 27"),
        ("range", (1000, 1000), 300_000, "U32", 1 << 20, "must hold"),
        ("range", (1000, 1000), 0, "U32", 1, "must hold 0 values"),
    ],
)
def test_wrong_tensors_are_refused_before_they_are_read(encoding, shape, count, dtype, length, message):
    with pytest.raises(TicketError, match=message):
        check(encoding, shape, count, dtype, length, "mask")


def test_wrong_contents_are_refused():
    with pytest.raises(TicketError, match="unused bits"):
        decode("bits", np.array([0b10001], np.uint8), (4,), 2, "mask")
    with pytest.raises(TicketError, match="keeps 1 weights, the ticket says 2"):
        decode("bits", np.array([1], np.uint8), (4,), 2, "mask")
    with pytest.raises(TicketError, match="index 200, more than 100"):
        decode("rows", np.full(50, 200, np.uint8), (50, 100), 50, "mask")
    rng = np.random.default_rng(4)
    refused = 0
    for _ in range(50):
        try:
            decode("range", rng.integers(0, 2**32, 28, dtype=np.uint32), (1000,), 300, "mask")
        except TicketError:
            refused += 1
    assert refused >= 45


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "constriction", None)
    with pytest.raises(ImportError, match=r"pip install 'strongticket\[compress\]'"):
        encode(np.array([5], np.uint8), (8,), 2, compress=True)
