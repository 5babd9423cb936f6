"""A figure as data: what the picture, the interactive page and the CSV file are all drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Verdict = Literal["agrees", "differs", "beyond the paper", "open"]
Dash = Literal["solid", "dashed", "dotted", "dashdot"]


@dataclass(frozen=True)
class Axis:
    """A label with its unit, and whether the scale is logarithmic."""

    label: str
    log: bool = False


@dataclass(frozen=True)
class Series:
    """One line: ``spread`` is one standard deviation around each y. Styles tell lines apart without colour too."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None
    color: int | None = 0
    marker: str | None = "circle"
    dash: Dash = "solid"
    hidden: bool = False


@dataclass(frozen=True)
class Check:
    """A claim of the paper, what was measured, and whether they agree."""

    claim: str
    measured: str
    verdict: Verdict
    where: str


@dataclass(frozen=True)
class View:
    """Everything that is shown of one figure."""

    name: str
    title: str
    about: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    checks: Sequence[Check]
    settings: dict[str, Any]
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def verdict(self) -> str:
        """One word for all checks."""
        found = {check.verdict for check in self.checks if check.verdict in ("agrees", "differs")}
        if len(found) == 2:
            return "agrees in part"
        if found:
            return found.pop()
        return "open" if any(check.verdict == "open" for check in self.checks) else "beyond the paper"
