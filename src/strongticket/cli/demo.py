"""``strongticket demo``: the main job on the embedded default, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from strongticket.cli.output import Json, progress_bar, show

_WIDTHS = tuple(range(4, 33, 4))


def command(
    out: Annotated[Path, typer.Option(help="Folder for the picture; made if missing.")] = Path("results/demo"),
    sources: Annotated[int, typer.Option(help="Random sources per width and layout.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="The first seed.", min=0)] = 0,
    json: Json = False,
) -> None:
    """Train the paper's small attention layer, then find it inside random ones of growing width.

    The target is the single-head attention of §B.1. For every width, tickets are constructed in both layouts (the
    proof's blocks, and assigned units with a swap search): only masks over random weights, no training. The table
    and the picture show their errors beside the certificates, which hold for every input.
    """
    from strongticket.experiments.angular import train_target
    from strongticket.experiments.fig4 import error_against_width
    from strongticket.report.width_figure import draw_error_against_width

    out.mkdir(parents=True, exist_ok=True)
    with progress_bar("training the target", 25) as advance:
        target = train_target(seed, progress=advance)
    with progress_bar("constructing tickets", 2 * len(_WIDTHS) * sources) as advance:
        rows = error_against_width(target, widths=_WIDTHS, sources=sources, seed=seed, progress=advance)
    picture = out / "error_against_width.png"
    draw_error_against_width(rows, picture)

    table = Table(
        title=f"Tickets for a trained attention layer, {sources} random sources per row",
        caption=f"target: R² {target.r2:.2f} on its task; error: mean over sequences of the largest over positions",
    )
    table.add_column("layout")
    for column in ("width", "mean error", "std", "median error", "median certificate"):
        table.add_column(column, justify="right")
    for row in rows:
        values = (row.mean, row.std, row.median, row.certificate)
        table.add_row(row.layout, str(row.width), *(f"{value:.2e}" for value in values))
    numbers = {"target_r2": target.r2, "rows": [row.to_dict() for row in rows], "picture": str(picture)}
    show(table, numbers, json)
    if not json:
        Console().print(f"picture: {picture}", soft_wrap=True)
