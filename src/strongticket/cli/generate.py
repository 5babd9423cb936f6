"""``strongticket generate``: write text with a ticket."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003
from typing import Annotated

import typer

from strongticket.cli.output import Json  # noqa: TC001


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A ticket, or the run it came from.")],
    prompt: Annotated[str, typer.Option(help="The text to go on from.")],
    tokens: Annotated[int, typer.Option(help="How many tokens to write.", min=1)] = 64,
    temperature: Annotated[float, typer.Option(help="Randomness of the choice; 0 takes the likeliest.", min=0.0)] = 0.8,
    seed: Annotated[int, typer.Option(help="The seed of the choices.", min=0)] = 0,
    json: Json = False,
) -> None:
    """Write text with a ticket.

    Example: `strongticket generate runs/tiny/ticket --prompt "The statement"`
    """
    from json import dumps

    from strongticket.search.generation import generate

    text = generate(folder, prompt, tokens=tokens, temperature=temperature, seed=seed)
    typer.echo(dumps({"prompt": prompt, "text": text}, indent=2) if json else text)
