"""OR-Tools' CP-SAT, which works with whole numbers: a reference, one problem at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from strongticket.subsetsum.backends.bits import solve_each, to_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

threaded = False
_LARGEST = 2.0**50


def block_size(items: int) -> int:
    """One problem, so that progress moves."""
    return 1


def solve_one(items: NDArray[np.float64], target: float) -> int:
    """Minimise |target - Σ m_k items_k| in fixed point, Σ|items| + |target| as 2^50; the subset as bits."""
    size = (float(np.abs(items).sum()) + abs(target)) or 1.0
    weights = [round(float(item) / size * _LARGEST) for item in items]
    model = cp_model.CpModel()
    mask = [model.new_bool_var(f"m{k}") for k in range(len(items))]
    error = model.new_int_var(0, int(_LARGEST), "error")
    gap = sum(weight * variable for weight, variable in zip(weights, mask, strict=True))
    gap -= round(target / size * _LARGEST)
    model.add(gap <= error)
    model.add(gap >= -error)
    model.minimize(error)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.solve(model)
    return to_bits([solver.value(variable) for variable in mask])


solve_block = partial(solve_each, solve_one)
