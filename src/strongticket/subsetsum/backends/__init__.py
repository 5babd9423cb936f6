"""What solves a block of problems: one module per backend, loaded on first use.

A backend module defines ``solve_block(items, targets, masks, residuals)`` for items (P, n') and targets (P,)
in float64 with 1 ≤ n' ≤ 40, filling masks (P, n') bool and residuals (P,); ``block_size(n')``, how many
problems make a good block; and ``threaded``, whether blocks may be solved by several threads at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BACKENDS = {
    "numba": None,
    "torch": None,
    "gurobi": "gurobi",
    "highs": "highs",
    "ortools": "ortools",
}
"""The backends by name, each with the optional extra it needs."""


class Backend(Protocol):
    """The interface of a backend module."""

    threaded: bool

    def block_size(self, items: int) -> int:
        """How many problems of ``items`` items make a good block."""

    def solve_block(
        self,
        items: NDArray[np.float64],
        targets: NDArray[np.float64],
        masks: NDArray[np.bool_],
        residuals: NDArray[np.float64],
    ) -> None:
        """Solve every problem of the block."""


def load_backend(name: str) -> Backend:
    """The backend module ``name``; an ImportError names the extra to install where its package is missing."""
    if name not in BACKENDS:
        raise ValueError(f"unknown backend {name!r}; choose one of {', '.join(BACKENDS)}")
    try:
        return cast("Backend", import_module(f"strongticket.subsetsum.backends.{name}_backend"))
    except ModuleNotFoundError as error:
        extra = BACKENDS[name]
        if extra is None:
            raise
        raise ImportError(
            f"the backend {name!r} needs the package {error.name!r}: pip install 'strongticket[{extra}]'"
        ) from error
