"""``strongticket results``: list, filter and export the trials of a folder."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from strongticket.cli.output import Json, show

_SHOWN = 40


def command(
    folder: Annotated[Path, typer.Argument(help="A folder that `strongticket reproduce` wrote.", metavar="DIR")],
    figure: Annotated[str | None, typer.Option(help="Only the trials of this figure.")] = None,
    where: Annotated[list[str] | None, typer.Option(help="Only trials with KEY=VALUE, such as width=16.")] = None,
    export: Annotated[Path | None, typer.Option(help="Write all of them to a .csv or .parquet file.")] = None,
    every: Annotated[bool, typer.Option("--all", help=f"List all, not only the first {_SHOWN}.")] = False,
    json: Json = False,
) -> None:
    """List the finished trials, or export them with their configurations and results.

    Example: `strongticket results results/quick --where layout=assigned --where width=16 --export trials.csv`
    """
    from strongticket.experiments.export import flat, matching, write_table
    from strongticket.experiments.store import Store

    with Store(folder) as store:
        rows = matching(store, figure, where or [])
        plans = {plan.figure: len(plan.trials) for plan in store.plans()}
    if export is not None:
        write_table(rows, export)
        Console(stderr=True).print(f"{len(rows)} trials: {export}", soft_wrap=True)
        return
    table = Table(title=f"{len(rows)} trials in {folder}", caption="figures asked for: " + (", ".join(plans) or "none"))
    for column in ("id", "experiment", "configuration", "seconds", "finished"):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    shown = rows if every else rows[:_SHOWN]
    for row in shown:
        facts = {k: v for k, v in row.config.items() if k not in ("kind", "target")}
        words = " ".join(f"{key}={value}" for key, value in facts.items())
        table.add_row(row.id, row.experiment, words, f"{row.seconds:.2f}", row.finished_at)
    if len(shown) < len(rows):
        table.caption = f"{len(rows) - len(shown)} more; --all lists them"
    show(table, {"plans": plans, "trials": [flat(row) for row in rows]}, json)
