"""The one digest over all masks and kept parameters."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.ticket.errors import TicketError
from strongticket.ticket.format import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from strongticket.ticket.entry import Entry

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(array: NDArray[Any], field: str) -> str:
    """The name that safetensors gives to an array's type."""
    found = _NAMES.get(array.dtype.newbyteorder("<"))
    if found is None:
        raise TicketError(field, f"has type {array.dtype}; a ticket holds {', '.join(DTYPES)}")
    return found


def content_digest(entries: Mapping[str, Entry], kept: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of all masks and kept parameters, however they are encoded in the file.

    The stream is the line ``strongticket 1``, then for every mask, sorted by name, the line ``mask NAME 3x2`` and the
    packed bits, then for every kept parameter the line ``kept NAME F32 3x2`` and its little-endian bytes.
    """
    total = hashlib.sha256(b"strongticket 1\n")
    for name in sorted(entries):
        total.update(f"mask {name} {_sizes(entries[name].source.shape)}\n".encode())
        total.update(entries[name].bits.data)
    for name in sorted(kept):
        array = kept[name]
        total.update(f"kept {name} {dtype_name(array, f'kept.{name}')} {_sizes(array.shape)}\n".encode())
        total.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).reshape(-1).data)
    return total.hexdigest()


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
