"""The open mixed-integer solver HiGHS: a reference, one problem at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import highspy

from strongticket.subsetsum.backends.bits import solve_each, to_bits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

threaded = False
_TIGHT = {
    "mip_feasibility_tolerance": 1e-10,
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
}


def block_size(items: int) -> int:
    """One problem, so that progress moves."""
    return 1


def solve_one(items: NDArray[np.float64], target: float, *, tight: bool = True) -> int:
    """Minimise e subject to -e ≤ target - Σ m_k items_k ≤ e, m binary; the subset as bits, rounded from m."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    for name, value in (_TIGHT if tight else {}).items():
        model.setOptionValue(name, value)
    mask = [model.addBinary() for _ in items]
    error = model.addVariable(lb=0.0)
    total = model.expr()
    for variable, item in zip(mask, items, strict=True):
        total += float(item) * variable
    model.addConstr(total + error >= target)
    model.addConstr(total - error <= target)
    model.minimize(error)
    return to_bits([model.val(variable) for variable in mask])


solve_block = partial(solve_each, solve_one)
