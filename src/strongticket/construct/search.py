"""From a layout's name to the best masks it leads to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from strongticket.construct.layouts import by_size
from strongticket.construct.prune import Problem, Pruned, prune
from strongticket.construct.spares import spares_help, start_with_spares
from strongticket.construct.spares import subset_sums as subset_sums_with_spares
from strongticket.construct.swaps import PROPOSALS, default_rounds, swap_search

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    Layout = Literal["assigned", "paper"]

LAYOUTS = ("assigned", "paper")


@dataclass(frozen=True)
class Search:
    """How masks are looked for; the same settings and seed give the same masks on every machine.

    ``layout`` "paper": contiguous blocks of units on the input side, nothing else (Lemma 7). "assigned": blocks
    on the smaller side; the better of contiguous blocks and the assignment by large |u|, or, for many columns, units
    matched to each column's own scale and spare ones for its worst entries; then ``refine`` rounds of the swap search
    (default: about a second for a 16 × 16 matrix; 0 for none). ``seconds`` ends the search early, and makes the result
    depend on the machine. ``tol`` is an entry error that is good enough.
    """

    layout: Layout = "assigned"
    refine: int | None = None
    seconds: float | None = None
    tol: float = 0.0
    threads: int | None = None

    def __post_init__(self) -> None:
        """Check every field before any work."""
        if self.layout not in LAYOUTS:
            raise ValueError(f"unknown layout {self.layout!r}; choose one of {', '.join(LAYOUTS)}")
        if self.refine is not None and self.refine < 0:
            raise ValueError(f"refine must be a number of rounds, 0 for none, got {self.refine}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds}; leave it out for no limit")
        if not self.tol >= 0.0:
            raise ValueError(f"tol must be 0 (the best masks) or a positive entry error, got {self.tol}")

    def rounds(self, rows: int, columns: int, units: int) -> int:
        """The rounds of the swap search for a target of rows × columns and so many units."""
        if self.layout == "paper" or columns < 2:
            return 0
        return default_rounds(rows, units // columns) if self.refine is None else self.refine

    def subset_sums(self, rows: int, columns: int, units: int) -> int:
        """How many subset sums the progress of ``run`` counts to."""
        if self.layout == "paper":
            return rows * columns
        start = subset_sums_with_spares(rows, columns, units) if spares_help(columns, units) else 2 * rows * columns
        return start + self.rounds(rows, columns, units) * PROPOSALS * rows

    def run(
        self,
        problem: Problem,
        blocks: NDArray[np.intp],
        *,
        seed: int,
        name: str,
        progress: Callable[[int], Any] | None = None,
    ) -> Pruned:
        """The masks of ``problem``, whose contiguous layout is ``blocks``; seed and name draw the swaps."""
        if self.layout == "paper":
            return prune(problem, blocks, progress)
        if spares_help(problem.columns, problem.units):
            best = start_with_spares(problem, progress)
        else:
            starts = (prune(problem, serves, progress) for serves in (blocks, by_size(problem.u)))
            best = min(starts, key=lambda pruned: float(problem.cost(pruned.error).sum()))
        swap_search(
            problem,
            best,
            rounds=self.rounds(len(problem.target), problem.columns, problem.units),
            seconds=self.seconds,
            tol=self.tol,
            seed=seed,
            name=name,
            progress=progress,
        )
        return best
