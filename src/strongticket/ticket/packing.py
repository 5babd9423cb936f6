"""Masks as tensors: plain bits, one index per row or column, or a range code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.ticket import checks
from strongticket.ticket.errors import TicketError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.uint8]

ENCODINGS = ("bits", "rows", "columns", "range")
INDEX_TYPES: dict[str, np.dtype[Any]] = {"U8": np.dtype("<u1"), "U16": np.dtype("<u2"), "U32": np.dtype("<u4")}
PRECISION = 24
"""Bits of the range coder's probabilities."""

_CHUNK = 1 << 20


def encode(bits: Bits, shape: tuple[int, ...], count: int, *, compress: bool) -> tuple[str, NDArray[Any]]:
    """The smallest encoding of a mask; plain bits where none is smaller, range coding only with ``compress``.

    >>> mask = np.eye(16, dtype=bool)
    >>> encoding, index = encode(np.packbits(mask, bitorder="little"), (16, 16), 16, compress=False)
    >>> encoding, index.dtype.name, index.tolist()[:4]
    ('rows', 'uint8', [0, 1, 2, 3])
    """
    found: tuple[str, NDArray[Any]] = ("bits", bits)
    if len(shape) == 2:
        for axis, encoding in ((1, "rows"), (0, "columns")):
            if shape[1 - axis] * _index_type(shape[axis] - 1).itemsize >= found[1].nbytes:
                continue
            index = index_along(bits, shape, count, axis)
            if index is not None:
                small = index.astype(_index_type(int(index.max())))
                if small.nbytes < found[1].nbytes:
                    found = encoding, small
    if compress:
        words = _range_encode(bits, math.prod(shape), count)
        if words.nbytes < found[1].nbytes:
            found = "range", words
    return found


def check(encoding: str, shape: tuple[int, ...], count: int, dtype: str, length: int, field: str) -> None:
    """Refuse a tensor of another type or length than the mask's shape and count ask for, before it is read."""
    size = math.prod(shape)
    types: tuple[str, ...] = ("U8",)
    if encoding == "bits":
        low = high = -(-size // 8)
    elif encoding in ("rows", "columns"):
        if len(shape) != 2:
            raise TicketError(field, f"the encoding {encoding!r} needs 2 dimensions, the shape is {shape}")
        low = high = shape[0] if encoding == "rows" else shape[1]
        types = tuple(INDEX_TYPES)
        if count > low:
            raise TicketError(field, f"one index for each of {low} {encoding} cannot keep {count} weights")
    else:
        ideal, types = _ideal_bits(size, count) / 32, ("U32",)
        low, high = math.floor(0.999 * ideal) - 4, math.ceil(1.005 * ideal + size * 2.0**-27) + 8
        if count in (0, size):
            low = high = 0
    if dtype not in types:
        raise TicketError(field, f"must hold {' or '.join(types)}, got {dtype}")
    if not low <= length <= high:
        wanted = f"{low}" if low == high else f"{max(low, 0)} .. {high}"
        raise TicketError(field, f"must hold {wanted} values for a mask of shape {shape}, got {length}")


def decode(encoding: str, data: NDArray[Any], shape: tuple[int, ...], count: int, field: str) -> Bits:
    """The packed bits of a mask whose tensor has passed ``check``."""
    size = math.prod(shape)
    if encoding == "bits":
        bits = data
    elif encoding == "range":
        bits = _range_decode(data, size, count, field)
    else:
        bits = _from_index(data, shape, 1 if encoding == "rows" else 0, field)
    if size % 8 and bits[-1] >> (size % 8):
        raise TicketError(field, "the unused bits of the last byte must be 0")
    found = int(np.bitwise_count(bits).sum(dtype=np.int64))
    if found != count:
        raise TicketError(field, f"keeps {found} weights, the ticket says {count}")
    return bits


def _index_type(largest: int) -> np.dtype[Any]:
    return next((t for t in INDEX_TYPES.values() if largest < 1 << 8 * t.itemsize), np.dtype("<u8"))


def index_along(bits: Bits, shape: tuple[int, ...], count: int, axis: int) -> NDArray[np.int64] | None:
    """Where along ``axis`` the one kept weight is, the axis's length where there is none; None if there are more.

    >>> index_along(np.array([0b100001], np.uint8), (3, 2), 2, axis=1)
    array([0, 2, 1])
    """
    lines, length = shape[1 - axis], shape[axis]
    if count > lines:
        return None
    used = np.flatnonzero(bits)
    byte, bit = np.nonzero(np.unpackbits(bits[used], bitorder="little").reshape(-1, 8))
    rows, columns = np.divmod(8 * used[byte] + bit, shape[1])
    line, place = (rows, columns) if axis == 1 else (columns, rows)
    index = np.full(lines, length, np.int64)
    index[line] = place
    return index if np.count_nonzero(index < length) == count else None


def _from_index(index: NDArray[Any], shape: tuple[int, ...], axis: int, field: str) -> Bits:
    length = shape[axis]
    if index.size and int(index.max()) > length:
        raise TicketError(field, f"holds the index {int(index.max())}, more than {length}, which stands for none")
    used = np.flatnonzero(index < length).astype(np.int64)
    place = index[used].astype(np.int64)
    flat = used * shape[1] + place if axis == 1 else place * shape[1] + used
    bits = np.zeros(-(-math.prod(shape) // 8), np.uint8)
    np.bitwise_or.at(bits, flat >> 3, np.left_shift(1, flat & 7).astype(np.uint8))
    return bits


def _ideal_bits(size: int, count: int) -> float:
    p = count / size
    return 0.0 if count in (0, size) else -size * (p * math.log2(p) + (1 - p) * math.log2(1 - p))


def _model(size: int, count: int) -> Any:
    """A kept weight has probability round(2**24 count / size) / 2**24, at least 2**-24 and at most 1 - 2**-24."""
    ones = (2 * (count << PRECISION) + size) // (2 * size)
    p = min(max(ones, 1), (1 << PRECISION) - 1) / (1 << PRECISION)
    return _constriction().stream.model.Bernoulli(p, perfect=True)


def _constriction() -> Any:
    try:
        import constriction
    except ImportError:
        raise ImportError(
            "compressed masks need the package 'constriction': pip install 'strongticket[compress]'"
        ) from None
    return constriction


def _range_encode(bits: Bits, size: int, count: int) -> NDArray[np.uint32]:
    if count in (0, size):
        return np.zeros(0, "<u4")
    model, coder = _model(size, count), _constriction().stream.queue.RangeEncoder()
    for start in range(0, size, _CHUNK):
        length = min(_CHUNK, size - start)
        symbols = np.unpackbits(bits[start // 8 :], count=length, bitorder="little")
        coder.encode(symbols.astype(np.int32), model)
    return coder.get_compressed().astype("<u4", copy=False)


def _range_decode(words: NDArray[Any], size: int, count: int, field: str) -> Bits:
    bits = np.zeros(-(-size // 8), np.uint8)
    if count == 0:
        return bits
    if count == size:
        bits[:] = 255
        bits[-1] >>= -size % 8
        return bits
    model = _model(size, count)
    coder = _constriction().stream.queue.RangeDecoder(words.astype(np.uint32, copy=False))
    for start in range(0, size, _CHUNK):
        length = min(_CHUNK, size - start)
        try:
            symbols = coder.decode(model, length)
        except AssertionError as error:
            raise TicketError(field, f"is no range code: {checks.shown(str(error))}") from None
        bits[start // 8 : -(-(start + length) // 8)] = np.packbits(symbols.astype(np.uint8), bitorder="little")
    if not coder.maybe_exhausted():
        raise TicketError(field, "has words left over after the last weight")
    return bits
