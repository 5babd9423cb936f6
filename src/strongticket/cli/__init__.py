"""The command ``strongticket``: one module per command, each a thin layer over the library."""

from __future__ import annotations

from typing import Annotated

import typer

import strongticket
from strongticket.cli import construct, demo, generate, report, reproduce, results, search, solve, theory, ticket
from strongticket.cli.output import report_errors

app = typer.Typer(
    name="strongticket",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Find strong lottery tickets: subnetworks of random, never trained networks that already do the job.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"strongticket {strongticket.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None: ...


app.command("demo")(demo.command)
app.command("reproduce")(reproduce.command)
app.command("results")(results.command)
app.command("report")(report.command)
app.command("construct")(construct.command)
app.command("search")(search.command)
app.command("generate")(generate.command)
app.command("solve")(solve.command)
app.add_typer(theory.app, name="theory")
app.add_typer(ticket.app, name="ticket")


def main() -> None:
    """Run the command line; a mistake in the input ends in one line on standard error and exit code 2."""
    with report_errors():
        app()
