"""How entries fill parameters: one each, or several side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from strongticket.ticket.errors import TicketError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from strongticket.ticket.entry import Entry, Part


def parameter_shapes(entries: Mapping[str, tuple[tuple[int, ...], Part | None]]) -> dict[str, tuple[int, ...]]:
    """The shape of every masked parameter; refused where parts overlap, leave a gap or do not fit."""
    shapes: dict[str, tuple[int, ...]] = {}
    parts: dict[str, list[tuple[str, tuple[int, ...], Part]]] = {}
    for name, (shape, part) in entries.items():
        if part is None:
            shapes[name] = shape
        else:
            parts.setdefault(part.parameter, []).append((name, shape, part))
    for parameter, pieces in parts.items():
        if parameter in shapes:
            raise TicketError(f"masks.{pieces[0][0]}.part", f"{parameter} is filled by an entry of its own already")
        shapes[parameter] = _joined(pieces)
    return shapes


def _joined(pieces: list[tuple[str, tuple[int, ...], Part]]) -> tuple[int, ...]:
    pieces.sort(key=lambda piece: piece[2].start)
    _, first, where = pieces[0]
    axis, end = where.axis, 0
    for name, shape, part in pieces:
        field = f"masks.{name}.part"
        if part.axis != axis or not axis < len(shape):
            raise TicketError(f"{field}.axis", f"must be {axis}, an axis of the shape {shape}, got {part.axis}")
        if (*shape[:axis], *shape[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]):
            raise TicketError(field, f"the shapes {shape} and {first} do not fit side by side along axis {axis}")
        if part.start != end:
            raise TicketError(f"{field}.start", f"must be {end}, where the part before it ends, got {part.start}")
        end += shape[axis]
    return (*first[:axis], end, *first[axis + 1 :])


def aligned(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """An uninitialised array that starts at a multiple of 64 bytes, as torch's own memory does.

    Libraries for matrix products may round differently at other addresses.
    """
    size = 4 * math.prod(shape)
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(np.float32).reshape(shape)


def masked_parameters(entries: Mapping[str, Entry]) -> dict[str, NDArray[np.float32]]:
    """Every masked parameter as a new float32 array."""
    from concurrent.futures import ThreadPoolExecutor

    from strongticket.parallel import resolve_threads

    shapes = parameter_shapes({name: (entry.source.shape, entry.part) for name, entry in entries.items()})
    out = {name: aligned(shape) for name, shape in shapes.items()}

    def write(name: str) -> None:
        entry, part = entries[name], entries[name].part
        if part is None:
            entry.write(out[name])
            return
        stop = part.start + entry.source.shape[part.axis]
        place = (*[slice(None)] * part.axis, slice(part.start, stop))
        entry.write(out[part.parameter][place])

    with ThreadPoolExecutor(resolve_threads(None)) as pool:
        list(pool.map(write, entries))
    return out
