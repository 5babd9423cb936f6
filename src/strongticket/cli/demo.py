"""``strongticket demo``: the main job on the embedded default, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from strongticket.cli.output import Json, show


def command(
    out: Annotated[Path, typer.Option(help="Folder of the results; made if missing.")] = Path("results/demo"),
    seeds: Annotated[int | None, typer.Option(help="Random sources per width; 40 by default.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Worker processes; every core by default.")] = None,
    json: Json = False,
) -> None:
    """Train the paper's small attention layer, find it inside random ones, and write a report.

    This is figure 4 of the paper with the preset `quick`: for every width, tickets are constructed in both
    layouts (the proof's blocks, and assigned units with a swap search) by choosing masks over random weights, without
    training. The page shows the errors, the paper's curve and a verdict; the best ticket is saved beside it.
    """
    from strongticket.cli import report, reproduce
    from strongticket.construct.tickets import attention_ticket
    from strongticket.experiments.options import Options

    views, paths = reproduce.run(["fig4"], out, Options(seeds=seeds), jobs=jobs)
    page, ticket = out / "report.html", out / "ticket"
    best = report.write(out, page)
    if best is None:
        raise ValueError(f"{out} holds no ticket of figure 4; choose another folder")
    attention_ticket(best.found).save_pretrained(ticket)
    numbers = {"report": str(page), "ticket": str(ticket), "files": [str(path) for path in paths]}
    show(reproduce.checks_table(views), numbers, json)
    if not json:
        Console().print(f"picture: {out / 'fig4.png'}\nticket:  {ticket} ({best})\nreport:  {page}", soft_wrap=True)
