"""``strongticket report``: one HTML page of all figures in a folder of results."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from strongticket.report.masks import BestTicket


def command(
    folder: Annotated[Path, typer.Argument(help="A folder that `strongticket reproduce` wrote.", metavar="DIR")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The page; DIR/report.html by default.")] = None,
) -> None:
    """Write one self-contained page: figures, verdicts, settings, tables and the masks of a ticket.

    Example: `strongticket report results/quick -o report.html`
    """
    path = out if out is not None else folder / "report.html"
    write(folder, path)
    Console().print(f"report: {path}", soft_wrap=True)


def write(folder: Path, path: Path) -> BestTicket | None:
    """Write the page of a folder of results; the ticket whose masks it shows, if figure 4 is among them."""
    from strongticket.experiments.catalogue import views
    from strongticket.experiments.store import Store
    from strongticket.report.masks import best_ticket, masks_of
    from strongticket.report.page import write_report

    with Store(folder) as store:
        found = views(store)
        if not found:
            raise ValueError(f"{folder} holds no finished trials of a figure; `strongticket reproduce` makes some")
        best = best_ticket(store)
    about = "" if best is None else f"The best ticket of figure 4 up to width 32 ({best}), rebuilt from its seed."
    write_report(found, path, masks=[] if best is None else masks_of(best.found), ticket=about)
    return best
