"""Which pairs a model consists of, and how many hidden units each gets."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from strongticket.construct.linear import DEFAULT_ITEMS
from strongticket.construct.ranges import expected_square
from strongticket.subsetsum import MOST_ITEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from strongticket.construct.targets.models import ModelTarget

KINDS = ("qk", "vo", "up", "down")
_FEWEST_ITEMS = 4


@dataclass(frozen=True)
class Place:
    """One pair: its name, the names of its two masks, and the ``layer`` that it is part of.

    ``kind`` is "qk" or "vo" for a head of an attention layer, "up" or "down" for the first and the second linear layer
    of a feed-forward part.
    """

    name: str
    entries: tuple[str, str]
    kind: str
    layer: str


def places(target: ModelTarget) -> Iterator[Place]:
    """All pairs of a model, block by block."""
    per_block = len(target.linears) // max(1, len(target.attentions))
    for block, path in enumerate(target.attentions):
        for head in range(target.heads):
            at = f"{path}.heads.{head}."
            yield Place(f"{at}qk", (f"{at}key", f"{at}query"), "qk", path)
            yield Place(f"{at}vo", (f"{at}value", f"{at}output"), "vo", path)
        linears = target.linears[block * per_block : (block + 1) * per_block]
        for kind, linear in zip(("up", "down"), linears, strict=False):
            yield Place(linear, (f"{linear}.first", f"{linear}.second"), kind, linear)


def matrices(target: ModelTarget) -> Iterator[tuple[Place, NDArray[np.float64]]]:
    """Every pair with the matrix it is to be, read layer by layer: W_QK, W_VOᵀ, and [W, b]."""
    found: dict[str, NDArray[np.float64]] = {}
    for place in places(target):
        if place.kind in ("up", "down"):
            yield place, target.linear(place.layer)
            continue
        if place.name not in found:
            attention = target.attention(place.layer)
            found = {}
            for head, (qk, vo) in enumerate(zip(attention.qk, attention.vo, strict=True)):
                found[f"{place.layer}.heads.{head}.qk"] = qk
                found[f"{place.layer}.heads.{head}.vo"] = np.ascontiguousarray(vo.T)
        yield place, found.pop(place.name)


def check_choice(items: int | None, widths: Mapping[str, int] | None, budget: int | None, tol: float | None) -> None:
    """Refuse contradicting or impossible wishes before any work."""
    given = [name for name, value in (("items", items), ("widths", widths), ("budget", budget)) if value is not None]
    if len(given) > 1:
        raise ValueError(f"give one of items, widths and budget, got {' and '.join(given)}")
    if items is not None and not 1 <= items <= MOST_ITEMS:
        raise ValueError(f"items must be between 1 and {MOST_ITEMS}, got {items}")
    if tol is not None and not tol > 0:
        raise ValueError(f"tol must be a positive entry error, got {tol}; leave it out for the best masks")
    if tol is not None and budget is not None:
        raise ValueError("give tol, which widens pairs until every entry is within it, or a budget, not both")


def choose_units(
    target: ModelTarget,
    *,
    items: int | None,
    widths: Mapping[str, int] | None,
    budget: int | None,
    sensitivity: Callable[[], Mapping[str, float]],
) -> dict[str, int]:
    """The number of hidden units of every pair, by its name."""
    if widths is not None:
        return _from_widths(target, widths)
    if budget is not None:
        return _within(target, budget, sensitivity())
    columns = _columns(target)
    return {name: (DEFAULT_ITEMS if items is None else items) * count for name, count in columns.items()}


def _columns(target: ModelTarget) -> dict[str, int]:
    """How many inputs or outputs share the units of each pair; blocks have the same shapes."""
    shapes: dict[str, int] = {}
    found = {}
    for place in places(target):
        if place.kind not in shapes:
            shapes[place.kind] = target.size if place.kind in ("qk", "vo") else min(target.linear(place.layer).shape)
        found[place.name] = shapes[place.kind]
    return found


def _from_widths(target: ModelTarget, widths: Mapping[str, int]) -> dict[str, int]:
    unknown = set(widths) - set(KINDS) - {place.name for place in places(target)}
    if unknown:
        raise ValueError(
            f"widths are given for the kinds {', '.join(KINDS)} or for names of pairs, got {sorted(unknown)[0]!r}"
        )
    found, columns_of = {}, _columns(target)
    for place in places(target):
        width, columns = widths.get(place.name, widths.get(place.kind)), columns_of[place.name]
        if width is None:
            raise ValueError(f"widths must say how many units {place.name} gets; add {place.kind!r} or its name")
        if not columns <= width <= MOST_ITEMS * columns:
            raise ValueError(
                f"the width of {place.name} must be between {columns} and {MOST_ITEMS * columns}, 1 to {MOST_ITEMS} "
                f"units for each of its {columns} columns, got {width}"
            )
        found[place.name] = width
    return found


def _within(target: ModelTarget, budget: int, sensitivity: Mapping[str, float]) -> dict[str, int]:
    """Spend ``budget`` units where one more item per entry lowers the expected output error most, unit for unit.

    Pair p with i items is expected to add s_p · E_p(i) to the squared output error, s_p its sensitivity and E_p(i) the
    expected squared error of its entries over their own squares.
    """
    counts = range(_FEWEST_ITEMS, MOST_ITEMS + 1)
    columns, curves = {}, {}
    for place, matrix in matrices(target):
        goal = matrix if matrix.shape[1] <= matrix.shape[0] else matrix.T
        squares = max(float(np.sum(goal**2)), np.finfo(np.float64).tiny)
        columns[place.name] = goal.shape[1]
        curves[place.name] = sensitivity[place.name] / squares * expected_square(goal, counts)
    least = _FEWEST_ITEMS * sum(columns.values())
    if budget < least:
        raise ValueError(f"budget must be at least {least} units, {_FEWEST_ITEMS} for every column, got {budget}")
    items = dict.fromkeys(columns, _FEWEST_ITEMS)
    left = budget - least

    def gain(name: str) -> float:
        at = items[name] - _FEWEST_ITEMS
        return float(curves[name][at] - curves[name][at + 1]) / columns[name]

    heap = [(-gain(name), name) for name in items]
    heapq.heapify(heap)
    while heap:
        _, name = heapq.heappop(heap)
        if columns[name] > left:
            continue
        items[name] += 1
        left -= columns[name]
        if items[name] < MOST_ITEMS:
            heapq.heappush(heap, (-gain(name), name))
    return {name: count * columns[name] for name, count in items.items()}
