"""Norms of one matrix applied to [x, 1], computed once and asked for many norms of x."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from strongticket.theory.norms import UNIT, difference_norm_bound, spectral_norm_bound

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 1 + 16 * UNIT


class Affine:
    """The map x ↦ Ax, or x ↦ A[x, 1] if the last column of A is a bias; norms are upper bounds.

    >>> import numpy as np
    >>> shifted = Affine(np.array([[3.0, 4.0]]), bias=True)
    >>> round(shifted.gain, 9), round(shifted.reach(1.0), 9)
    (3.0, 7.0)
    """

    def __init__(self, matrix: NDArray[np.float64], *, bias: bool) -> None:
        """Hold the matrix; its norms are computed when they are asked for."""
        self.matrix = matrix
        self.bias = bias

    @cached_property
    def gain(self) -> float:
        """How much ‖Ax - Ay‖ is at most per ‖x - y‖: the norm of A without its bias."""
        return self._norm(self.matrix[:, :-1] if self.bias else self.matrix)

    def reach(self, radius: float) -> float:
        """The largest ‖Ax‖, or ‖A[x, 1]‖, for ‖x‖ ≤ ``radius``."""
        if not self.bias:
            return self.gain * radius * ROUNDING
        apart = self.gain * radius + self._offset
        return min(apart, math.hypot(radius, 1.0) * self._together) * ROUNDING

    @cached_property
    def _offset(self) -> float:
        return self._norm(self.matrix[:, -1:])

    @cached_property
    def _together(self) -> float:
        return self._norm(self.matrix)

    def _norm(self, matrix: NDArray[np.float64]) -> float:
        return spectral_norm_bound(matrix)


class Difference(Affine):
    """The map of A - B, with the rounding of the subtraction covered by its norms.

    >>> import numpy as np
    >>> Difference(np.eye(2), np.eye(2), bias=False).reach(5.0)
    0.0
    """

    def __init__(self, left: NDArray[np.float64], right: NDArray[np.float64], *, bias: bool) -> None:
        """Subtract; both matrices have the bias in the last column, or neither has one."""
        super().__init__(left - right, bias=bias)

    def _norm(self, matrix: NDArray[np.float64]) -> float:
        return difference_norm_bound(matrix, np.zeros_like(matrix))
