"""``strongticket ticket``: look at tickets, check, compare and export them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from strongticket.cli.output import Json, show

if TYPE_CHECKING:
    from strongticket.ticket import Ticket

app = typer.Typer(no_args_is_help=True, help="Look at tickets, check, compare and export them.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a ticket.")]
MaxBytes = Annotated[
    int | None, typer.Option(help="Refuse models that take more bytes in memory than this; 8 GiB by default.", min=0)
]


@app.command("show")
def show_command(folder: Folder, max_bytes: MaxBytes = None, json: Json = False) -> None:
    """Show what a ticket holds: architecture, sources, density of every mask, bytes and digests.

    Example: `strongticket ticket show runs/x`
    """
    ticket = _load(folder, verify=False, max_bytes=max_bytes)
    density, size = ticket.density(), ticket.size()
    masks = [
        {
            "name": name,
            "shape": list(entry.source.shape),
            "law": entry.source.law.to_dict(),
            "seed": entry.source.seed,
            "source": entry.source.name,
            "encoding": _spec(ticket).masks[name].encoding,
            "count": entry.count,
            "density": density[name],
            "source_digest": _spec(ticket).masks[name].digest,
        }
        for name, entry in ticket.entries.items()
    ]
    kept = {name: list(array.shape) for name, array in ticket.kept.items()}
    table = Table(
        title=f"{folder}: {_architecture(ticket)}, found by {ticket.finder['name']}",
        caption=f"density {density['all']:.4f} of {sum(e.source.size for e in ticket.entries.values()):,} weights; "
        f"{len(kept)} parameters kept\n{size.ticket:,} bytes ({size.bits_per_weight:.3f} bit per weight) against "
        f"{size.float32:,} as float32 and {size.float16:,} as float16\ndigest {ticket.digest}",
    )
    for column in ("mask", "shape", "law", "seed", "stored as", "density", "source digest"):
        table.add_column(column, justify="right" if column in ("seed", "density") else "left")
    for mask in masks:
        law = " ".join(str(value) for value in mask["law"].values())
        shape = "x".join(map(str, mask["shape"]))
        digest = mask["source_digest"][:12]
        table.add_row(mask["name"], shape, law, str(mask["seed"]), mask["encoding"], f"{mask['density']:.4f}", digest)
    numbers = {
        "architecture": ticket.architecture,
        "finder": ticket.finder,
        "masks": masks,
        "kept": kept,
        "density": density["all"],
        "bytes": {"ticket": size.ticket, "float32": size.float32, "float16": size.float16},
        "bits_per_weight": size.bits_per_weight,
        "digest": ticket.digest,
    }
    show(table, numbers, json)


@app.command("verify")
def verify_command(folder: Folder, max_bytes: MaxBytes = None, json: Json = False) -> None:
    """Draw every source again, compare digests and counts, and redo the errors of constructed tickets.

    Example: `strongticket ticket verify runs/x`
    """
    from strongticket.ticket import TicketError

    report = _load(folder, verify=False, max_bytes=max_bytes).verify()
    if not report.ok and not json:
        raise TicketError(str(folder), f"does not verify: {', '.join(report.failed)}")
    table = Table(title=f"{folder}: verified", caption="\n".join(report.notes), show_header=False)
    table.add_row("sources drawn and compared", str(len(report.masks)))
    table.add_row("masks counted", str(len(report.masks)))
    if report.pairs:
        table.add_row("pairs recomputed", str(len(report.pairs)))
        table.add_row("largest error of an entry", f"{report.max_error:.3g}")
    show(table, report.to_dict(), json)
    if not report.ok:
        raise typer.Exit(2)


@app.command("diff")
def diff_command(
    a: Annotated[Path, typer.Argument(metavar="A", help="The folder of a ticket.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The folder of another.")],
    max_bytes: MaxBytes = None,
    json: Json = False,
) -> None:
    """Show which masks, sources and kept parameters of two tickets differ.

    Example: `strongticket ticket diff runs/x runs/y`
    """
    from strongticket.ticket.compare import compare

    found = compare(*(_load(folder, verify=False, max_bytes=max_bytes) for folder in (a, b)))
    other = [
        f"{what}: {', '.join(names)}"
        for what, names in (("architecture", found.architecture), ("finder", found.finder))
        if names
    ]
    table = Table(
        title=f"A = {a}, B = {b}: " + ("the same model" if found.same else "different models"),
        caption="\n".join(f"different {line}" for line in other),
    )
    for column in ("what", "differs in", "weights kept in one only"):
        table.add_column(column, justify="right" if column.startswith("weights") else "left")
    for mask in found.masks:
        if mask.status != "same":
            count = "" if mask.differing is None else f"{mask.differing:,} of {mask.weights:,}"
            table.add_row(mask.name, mask.status, count)
    for name, status in found.kept.items():
        if status != "same":
            table.add_row(name, status, "")
    show(table, found.to_dict(), json)


@app.command("export")
def export_command(
    folder: Folder,
    to: Annotated[Path, typer.Option("--to", help="A new folder for the dense model.")],
    max_bytes: MaxBytes = None,
) -> None:
    """Write the dense model: for Hugging Face models a folder that `transformers` loads without strongticket.

    Example: `strongticket ticket export runs/x --to model`
    """
    from strongticket.ticket.export import export

    ticket = _load(folder, verify=True, max_bytes=max_bytes)
    export(ticket, to)
    typer.echo(f"wrote {_architecture(ticket)} to {to}")


def _load(folder: Path, *, verify: bool, max_bytes: int | None) -> Ticket:
    from strongticket.ticket import Ticket, TicketError
    from strongticket.ticket.loading import MAX_BYTES

    if not folder.is_dir():
        raise TicketError(str(folder), "is no folder")
    limit = MAX_BYTES if max_bytes is None else max_bytes
    return Ticket.from_pretrained(folder, verify=verify, max_bytes=limit)


def _spec(ticket: Ticket) -> Any:
    assert ticket._loaded is not None
    return ticket._loaded.spec


def _architecture(ticket: Ticket) -> str:
    architecture = ticket.architecture
    return architecture.get("class", architecture["kind"])
