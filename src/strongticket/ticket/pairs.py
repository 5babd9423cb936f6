"""Two masked matrices that stand in for one: their hidden units put together, or folded into their product.

One side of such a pair keeps at most one weight per hidden unit. With first (n × c) single, unit k has the weight
u_k = first[k, g(k)] of the input g(k) that it serves and the column v_k = second[:, k], and the product is
W[:, g] = scale · Σ_{g(k) = g} v_k u_k. With second (c × n) single, it serves the output g(k) with
u_k = second[g(k), k], has the row v_k = first[k, :], and W[g, :] = scale · Σ_{g(k) = g} u_k v_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from strongticket.ticket import packing
from strongticket.ticket.errors import TicketError
from strongticket.ticket.parameters import aligned, masked_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from strongticket.ticket.entry import Entry
    from strongticket.ticket.structures import PairPlace

    Matrix = NDArray[np.float64]

WORK = 96
"""Bytes that finding and sorting the hidden units takes for each of them, and for each input and output, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The hidden units of a pair: ``serves[k]`` is g(k), and ``groups``, the number of groups, where unit k is unused.

    ``first`` says which of the two matrices is ``single``; ``largest`` is the size of the largest group.
    """

    place: PairPlace
    first: bool
    single: Entry
    dense: Entry
    serves: NDArray[np.int64]
    groups: int
    largest: int

    @property
    def width(self) -> int:
        """The size of v_k."""
        return self.dense.source.shape[0 if self.first else 1]

    @property
    def nbytes(self) -> int:
        """Bytes of what ``together`` returns."""
        return 4 * self.groups * self.largest * (self.width + 1)

    @property
    def folded_nbytes(self) -> int:
        """Bytes of the product in float32."""
        return 4 * self.groups * self.width

    def weights(self) -> NDArray[np.float32]:
        """u_k for every unit, 0 where it is unused."""
        used = np.flatnonzero(self.serves < self.groups)
        flat = self.serves[used]
        if self.first:
            flat += used * self.groups
        else:
            flat *= self.serves.size
            flat += used
            order = np.argsort(flat)
            used, flat = used[order], flat[order]
        out = np.zeros(self.serves.size, np.float32)
        for start, piece in self.single.pieces():
            low, high = np.searchsorted(flat, (start, start + piece.size))
            out[used[low:high]] = piece[flat[low:high] - start]
        return out

    def together(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """u as (groups × largest) and v as (groups · largest) rows: group by group, by unit number, padded with 0."""
        slots = self._slots()
        used = slots >= 0
        units = np.zeros((self.groups, self.largest), np.float32)
        units.reshape(-1)[slots[used]] = self.weights()[used]
        dense = aligned((self.width, units.size) if self.first else (units.size, self.width))
        dense[:] = 0.0
        fold, ones = self._fold(), np.ones(slots.size)
        for start, piece in self.dense.pieces():
            fold(piece, start, slots, ones, dense)
        return units, dense.T if self.first else dense

    def product(self, *, magnitudes: bool = False) -> Matrix:
        """W, in float64 of the float32 weights; with ``magnitudes``, of the absolute values of all weights."""
        slots = np.where(self.serves < self.groups, self.serves, -1)
        units = self.weights().astype(np.float64)
        if magnitudes:
            np.abs(units, out=units)
        out = np.zeros((self.width, self.groups) if self.first else (self.groups, self.width))
        fold = self._fold()
        for start, piece in self.dense.pieces():
            fold(np.abs(piece) if magnitudes else piece, start, slots, units, out)
        out *= self.place.scale
        return out

    def _fold(self) -> Callable[..., None]:
        from strongticket.ticket.kernels import fold_columns, fold_rows

        return fold_columns if self.first else fold_rows

    def _slots(self) -> NDArray[np.int64]:
        """The row of each unit in ``together``, -1 where it is unused."""
        order = np.argsort(self.serves, kind="stable")
        groups = self.serves[order]
        starts = np.searchsorted(groups, np.arange(self.groups + 1))
        slots = np.empty(order.size, np.int64)
        slots[order] = np.where(
            groups < self.groups, groups * self.largest + np.arange(order.size) - starts[groups], -1
        )
        return slots


def find_units(place: PairPlace, entries: Mapping[str, Entry]) -> Units | None:
    """The hidden units of a pair of two entries; None if both sides keep several weights of a unit."""
    first, second = entries[place.first], entries[place.second]
    for is_first, single, dense in ((True, first, second), (False, second, first)):
        axis = 1 if is_first else 0
        serves = packing.index_along(single.bits, single.source.shape, single.count, axis)
        if serves is not None:
            groups = single.source.shape[axis]
            largest = int(np.bincount(serves, minlength=groups)[:groups].max())
            return Units(place, is_first, single, dense, serves, groups, max(1, largest))
    return None


def units_of(place: PairPlace, entries: Mapping[str, Entry]) -> Units:
    """The hidden units of a pair, refused if both sides keep several weights of a unit."""
    found = find_units(place, entries)
    if found is None:
        raise TicketError(
            f"masks.{place.first}",
            f"the pair {place.name} must keep at most one weight per hidden unit on one side: "
            f"in each row of {place.first} or in each column of {place.second}",
        )
    return found


def check_work(places: Iterable[PairPlace], entries: Mapping[str, Entry], max_bytes: int) -> None:
    """Refuse pairs of so many hidden units that sorting them takes more than ``max_bytes``."""
    sizes = ((*entries[place.first].source.shape, entries[place.second].source.shape[0]) for place in places)
    needed = WORK * sum(map(sum, sizes))
    if needed > max_bytes:
        raise TicketError("masks", f"sorting the hidden units takes {needed} bytes, more than max_bytes={max_bytes}")


def product(place: PairPlace, entries: Mapping[str, Entry]) -> Matrix:
    """scale · second @ first, in float64 of the float32 weights."""
    first, second = matrices(place, entries)
    return place.scale * (second @ first)


def matrices(place: PairPlace, entries: Mapping[str, Entry]) -> tuple[Matrix, Matrix]:
    """Both masked matrices of a pair, in float64."""
    names = (place.first, place.second)
    mine = {name: entry for name, entry in entries.items() if (entry.part.parameter if entry.part else name) in names}
    found = masked_parameters(mine)
    return found[place.first].astype(np.float64), found[place.second].astype(np.float64)
