"""``strongticket search``: find a ticket in a random transformer."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003
from typing import Annotated, Any

import typer
from rich.table import Table

from strongticket.cli.output import Json, show


def command(
    out: Annotated[Path, typer.Option(help="An empty or new folder for the run; the ticket goes to OUT/ticket.")],
    model: Annotated[
        str, typer.Option(help="gpt2-tiny, gpt2-mini, gpt2-small, gpt2-medium or a folder.")
    ] = "gpt2-mini",
    corpus: Annotated[
        str, typer.Option(help="embedded, file:PATH[,PATH...], wikitext-2 or wikitext-103.")
    ] = "embedded",
    held_out: Annotated[str | None, typer.Option(help="file:PATH with held-out text of its own.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="bpe:SIZE, gpt2 or a folder.")] = None,
    density: Annotated[float, typer.Option(help="The fraction of weights to keep, in (0, 1].")] = 0.3,
    qk_scale: Annotated[str, typer.Option(help="Factor on query and key weights: a number or theory.")] = "theory",
    recipe: Annotated[str, typer.Option(help="paper, best or sigmoid.")] = "best",
    preset: Annotated[str, typer.Option(help="paper (50 × 227 steps of 512 sequences) or laptop.")] = "laptop",
    seed: Annotated[int, typer.Option(help="The seed of weights, scores and data order.", min=0)] = 0,
    layers: Annotated[int | None, typer.Option(help="Instead of the model's number of layers.")] = None,
    width: Annotated[int | None, typer.Option(help="Instead of the model's width.")] = None,
    heads: Annotated[int | None, typer.Option(help="Instead of the model's number of heads.")] = None,
    finder: Annotated[str | None, typer.Option(help="Instead of the recipe's: edge-popup or sigmoid.")] = None,
    init: Annotated[
        str | None, typer.Option(help="Instead of the recipe's: gpt2, gpt2-matched, signed, uniform.")
    ] = None,
    score_init: Annotated[str | None, typer.Option(help="Instead of the recipe's: kaiming or weight.")] = None,
    selection: Annotated[str | None, typer.Option(help="Instead of the recipe's: layer or global.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens per sequence.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps in all.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Steps of linear warm-up.")] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences per step, over all processes.")] = None,
    micro_batch: Annotated[int | None, typer.Option(help="Sequences that a process takes at a time.")] = None,
    lr: Annotated[float | None, typer.Option(help="The largest learning rate.")] = None,
    lr_end: Annotated[float | None, typer.Option(help="The learning rate at the end.")] = None,
    dense_lr: Annotated[float | None, typer.Option(help="The largest learning rate of dense training.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Dropout while searching.")] = None,
    every: Annotated[int | None, typer.Option(help="Steps between evaluations and checkpoints.")] = None,
    weight_decay: Annotated[float, typer.Option(help="Decoupled decay of the scores.")] = 0.0,
    with_dense: Annotated[bool, typer.Option("--with-dense", help="Train all weights too, for comparison.")] = False,
    bf16: Annotated[bool, typer.Option("--bf16", help="Autocast to bfloat16.")] = False,
    compile: Annotated[bool, typer.Option("--compile", help="Run the model through torch.compile.")] = False,
    threads: Annotated[int | None, typer.Option(help="Threads of each process; torch's choice by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in OUT.")] = False,
    json: Json = False,
) -> None:
    """Find a ticket in a random transformer by learning which weights to keep.

    The weights of the model stay random; a finder learns which of them to keep so that the rest predicts text.
    The run ends in a ticket that holds a seed and one bit per weight.

    Example: `strongticket search --model gpt2-tiny --corpus embedded --out runs/tiny`

    Many processes: `torchrun --nproc-per-node 2 -m strongticket search …`
    """
    options = {name: value for name, value in locals().items() if name not in ("out", "threads", "resume", "json")}
    import torch

    from strongticket.search.run import run_search
    from strongticket.search.settings import SearchSettings, is_first_process

    if threads is not None:
        torch.set_num_threads(threads)
    if qk_scale != "theory":
        try:
            options["qk_scale"] = float(qk_scale)
        except ValueError:
            raise ValueError(f"--qk-scale takes a number or 'theory', got {qk_scale!r}") from None
    numbers = run_search(SearchSettings(**options), out, resume=resume)
    if is_first_process():
        show(_table(numbers), numbers, json)


def _table(numbers: dict[str, Any]) -> Table:
    settings = numbers["settings"]
    title = f"{settings['model']} on {settings['corpus']}, {settings['recipe']} recipe, {settings['steps']} steps"
    table = Table("", "loss", "perplexity", title=title)
    for label, key in (("ticket", ""), ("random, unpruned", "_unpruned"), ("dense training", "_dense")):
        loss = numbers[f"loss{key}"]
        if loss is not None:
            table.add_row(label, f"{loss:.4f}", f"{numbers[f'perplexity{key}']:,.1f}")
    table.add_section()
    table.add_row("density", f"{numbers['density']:.6f}", "")
    for name, density in numbers["density_by_layer"].items():
        table.add_row(f"  {name}", f"{density:.4f}", "")
    table.add_section()
    for role, counted in numbers["roles"].items():
        table.add_row(role, f"{counted['weights']:,} weights", f"{counted['tensors']} tensors")
    table.add_row("ticket", f"{numbers['bytes']:,} bytes", f"{numbers['bytes_float32']:,} as float32")
    table.add_row("", numbers["ticket"], "")
    return table
