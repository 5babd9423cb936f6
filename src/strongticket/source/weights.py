"""Random weights described by seed, name, shape and law."""

from __future__ import annotations

import hashlib
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.parallel import resolve_threads, run_chunks
from strongticket.source.laws import NORMAL, Law, law_from_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Range = slice | tuple[int, int]

CHUNK = 1 << 20
"""Weights drawn by one call of the kernel; the result does not depend on it."""

_NO_TABLE = np.zeros(0, np.float32)
_NO_TABLE.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Source:
    """Random weights that are never stored: the same description gives the same bits on every machine.

    weight[i] = law(Philox-4x32-10 with key = seed and counter = (block of i, hash of name)), where i is
    the flat index in C order. Sources that differ in seed or name are independent; two that differ only
    in shape hold the same stream of weights.

    >>> source = Source(seed=7, name="layer.0.query", shape=(3, 2), law=Uniform(1.0))
    >>> source.weights()
    array([[-0.19905347, -0.6964727 ],
           [-0.25806826, -0.5021364 ],
           [ 0.88489276,  0.5450856 ]], dtype=float32)
    """

    seed: int
    name: str
    shape: tuple[int, ...]
    law: Law

    def __post_init__(self) -> None:
        """Check every field before any work."""
        object.__setattr__(self, "seed", _checked_seed(self.seed))
        _check_name(self.name)
        object.__setattr__(self, "shape", _checked_shape(self.shape))
        if not isinstance(self.law, Law):
            raise ValueError(f"law must be Uniform(r), Normal(s) or Signed(c), got {self.law!r}; pass one")

    @property
    def size(self) -> int:
        """The number of weights.

        >>> Source(0, "w", (3, 4), Uniform(1.0)).size
        12
        """
        return math.prod(self.shape)

    def weights(self, *, threads: int | None = None) -> NDArray[np.float32]:
        """Every weight, as a new float32 array of the source's shape.

        >>> Source(0, "w", (5,), Signed(0.5)).weights()
        array([-0.5,  0.5, -0.5,  0.5, -0.5], dtype=float32)
        """
        out = np.empty(self.shape, np.float32)
        self._draw(out.reshape(-1), 0, self.size, self.size, threads)
        return out

    def tile(self, rows: Range, columns: Range | None = None, *, threads: int | None = None) -> NDArray[np.float32]:
        """The weights in a range of rows and, for two dimensions, of columns, without drawing the rest.

        tile(rows, columns) = weights()[rows, columns]; a range is a slice without a step, or a pair
        (start, stop) that means the same.

        >>> source = Source(0, "w", (1000, 1000), Normal(1.0))
        >>> source.tile(slice(500, 502), (-3, None)).shape
        (2, 3)
        """
        top, bottom = _bounds("rows", rows, self.shape[0])
        row_size = self.size // self.shape[0]
        if columns is None:
            out = np.empty((bottom - top, *self.shape[1:]), np.float32)
            self._draw(out.reshape(-1), top * row_size, row_size, row_size, threads)
            return out
        if len(self.shape) != 2:
            raise ValueError(
                f"columns need a source with 2 dimensions, but {self.name!r} has shape {self.shape}; leave columns out"
            )
        left, right = _bounds("columns", columns, row_size)
        out = np.empty((bottom - top, right - left), np.float32)
        self._draw(out.reshape(-1), top * row_size + left, row_size, right - left, threads)
        return out

    def fill(self, out: NDArray[np.float32], start: int = 0) -> None:
        """Write the weights from flat index ``start`` on to the contiguous array ``out``, on this thread.

        fill(out, start) writes weights().reshape(-1)[start : start + out.size].

        >>> out = np.empty(2, np.float32)
        >>> Source(0, "w", (5,), Signed(0.5)).fill(out, 3)
        >>> out
        array([ 0.5, -0.5], dtype=float32)
        """
        if out.dtype != np.float32 or out.ndim != 1 or not out.flags.c_contiguous:
            raise ValueError(f"out must be a contiguous float32 array of one dimension, got {out.dtype} {out.shape}")
        if not 0 <= start <= self.size - out.size:
            raise ValueError(f"{out.size} weights from index {start} on lie outside 0 .. {self.size - 1}")
        self._draw(out, start, max(out.size, 1), max(out.size, 1), 1)

    def digest(self) -> str:
        """The SHA-256 of the weights as little-endian float32 in C order, in hexadecimal.

        >>> Source(0, "w", (2, 2), Signed(1.0)).digest()[:16]
        '87f370045c858f47'
        """
        total = hashlib.sha256()
        buffer = np.empty(min(CHUNK, self.size), np.float32)
        for start in range(0, self.size, CHUNK):
            part = buffer[: min(CHUNK, self.size - start)]
            self._draw(part, start, part.size, part.size, 1)
            total.update(part.astype("<f4", copy=False).data)
        return total.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The description as a dictionary of plain JSON values.

        >>> Source(0, "w", (2, 3), Signed(1.0)).to_dict()
        {'seed': 0, 'name': 'w', 'shape': [2, 3], 'law': {'law': 'signed', 'c': 1.0}}
        """
        return {"seed": self.seed, "name": self.name, "shape": list(self.shape), "law": self.law.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Source:
        """The source that ``to_dict`` described; keys it does not know are ignored.

        >>> source = Source(0, "w", (2, 3), Signed(1.0))
        >>> Source.from_dict(source.to_dict() | {"added later": 1}) == source
        True
        """
        missing = [key for key in ("seed", "name", "shape", "law") if key not in values]
        if missing:
            raise ValueError(f"a source needs the keys {missing}, got only {sorted(values)}; add them")
        return cls(values["seed"], values["name"], values["shape"], law_from_dict(values["law"]))

    def _draw(self, out: NDArray[np.float32], first: int, stride: int, width: int, threads: int | None) -> None:
        """Fill ``out`` with rows of ``width`` weights that start ``stride`` apart, from index ``first``."""
        threads = min(resolve_threads(threads), -(-out.size // CHUNK))
        if out.size == 0:
            return
        from strongticket.source.philox import fill
        from strongticket.source.table import normal_table

        law = self.law
        u64 = np.uint64
        seed, stream, per_block = u64(self.seed), u64(_stream(self.name)), u64(law.values_per_block)
        place = (u64(first), u64(stride), u64(width))
        table = normal_table() if law.kind == NORMAL else _NO_TABLE

        def work(start: int, stop: int) -> None:
            fill(out[start:stop], u64(start), *place, seed, stream, law.kind, per_block, law.multiplier, table)

        run_chunks(work, out.size, CHUNK, threads)


def _stream(name: str) -> int:
    """The first 8 bytes of SHA-256(name), read as a little-endian integer."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def _checked_seed(seed: Any) -> int:
    try:
        value = operator.index(seed)
    except TypeError:
        raise ValueError(f"seed must be an integer, got {seed!r}; pass 0 <= seed < 2**64") from None
    if not 0 <= value < 2**64:
        raise ValueError(f"seed must lie in 0 .. 2**64 - 1, got {value}; take it modulo 2**64")
    return value


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be a non-empty string, got {name!r}; give each source its own name")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"name must be valid Unicode, got {name!r}; remove the lone surrogates") from None


def _checked_shape(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise ValueError(f"shape must be a tuple of integers, got {shape!r}; for one dimension pass (n,)") from None
    if not sizes or min(sizes) < 1:
        raise ValueError(f"shape must hold one or more positive integers, got {shape!r}; leave out empty sources")
    if math.prod(sizes) >= 2**62:
        raise ValueError(f"shape must hold fewer than 2**62 weights, got {shape!r}; split it into several names")
    return sizes


def _bounds(axis: str, part: Range, length: int) -> tuple[int, int]:
    """Where a range starts and stops, read as NumPy reads a slice."""
    if isinstance(part, tuple) and len(part) == 2:
        part = slice(*part)
    if not isinstance(part, slice) or part.step not in (None, 1):
        raise ValueError(
            f"{axis} must be a slice without a step or a pair (start, stop), got {part!r}; "
            f"for one index i pass (i, i + 1)"
        )
    try:
        start, stop, _ = part.indices(length)
    except TypeError:
        raise ValueError(f"{axis} must have integer bounds, got {part!r}; pass (start, stop)") from None
    return start, max(start, stop)
