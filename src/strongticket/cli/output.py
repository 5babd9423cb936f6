"""What every command shares: the ``--json`` option, tables, progress bars and one-line errors."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead of a table.")]


def show(table: Table, numbers: dict[str, Any], as_json: bool) -> None:
    """Print ``table`` for a person, or ``numbers`` as one JSON object for a program."""
    if as_json:
        typer.echo(json.dumps(numbers, indent=2))
    else:
        Console().print(table)


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error; yields the function that reports how many more are done."""
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn the library's errors about bad input into one line and exit code 2."""
    try:
        yield
    except (ValueError, ImportError, OSError) as error:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
        sys.exit(2)
