"""One masked source, and the parameter it fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.source import Source
from strongticket.ticket import checks
from strongticket.ticket.errors import TicketError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

CHUNK = 1 << 16
"""Weights drawn and masked at a time, few enough to stay in the cache in between; a multiple of 8."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a parameter an entry fills: from ``start`` on along ``axis``, whole along the others."""

    parameter: str
    axis: int
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A source and its mask, packed 8 to a byte, lowest bit first; with a ``part``, one of several in a parameter.

    >>> from strongticket import Signed
    >>> entry = Entry.of(Source(0, "w", (2, 2), Signed(1.0)), np.array([[True, False], [False, True]]))
    >>> entry.bits.tolist(), entry.count
    ([9], 2)
    >>> entry.weights()
    array([[-1.,  0.],
           [ 0.,  1.]], dtype=float32)
    """

    source: Source
    bits: NDArray[np.uint8]
    part: Part | None = None

    @classmethod
    def of(cls, source: Source, mask: Any, part: Part | None = None, field: str = "mask") -> Entry:
        """Pack a mask of booleans, or of numbers that are all 0 or 1."""
        if not isinstance(source, Source):
            raise TicketError(field, f"needs a Source, got {checks.shown(source)}")
        if hasattr(mask, "detach"):
            mask = mask.detach().cpu().numpy()
        given = np.asarray(mask)
        if given.shape != source.shape:
            raise TicketError(field, f"the mask has shape {given.shape}, but its source has {source.shape}")
        if given.dtype != np.bool_:
            if given.dtype.kind not in "iuf" or not ((given == 0) | (given == 1)).all():
                raise TicketError(field, f"the mask must hold True and False, got values of type {given.dtype}")
            given = given != 0
        return cls(source, np.packbits(given.reshape(-1), bitorder="little"), part)

    @property
    def count(self) -> int:
        """How many weights are kept."""
        return int(np.bitwise_count(self.bits).sum(dtype=np.int64))

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The mask, unpacked."""
        flat = np.unpackbits(self.bits, count=self.source.size, bitorder="little")
        return flat.view(np.bool_).reshape(self.source.shape)

    def weights(self) -> NDArray[np.float32]:
        """where(mask, source.weights(), 0)."""
        out = np.empty(self.source.shape, np.float32)
        self.write(out)
        return out

    def pieces(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The masked weights a piece at a time: the flat index of its first, and the piece, valid until the next."""
        from strongticket.ticket.kernels import LANES, keep

        buffer = np.empty(min(CHUNK, self.source.size), np.float32)
        for start in range(0, self.source.size, CHUNK):
            piece = buffer[: self.source.size - start]
            self.source.fill(piece, start)
            keep(piece.view(np.uint32), self.bits[start // 8 :], LANES)
            yield start, piece

    def write(self, out: NDArray[np.float32]) -> None:
        """Write the masked weights to ``out``, which may be a slice of a larger array."""
        from strongticket.ticket.kernels import LANES, keep

        source, size = self.source, self.source.size
        if out.flags.c_contiguous:
            flat = out.reshape(-1)
            for start in range(0, size, CHUNK):
                piece = flat[start : start + CHUNK]
                source.fill(piece, start)
                keep(piece.view(np.uint32), self.bits[start // 8 :], LANES)
            return
        row = size // source.shape[0]
        rows = max(8, CHUNK // row // 8 * 8)
        buffer = np.empty((min(rows, source.shape[0]), *source.shape[1:]), np.float32)
        for top in range(0, source.shape[0], rows):
            block = buffer[: min(rows, source.shape[0] - top)]
            piece = block.reshape(-1)
            source.fill(piece, top * row)
            keep(piece.view(np.uint32), self.bits[top * row // 8 :], LANES)
            out[top : top + rows] = block
