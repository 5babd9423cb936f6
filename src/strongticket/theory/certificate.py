"""The certificate: a bound on a ticket's error, what it is made of, and what it assumes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Term:
    """One number that a bound is made of: ``where`` ("head 1"), ``what`` it is, and its ``value``."""

    where: str
    what: str
    value: float


@dataclass(frozen=True)
class Certificate:
    """A bound on ‖target(x_i) - ticket(x_i)‖ for every input with norms up to ``alpha``.

    ``trivial`` is the bound that a ticket with output 0 would have: the largest norm of the target's output.
    ``useless_from`` names the first block (1 for a single layer) whose bound is no better than that; None
    means that the certificate says something everywhere.

    >>> term = Term("head 1", "error", 0.5)
    >>> certificate = Certificate("demo", 0.5, 1.0, 3.0, (term,), ("exact arithmetic",))
    >>> certificate.bound, certificate.useful
    (0.5, True)
    """

    what: str
    bound: float
    alpha: float
    trivial: float
    terms: tuple[Term, ...]
    assumptions: tuple[str, ...]
    useless_from: int | None = None

    @property
    def useful(self) -> bool:
        """Whether the bound is smaller than the trivial one."""
        return self.useless_from is None

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain numbers, strings and lists, ready for JSON (infinity becomes None)."""
        plain = asdict(self)
        plain["terms"] = [{**term, "value": _finite(term["value"])} for term in plain["terms"]]
        plain["assumptions"] = list(self.assumptions)
        return plain | {"bound": _finite(self.bound), "trivial": _finite(self.trivial), "useful": self.useful}

    def __rich__(self) -> Table:
        """The table that rich prints."""
        from rich.table import Table

        table = Table(title=f"Certificate: {self.what}", caption=self._caption(), caption_justify="left")
        table.add_column("where")
        table.add_column("term")
        table.add_column("value", justify="right")
        for term in self.terms:
            table.add_row(term.where, term.what, f"{term.value:.4g}")
        table.add_section()
        table.add_row("output", "error at most", f"{self.bound:.4g}", style="bold")
        table.add_row("output", "bound of a ticket that answers 0", f"{self.trivial:.4g}")
        return table

    def __str__(self) -> str:
        """The same table as plain text."""
        from rich.console import Console

        console = Console(width=110, color_system=None, force_terminal=False)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    def _caption(self) -> str:
        lines = [f"holds for every input with ‖x‖ ≤ {self.alpha:.6g}, every length, every attention mask"]
        lines += [f"assumes {assumption}" for assumption in self.assumptions]
        if self.useless_from is not None:
            lines.append(f"says nothing from block {self.useless_from} on: an output of 0 has the same bound there")
        return "\n".join(lines)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
