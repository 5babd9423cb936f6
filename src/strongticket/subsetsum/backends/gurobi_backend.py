"""Gurobi's mixed-integer solver, which the paper used (§B.1): a reference, one problem at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import gurobipy

from strongticket.subsetsum.backends.bits import solve_each, to_bits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

threaded = False
_TIGHT = {"FeasibilityTol": 1e-9, "IntFeasTol": 1e-9, "OptimalityTol": 1e-9, "MIPGap": 0.0, "MIPGapAbs": 0.0}
_TIGHT_SCALE = 1e4


def block_size(items: int) -> int:
    """One problem, so that progress moves."""
    return 1


def solve_one(items: NDArray[np.float64], target: float, *, tight: bool = True) -> int:
    """Minimise e subject to -e ≤ target - Σ m_k items_k ≤ e, m binary; the subset as bits, rounded from m.

    Gurobi's tolerances are absolute: by default a violation of 1e-6 counts as none, and the solver reports an
    error of 0.0 that it has not reached. ``tight`` sets every tolerance to its least and scales the problem
    up.
    """
    scale = _TIGHT_SCALE if tight else 1.0
    with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as model:
        for name, value in (_TIGHT if tight else {}).items():
            model.setParam(name, value)
        mask = model.addMVar(len(items), vtype=gurobipy.GRB.BINARY)
        error = model.addVar()
        model.addConstr((scale * items) @ mask + error >= scale * target)
        model.addConstr((scale * items) @ mask - error <= scale * target)
        model.setObjective(error)
        model.optimize()
        return to_bits(mask.X)


solve_block = partial(solve_each, solve_one)
