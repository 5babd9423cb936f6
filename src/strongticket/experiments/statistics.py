"""Gather the numbers of trials that share a point of a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from strongticket.experiments.store import Row


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation and median of ``count`` numbers."""

    mean: float
    std: float
    median: float
    count: int


def summarise(values: Sequence[float]) -> Summary:
    """The summary of a list of numbers.

    >>> summarise([1.0, 2.0, 6.0]).median
    2.0
    """
    found = np.asarray(values, dtype=np.float64)
    return Summary(float(found.mean()), float(found.std()), float(np.median(found)), len(found))


def group(
    rows: Iterable[Row], keys: Sequence[str], values: Callable[[Row], Iterable[float]]
) -> dict[tuple[Any, ...], list[float]]:
    """The numbers of all rows by the configuration's ``keys``, in ascending order of the keys."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        found.setdefault(tuple(row.config[key] for key in keys), []).extend(values(row))
    return dict(sorted(found.items()))


def lasting(enough: Mapping[int, bool]) -> int | None:
    """The smallest width from which on every wider one is enough as well, or None.

    >>> lasting({4: True, 8: False, 12: True, 16: True})
    12
    """
    found = None
    for width in sorted(enough, reverse=True):
        if not enough[width]:
            break
        found = width
    return found


def clearly_less(left: Summary, right: Summary) -> bool:
    """Whether the mean of ``left`` is smaller by more than both standard deviations together.

    >>> clearly_less(summarise([1.0, 1.1]), summarise([2.0, 2.1]))
    True
    >>> clearly_less(summarise([1.0, 3.0]), summarise([2.1]))
    False
    """
    return left.mean < right.mean - float(np.hypot(left.std, right.std))


def number(value: float) -> str:
    """A number for a sentence or a table cell.

    >>> number(0.123456), number(1.5e-7), number(0.0)
    ('0.123', '1.5e-07', '0')
    """
    return "–" if value is None or not np.isfinite(value) else f"{value:.3g}"
