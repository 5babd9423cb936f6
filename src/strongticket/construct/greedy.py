"""An assignment of many units to columns that is good, not best, in time linear in the number of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SWEEPS = 4
_SMALL = 0.9


def greedy_assignment(gain: NDArray[np.float64], room: NDArray[np.intp]) -> NDArray[np.intp]:
    """Give each unit (column of ``gain``) the free place it gains most from, then exchange places pairwise.

    ``room`` says how many units each row of ``gain`` takes. Only units that ended below 0.9 of the largest gain
    look for a partner to exchange with.
    """
    by_unit = np.ascontiguousarray(gain.T)
    serves = np.empty(len(by_unit), dtype=np.intp)
    _fill(by_unit, room.copy(), serves)
    for _ in range(_SWEEPS):
        if not _exchange(by_unit, serves, _SMALL * float(gain.max())):
            break
    return serves


@njit(nogil=True, cache=True)
def _fill(gain: Any, room: Any, serves: Any) -> None:
    for unit in range(len(serves)):
        best, place = -1.0, 0
        for row in range(len(room)):
            if room[row] > 0 and gain[unit, row] > best:
                best, place = gain[unit, row], row
        serves[unit] = place
        room[place] -= 1


@njit(nogil=True, cache=True)
def _exchange(gain: Any, serves: Any, enough: float) -> int:
    changed = 0
    for unit in range(len(serves)):
        mine = gain[unit, serves[unit]]
        if mine >= enough:
            continue
        best, partner = 0.0, unit
        for other in range(len(serves)):
            total = gain[unit, serves[other]] + gain[other, serves[unit]] - mine - gain[other, serves[other]]
            if total > best:
                best, partner = total, other
        if partner != unit:
            serves[unit], serves[partner] = serves[partner], serves[unit]
            changed += 1
    return changed
