"""Subset sums: which of the items, added up, come closest to the target?

>>> import numpy as np
>>> from strongticket.subsetsum import solve
>>> solution = solve(np.array([[0.5, -0.3, 0.9]]), np.array([0.62]))
>>> solution.masks.tolist(), round(float(solution.residuals[0]), 12)
([[False, True, True]], 0.02)
"""

from strongticket.subsetsum.backends import BACKENDS
from strongticket.subsetsum.solver import MOST_ITEMS, Solution, solve

__all__ = ["BACKENDS", "MOST_ITEMS", "Solution", "solve"]
