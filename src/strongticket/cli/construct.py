"""``strongticket construct``: hide a pretrained transformer in random weights."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path  # noqa: TC003
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from strongticket.cli.output import Json  # noqa: TC001

if TYPE_CHECKING:
    from strongticket.construct import Comparison, ModelReport
    from strongticket.ticket import Ticket

_SAMPLES = 16


def command(
    model: Annotated[
        str, typer.Argument(help="A folder with a BERT or GPT-2 of transformers, or its name on the hub.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the ticket.")],
    items: Annotated[int | None, typer.Option(help="Products per entry of a matrix; 16 by default.")] = None,
    budget: Annotated[
        int | None, typer.Option(help="Instead of items: hidden units in all, spent where they matter most.")
    ] = None,
    tol: Annotated[
        float | None, typer.Option(help="Widen every pair until no entry of its matrix is off by more.")
    ] = None,
    layers: Annotated[str, typer.Option(help="attention, or all linear maps of the blocks.")] = "all",
    seed: Annotated[int, typer.Option(help="The seed of all random weights.", min=0)] = 0,
    refine: Annotated[
        int | None, typer.Option(help="Rounds of the swap search per pair; none by default from 64 columns on.")
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(help="Texts, one per line, whose first 16 show a budget what matters, and the report its errors."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Texts, one per line, on which ticket and model are compared.")
    ] = None,
    mode: Annotated[str, typer.Option(help="How the compared ticket runs: merged (faster) or pruned.")] = "merged",
    report: Annotated[bool, typer.Option(help="Measure every layer.")] = True,
    jobs: Annotated[int | None, typer.Option(help="Pairs solved side by side; every core by default.")] = None,
    cluster: Annotated[str | None, typer.Option(help="dask://HOST:PORT solves the pairs on a Dask cluster.")] = None,
    json: Json = False,
) -> None:
    """Find a pretrained transformer inside random weights that were never trained.

    Every attention head and, with `--layers all`, every linear layer of the blocks becomes two random matrices of
    which only some weights are kept. Finished pairs are stored in `OUT/parts` as they are found: the same command goes
    on where it was stopped. With many items the ticket is larger than the model; `strongticket search` finds small
    ones.

    Example: `strongticket construct ./all-MiniLM-L6-v2 --items 12 --out tickets/minilm --compare texts.txt`
    """
    from strongticket import construct
    from strongticket.cluster import check_cluster, connected
    from strongticket.construct.models.compare import FEWEST_TEXTS, tokenise
    from strongticket.construct.models.loading import load_model, load_tokenizer
    from strongticket.construct.models.parts import Parts
    from strongticket.construct.models.plan import check_choice

    check_choice(items, None, budget, tol)
    check_cluster(cluster)
    if mode not in ("merged", "pruned"):
        raise ValueError(f"mode must be merged or pruned, got {mode!r}")
    if (out / "ticket.safetensors").exists():
        raise ValueError(f"{out} holds a ticket already; give another folder, or remove it")
    texts = {path: _texts(path) for path in (samples, compare) if path is not None}
    if compare is not None and len(texts[compare]) < FEWEST_TEXTS:
        raise ValueError(f"{compare} must hold at least {FEWEST_TEXTS} texts to compare, got {len(texts[compare])}")
    original = load_model(model)
    tokenizer = load_tokenizer(model) if texts else None
    shown = samples if samples is not None else compare
    inputs = None if shown is None else tokenise(tokenizer, texts[shown][:_SAMPLES], original)

    start = perf_counter()
    parts = Parts(out / "parts")
    with connected(cluster) if cluster is not None else nullcontext():
        ticket = construct.model(
            original,
            items=items,
            budget=budget,
            tol=tol,
            samples=inputs if budget is not None else None,
            seed=seed,
            layers=layers,
            refine=refine,
            folder=parts.folder,
            workers=jobs,
            backend="threading" if cluster is None else "dask",
            progress="bar",
        )
    ticket.save_pretrained(out)
    parts.remove()
    seconds = perf_counter() - start
    measured = construct.model_report(original, ticket, inputs) if report else None
    compared = None
    if compare is not None:
        compared = construct.compare_models(original, ticket.module(mode), tokenizer, texts[compare])
    numbers = _numbers(original, ticket, out, seconds)
    _show(numbers, measured, compared, json)


def _texts(path: Path) -> list[str]:
    found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not found:
        raise ValueError(f"{path} must hold texts, one per line, but is empty")
    return found


def _numbers(original: Any, ticket: Ticket, out: Path, seconds: float) -> dict[str, Any]:
    shapes = [(ticket.entries[p.second].source.shape[0], ticket.entries[p.first].source.shape[1]) for p in ticket.pairs]
    entries = sum(rows * columns for rows, columns in shapes)
    return {
        "ticket": str(out),
        "pairs": len(ticket.pairs),
        "entries": entries,
        "units": sum(ticket.finder["units"].values()),
        "random_weights": sum(entry.source.size for entry in ticket.entries.values()),
        "seconds": seconds,
        "entries_per_second": entries / seconds,
        "max_error": max(ticket.finder["max_error"].values()),
        "bytes": sum(path.stat().st_size for path in out.iterdir() if path.is_file()),
        "bytes_of_model": sum(p.numel() * p.element_size() for p in original.parameters()),
    }


def _show(numbers: dict[str, Any], measured: ModelReport | None, compared: Comparison | None, as_json: bool) -> None:
    if as_json:
        import json

        parts = {"report": measured, "comparison": compared}
        found = numbers | {name: part.to_dict() for name, part in parts.items() if part is not None}
        typer.echo(json.dumps(found, indent=2))
        return
    console = Console()
    if measured is not None:
        console.print(measured)
    if compared is not None:
        console.print(compared)
    console.print(
        f"{numbers['pairs']:,} pairs, {numbers['entries']:,} entries in {numbers['seconds']:.1f} s "
        f"({numbers['entries_per_second']:,.0f} per second), largest entry error {numbers['max_error']:.2e}\n"
        f"{numbers['bytes']:,} bytes in {numbers['ticket']}, {numbers['bytes_of_model']:,} in the model",
        highlight=False,
        soft_wrap=True,
    )
