"""Which column does each hidden unit serve? Two starting points, both only a choice of masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST_EXACT = 2048


def contiguous(units: int, columns: int) -> NDArray[np.intp]:
    """Blocks of ⌊n/c⌋ neighbouring units, the proof's layout (Lemma 7, Equation 6); the first get one more.

    >>> contiguous(7, 3).tolist()
    [0, 0, 0, 1, 1, 2, 2]
    """
    return np.repeat(np.arange(columns), sizes(units, columns))


def sizes(units: int, columns: int) -> NDArray[np.intp]:
    """How many units each column gets when none is left over.

    >>> sizes(7, 3).tolist()
    [3, 2, 2]
    """
    least, left_over = divmod(units, columns)
    return np.array([least + (column < left_over) for column in range(columns)])


def by_size(u: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    """The assignment of units to columns with the largest Σ |u[column, unit]|, as many units per column.

    A large |u| reaches further: the sums of a column's products grow with it. Solved as a linear assignment up
    to 2,048 units; greedily, then by exchanges of two units, above.

    >>> by_size(np.array([[0.1, 0.9, 0.2, 0.8], [0.7, 0.8, 0.9, 0.1]])).tolist()
    [1, 0, 1, 0]
    """
    columns, units = u.shape
    if units <= _LARGEST_EXACT:
        slots = contiguous(units, columns)
        places, chosen = linear_sum_assignment(np.abs(u)[slots], maximize=True)
        serves = np.empty(units, dtype=np.intp)
        serves[chosen] = slots[places]
    else:
        from strongticket.construct.greedy import greedy_assignment

        serves = greedy_assignment(np.abs(u), sizes(units, columns))
    return without_useless(serves, u)


def without_useless(serves: NDArray[np.intp], u: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    """Units whose weight for their column is 0 serve none (-1): behind a ReLU, the sign decides that.

    >>> without_useless(np.array([0, 1]), np.array([[0.5, 0.2], [0.1, 0.0]])).tolist()
    [0, -1]
    """
    return np.where(u[serves, np.arange(len(serves))] != 0.0, serves, -1)
