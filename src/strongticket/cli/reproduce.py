"""``strongticket reproduce``: run the experiments of the paper's figures and draw them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strongticket.cli.output import Json, progress_bar, show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strongticket.experiments.options import Options
    from strongticket.experiments.view import View

_FIGURES = (
    "fig4 (error against width), fig5 (against length), fig6 (transformers), fig7 and fig8 (searches in language "
    "models), fig9 (width for an error), fig10 (theory against practice), or all."
)


def command(
    figures: Annotated[list[str], typer.Argument(help=_FIGURES, metavar="FIGURE...")],
    preset: Annotated[str, typer.Option(help="quick: minutes on two cores. paper: the paper's sizes.")] = "quick",
    seeds: Annotated[int | None, typer.Option(help="Sources or searches per point, instead of the preset's.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the results; results/PRESET by default.")] = None,
    token: Annotated[str, typer.Option(help="The regression token: learned, or zero to keep it there.")] = "learned",
    target_seed: Annotated[int, typer.Option(help="The seed of the target.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Worker processes; every core by default.")] = None,
    cluster: Annotated[str | None, typer.Option(help="dask://HOST:PORT runs the trials on a Dask cluster.")] = None,
    resume: Annotated[bool, typer.Option(help="Keep finished trials, or run them again.")] = True,
    json: Json = False,
) -> None:
    """Run the experiments of figures, store every trial, and draw PNG, SVG, PDF and CSV.

    Finished trials are kept in `OUT/results.sqlite`: a run that was stopped goes on where it was.

    Example: `strongticket reproduce fig4 fig5 fig6`
    """
    from strongticket.experiments.options import Options

    options = Options(preset=preset, seeds=seeds, token=token, target_seed=target_seed)
    folder = out if out is not None else Path("results") / preset
    views, paths = run(figures, folder, options, jobs=jobs, cluster=cluster, resume=resume)
    show(checks_table(views), {"views": [_numbers(view) for view in views], "files": [str(p) for p in paths]}, json)
    if not json:
        Console().print(f"figures and results: {folder}", soft_wrap=True)


def run(
    figures: Sequence[str],
    folder: Path,
    options: Options,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    resume: bool = True,
) -> tuple[list[View], list[Path]]:
    """Run with a progress bar and write the files of the figures that were asked for."""
    from strongticket.experiments.catalogue import checked_figures, views
    from strongticket.experiments.reproduce import reproduce
    from strongticket.experiments.runner import TrialsFailedError
    from strongticket.experiments.store import Store
    from strongticket.report.picture import write_figure

    with ExitStack() as stack:

        def start(count: int) -> Callable[[int], Any]:
            return stack.enter_context(progress_bar("trials", count))

        try:
            reproduce(figures, folder, options, jobs=jobs, cluster=cluster, resume=resume, start=start)
        except TrialsFailedError as error:
            stack.close()
            Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
            raise typer.Exit(1) from None
    wanted = checked_figures(figures)
    with Store(folder) as store:
        found = [view for view in views(store) if view.name in wanted]
    return found, [path for view in found for path in write_figure(view, folder)]


def checks_table(views: Sequence[View]) -> Table:
    """The paper's claims and what was measured."""
    table = Table(title="The paper's claims, and what was measured", show_lines=True)
    for column in ("figure", "claim", "measured", "verdict"):
        table.add_column(column)
    for view in views:
        for check in view.checks:
            table.add_row(view.name, check.claim, check.measured, check.verdict)
    return table


def _numbers(view: View) -> dict[str, Any]:
    checks = [{"claim": c.claim, "measured": c.measured, "verdict": c.verdict, "where": c.where} for c in view.checks]
    rows = [dict(zip(view.columns, (_plain(value) for value in row), strict=True)) for row in view.rows]
    return {"figure": view.name, "title": view.title, "settings": view.settings, "checks": checks, "rows": rows}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
