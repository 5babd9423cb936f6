"""Tables that show the widths of the theorems beside what solved subset sums need in practice."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strongticket.theory import Calibration


@contextmanager
def solving() -> Iterator[Callable[[int], None]]:
    """A line on standard error that counts the sets of problems solved."""
    solved = 0
    with Console(stderr=True).status("solving random subset sums") as status:

        def advance(sets: int) -> None:
            nonlocal solved
            solved += sets
            status.update(f"solving random subset sums: {solved} sets done")

        yield advance


class WidthRow(NamedTuple):
    """A width that a theorem asks for: ``units`` = d · ``items``, and the logarithm that items come from."""

    label: str
    key: str
    units: int
    d: int
    items: int
    log: float


def compare(title: str, rows: list[WidthRow], problems: int) -> tuple[Table, dict[str, Any] | None]:
    """A table of theory and practice, and the numbers of practice."""
    table = Table(title=title, caption_justify="left")
    for column in ("width", "units", "items per weight", "ε per weight"):
        table.add_column(column, justify="left" if column == "width" else "right")
    if problems == 0:
        for row in rows:
            table.add_row(row.label, str(row.units), str(row.items), _power(row.log))
        return table, None
    from strongticket.theory.practice import REFERENCE_EPS, Practice

    for column in ("items in practice", "units in practice"):
        table.add_column(column, justify="right")
    with solving() as progress:
        practice = Practice(problems, progress)
        answers = [practice.items(row.log) for row in rows]
    for row, answer in zip(rows, answers, strict=True):
        count = f"{answer.count}" if answer.measured else f"{answer.count} *"
        table.add_row(row.label, str(row.units), str(row.items), _power(row.log), count, str(row.d * answer.count))
    notes = [f"practice: solved random subset sums, {problems} for each number of items"]
    formula = [answer.calibration for answer in answers if not answer.measured]
    if formula:
        notes.append(
            f"* not measured: ε per weight is too small to sample; C·log(1/ε) with C = {formula[0].C:.2f} "
            f"({formula[0].C_lower:.2f} … {formula[0].C_upper:.2f}), measured at ε = {REFERENCE_EPS:g}"
        )
    table.caption = "\n".join(notes)
    numbers = {
        row.key: {
            "items": answer.count,
            "units": row.d * answer.count,
            "measured": answer.measured,
            "calibration": calibration_dict(answer.calibration),
        }
        for row, answer in zip(rows, answers, strict=True)
    }
    return table, numbers


def calibration_dict(found: Calibration) -> dict[str, Any]:
    """A calibration as plain values."""
    return {
        "law": found.law,
        "eps": found.eps,
        "failure": found.failure,
        "items": {"lower": found.items_lower, "estimate": found.items, "upper": found.items_upper},
        "C": {"lower": found.C_lower, "estimate": found.C, "upper": found.C_upper},
        "items_with_C_1": found.theory_items,
        "shares": {str(share.items): share.share for share in found.shares},
    }


def holds(probability: float, printed: float) -> str:
    """The line about the probability that a width holds with."""
    counted = f"holds with probability 1 - {1 - probability:.3g}, all heads counted"
    return f"{counted} (as printed: 1 - {1 - printed:.3g})\n"


def _power(log: float) -> str:
    return f"10^{-log / math.log(10):.1f}"
