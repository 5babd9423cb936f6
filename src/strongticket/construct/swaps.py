"""The swap search: exchange units between columns so that the worst entries come within reach."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.source import Source, Uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from strongticket.construct.prune import Problem, Pruned

PROPOSALS = 64
_PROBED_ROWS = 4
_FINALISTS = 16
_SHARE_OF_RANDOM = 0.1
_PATIENCE = 200
_EVERY_ROW = slice(None)


def default_rounds(rows: int, items: int) -> int:
    """Rounds that take about a second on one core for 16 rows of 16 items, and not much longer for more of either.

    >>> default_rounds(16, 16), default_rounds(64, 16), default_rounds(32, 24), default_rounds(32, 44)
    (1000, 500, 62, 0)
    """
    return min(1000, int(32_000 / rows * 2.0 ** (-max(0, items - 16) / 2)))


def swap_search(
    problem: Problem,
    pruned: Pruned,
    *,
    rounds: int,
    seconds: float | None = None,
    tol: float = 0.0,
    seed: int,
    name: str,
    progress: Callable[[int], Any] | None = None,
) -> None:
    """Improve ``pruned`` in place; the cost that falls is Σ |error|^8 over all entries.

    A round takes the column of the largest cost (one in ten: any column) and proposes 64 exchanges of one of its
    units with a unit of another column. The column's 4 worst rows are solved anew for every proposal, its other
    rows for the 16 best, then the other columns; the best exchange is kept if the sum of both costs falls. The
    search ends after ``rounds`` rounds, after 200 rounds without a change, when every |error| ≤ ``tol``, or when
    ``seconds`` are over. ``progress`` counts 64 subset sums per round and row, up to those of ``rounds`` rounds.
    """
    if rounds == 0:
        return
    per_round, done = PROPOSALS * len(problem.target), 0
    cost = problem.cost(pruned.error)
    groups = [pruned.units_of(column) for column in range(problem.columns)]
    failures = np.zeros(problem.columns)
    unchanged, end = 0, None if seconds is None else time.monotonic() + seconds
    for chances in _chances(seed, name, rounds):
        if pruned.max_error <= tol or unchanged >= _PATIENCE or (end and time.monotonic() >= end):
            break
        done += 1
        if progress is not None:
            progress(per_round)
        pick = chances[0]
        if pick < _SHARE_OF_RANDOM:
            column = int(pick / _SHARE_OF_RANDOM * problem.columns)
        else:
            column = int(np.argmax(cost * 0.5**failures))
        if _exchange(problem, pruned, groups, cost, column, chances[1:]):
            failures[:] = 0
            unchanged = 0
        else:
            failures[column] += 1
            unchanged += 1
    if progress is not None and done < rounds:
        progress((rounds - done) * per_round)


def _chances(seed: int, name: str, rounds: int) -> Iterator[NDArray[np.float64]]:
    source = Source(seed=seed, name=f"{name}/swaps", shape=(rounds, 1 + 2 * PROPOSALS), law=Uniform(1.0))
    for start in range(0, rounds, 64):
        yield from 0.5 + 0.5 * source.tile(slice(start, min(start + 64, rounds))).astype(np.float64)


def _exchange(
    problem: Problem,
    pruned: Pruned,
    groups: list[NDArray[np.intp]],
    cost: NDArray[np.float64],
    column: int,
    chances: NDArray[np.float64],
) -> bool:
    """Make the best of the drawn exchanges between ``column`` and others, if one lowers the cost."""
    mine = groups[column]
    others = np.flatnonzero((pruned.serves >= 0) & (pruned.serves != column) & (problem.u[column] != 0.0))
    if len(mine) == 0 or len(others) == 0:
        return False
    places = (chances[:PROPOSALS] * len(mine)).astype(np.intp)
    taken = others[(chances[PROPOSALS:] * len(others)).astype(np.intp)]
    useful = problem.u[pruned.serves[taken], mine[places]] != 0.0
    places, taken = places[useful], taken[useful]
    worst = np.argsort(-np.abs(pruned.error[:, column]), kind="stable")[:_PROBED_ROWS]
    probe = problem.cost(_solve_with(problem, column, mine, places, taken, worst)[1].T)
    finalists = np.argsort(probe, kind="stable")[:_FINALISTS]
    finalists = finalists[probe[finalists] < cost[column]]
    if len(finalists) == 0:
        return False
    places, taken = places[finalists], taken[finalists]
    masks, errors = _solve_with(problem, column, mine, places, taken)
    gains = cost[column] - problem.cost(errors.T)
    best, chosen = 0.0, None
    for k in np.argsort(-gains, kind="stable"):
        if gains[k] <= best:
            break
        other = int(pruned.serves[taken[k]])
        place = np.searchsorted(groups[other], taken[k : k + 1])
        their_masks, their_errors = _solve_with(problem, other, groups[other], place, mine[places[k : k + 1]])
        gain = gains[k] + cost[other] - problem.cost(their_errors.T)[0]
        if gain > best:
            best, chosen = gain, (k, other, place[0], their_masks[0], their_errors[0])
    if chosen is None:
        return False
    k, other, place, their_mask, their_error = chosen
    given = mine[places[k]]
    for which, at, unit, mask, error in (
        (column, places[k], taken[k], masks[k], errors[k]),
        (other, place, given, their_mask, their_error),
    ):
        units = groups[which].copy()
        units[at] = unit
        order = np.argsort(units)
        groups[which] = units[order]
        pruned.serves[unit] = which
        pruned.mask[:, groups[which]] = mask[:, order]
        pruned.error[:, which] = error
        cost[which] = problem.cost(error)
    return True


def _solve_with(
    problem: Problem,
    column: int,
    units: NDArray[np.intp],
    places: NDArray[np.intp],
    replacements: NDArray[np.intp],
    rows: NDArray[np.intp] | slice = _EVERY_ROW,
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Masks (proposals, rows, items) and errors (proposals, rows), one unit of ``column`` replaced in each."""
    targets = problem.target[rows, column]
    items = np.repeat(problem.items(column, units, rows)[None], len(places), axis=0)
    items[np.arange(len(places)), :, places] = problem.items(column, replacements, rows).T
    solution = problem.solve(items.reshape(-1, len(units)), np.tile(targets, len(places)))
    shape = len(places), len(targets)
    return solution.masks.reshape(*shape, len(units)), solution.residuals.reshape(shape)
