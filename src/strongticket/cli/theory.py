"""``strongticket theory``: how wide must a source be, in theory and in practice?"""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer
from rich.table import Table

from strongticket.cli.output import Json, show
from strongticket.cli.practice import WidthRow, calibration_dict, compare, holds, solving

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "How wide must a random source be to contain a given network, and how far does softmax move?\n\n"
        "The theorems ask for d·C·log(A) hidden units: one subset-sum problem with C·log(A) items for each "
        "target weight. C is a universal constant that the paper leaves open; here it is measured as well, "
        "by solving random problems exactly."
    ),
)

Eps = Annotated[float, typer.Option("--eps", help="The output error to reach, and the probability to miss it.")]
Dim = Annotated[int, typer.Option("--d", help="The input dimension d1.")]
DimOut = Annotated[int | None, typer.Option("--d-out", help="The output dimension d2; as --d if left out.")]
Heads = Annotated[int, typer.Option("--heads", help="The number H of attention heads.")]
Alpha = Annotated[
    float | None,
    typer.Option("--alpha", help="The largest norm of an input vector; the smallest allowed, √d, if left out."),
]
Constant = Annotated[float, typer.Option("--C", help="The universal constant C of the theorems.")]
Problems = Annotated[
    int,
    typer.Option("--problems", min=0, help="Subset sums to solve per number of items; 0 leaves practice out."),
]


@app.command()
def attention(
    d: Dim = 64,
    d_out: DimOut = None,
    heads: Heads = 8,
    eps: Eps = 0.01,
    alpha: Alpha = None,
    C: Constant = 1.0,
    problems: Problems = 10_000,
    as_json: Json = False,
) -> None:
    """Widths n_K and n_V of one multi-head attention layer (Theorem 3).

    n_K ≥ d1·C·log(8·H·α³·d1^{3/2}/ε) for queries and keys,
    n_V ≥ d1·C·log(2·H·α·d1·√d2/ε) for values and output.
    """
    from strongticket.theory import attention_widths

    widths = attention_widths(d1=d, d2=d_out, heads=heads, eps=eps, alpha=alpha, C=C)
    rows = [
        WidthRow(name, name, units, d, widths.items[name], widths.log_argument[name])
        for name, units in (("n_K", widths.n_K), ("n_V", widths.n_V))
    ]
    title = f"Theorem 3: attention, d={d}, H={heads}, ε={eps:g}, α={widths.alpha:.4g}, C={C:g}"
    table, practice = compare(title, rows, problems)
    table.caption = holds(widths.probability, widths.printed_probability) + str(table.caption or "")
    numbers = {
        "n_K": widths.n_K,
        "n_V": widths.n_V,
        "probability": widths.probability,
        "printed_probability": widths.printed_probability,
        "exact": widths.exact,
        "items": widths.items,
        "practice": practice,
    }
    show(table, numbers, as_json)


@app.command()
def transformer(
    d: Dim = 64,
    heads: Heads = 8,
    blocks: Annotated[int, typer.Option("--blocks", help="The number B of blocks, at least 2.")] = 4,
    eps: Eps = 0.01,
    alpha: Alpha = None,
    layers: Annotated[int, typer.Option("--layers", help="Layers L of the target's fully-connected part.")] = 1,
    C: Constant = 1.0,
    corrected: Annotated[
        bool,
        typer.Option("--corrected", help="Use 17 in place of 16, which the proof of Lemma 13 supports."),
    ] = False,
    problems: Problems = 10_000,
    as_json: Json = False,
) -> None:
    """Widths n_K = n_V and n_FC of every block of a transformer without normalization (Theorem 6).

    Errors grow from block to block, so the first blocks must be far more accurate: the ε of block b is
    divided by the product of 16·H·√d·β_j² over the later blocks, with β_j = α·(4·H·√d)^{j-1}.
    """
    from strongticket.theory import transformer_widths

    widths = transformer_widths(
        d=d, heads=heads, blocks=blocks, eps=eps, alpha=alpha, layers=layers, C=C, corrected=corrected
    )
    rows = []
    for b, block in enumerate(widths.blocks, start=1):
        for name, key, units in (("n_K = n_V", "n_MHA", block.n_MHA), ("n_FC", "n_FC", block.n_FC)):
            label = f"block {b}: {name}"
            rows.append(WidthRow(label, f"{key} {b}", units, d, block.items[key], block.log_argument[key]))
    title = f"Theorem 6: {blocks} blocks, d={d}, H={heads}, ε={eps:g}, α={widths.alpha:.4g}, C={C:g}"
    table, practice = compare(f"{title}, constant {widths.constant}", rows, problems)
    table.caption = holds(widths.probability, widths.printed_probability) + str(table.caption or "")
    numbers = {
        "blocks": [
            {
                "n_K": block.n_MHA,
                "n_V": block.n_MHA,
                "n_FC": block.n_FC,
                "exact": {
                    "n_K": block.exact["n_MHA"],
                    "n_V": block.exact["n_MHA"],
                    "n_FC": block.exact["n_FC"],
                },
            }
            for block in widths.blocks
        ],
        "probability": widths.probability,
        "printed_probability": widths.printed_probability,
        "constant": widths.constant,
        "practice": practice,
    }
    show(table, numbers, as_json)


@app.command()
def network(
    dims: Annotated[list[int], typer.Argument(help="Layer sizes of the target: input, hidden …, output.")],
    eps: Eps = 0.01,
    alpha: Annotated[float, typer.Option("--alpha", help="The largest norm of an input, at least 1.")] = 1.0,
    C: Constant = 1.0,
    problems: Problems = 10_000,
    as_json: Json = False,
) -> None:
    """Widths n_FC of a ReLU network, one per target layer (Theorem 10).

    n_l ≥ d_l·C·log(4·L·d_l·d_{l+1}/ε); the output error is exp(α·ε/2) - 1.
    """
    from strongticket.theory import network_widths

    widths = network_widths(dims=dims, eps=eps, alpha=alpha, C=C)
    rows = [
        WidthRow(f"layer {n}: n_FC", f"n_FC {n}", units, d, items, log)
        for n, (units, d, items, log) in enumerate(
            zip(widths.n_FC, dims[:-1], widths.items, widths.log_argument, strict=True), start=1
        )
    ]
    sizes = " → ".join(map(str, dims))
    table, practice = compare(f"Theorem 10: {sizes}, ε={eps:g}, α={alpha:g}, C={C:g}", rows, problems)
    missed = 1 - widths.probability
    table.caption = f"error at most {widths.error:.4g} with probability 1 - {missed:.3g}\n" + str(table.caption or "")
    numbers = {
        "n_FC": list(widths.n_FC),
        "error": widths.error,
        "probability": widths.probability,
        "exact": {"n_FC": list(widths.exact)},
        "practice": practice,
    }
    show(table, numbers, as_json)


@app.command()
def softmax(
    shift: Annotated[float, typer.Option("--shift", help="How far any logit moves, at most.")] = 0.1,
    d: Dim = 64,
    alpha: Alpha = None,
    as_json: Json = False,
) -> None:
    """How far attention weights, and the average they take, can move when the logits move.

    The weights move by at most tanh(shift/2) in total variation, which is attained; the paper's Lemmas 5 and
    8 are shown beside it. All hold for every length and every attention mask.
    """
    from strongticket.theory import lemma_5_bound, lemma_8_bound, softmax_output_bound, total_variation_bound

    norm = math.sqrt(max(d, 0)) if alpha is None else alpha
    numbers: dict[str, Any] = {
        "shift": shift,
        "d": d,
        "alpha": norm,
        "total_variation": total_variation_bound(shift),
        "output": softmax_output_bound(shift, alpha=norm),
        "lemma_5": lemma_5_bound(shift, d1=d, alpha=norm) if shift <= 0.5 else None,
        "lemma_8": lemma_8_bound(shift, d1=d, alpha=norm),
    }
    table = Table(title=f"Softmax whose logits move by at most e = {shift:g}; d={d}, ‖x‖ ≤ α = {norm:.4g}")
    table.add_column("bound")
    table.add_column("value", justify="right")
    for name, key in (
        ("total variation of the weights, attained: tanh(e/2)", "total_variation"),
        ("‖(p - p')X‖: 2·α·tanh(e/2)", "output"),
        ("the same by Lemma 5: 4·√d1·α·e", "lemma_5"),
        ("the same by Lemma 8: √d1·α·(exp(2e) - 1)", "lemma_8"),
    ):
        value = numbers[key]
        table.add_row(name, "assumes e ≤ 1/2" if value is None else f"{value:.6g}")
    show(table, numbers, as_json)


@app.command()
def calibrate(
    eps: Annotated[list[float] | None, typer.Option("--eps", help="Error per weight; repeat for several.")] = None,
    failure: Annotated[
        float | None, typer.Option("--failure", help="The probability to miss it; ε if left out.")
    ] = None,
    problems: Annotated[int, typer.Option("--problems", help="Random subset sums per number of items.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random problems.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure C: how many items does a random subset sum need? For products U·U and for single U.

    Random problems are solved exactly, with more and more items, until the share of failures is below the
    wanted one with 95 % confidence. C = items / log(1/min(ε, failure)).
    """
    from strongticket.theory import calibrate_C

    found = []
    wanted = [0.1, 0.03, 0.01] if eps is None else eps
    with solving() as progress:
        for law in ("U*U", "U"):
            for value in wanted:
                found.append(
                    calibrate_C(eps=value, failure=failure, law=law, problems=problems, seed=seed, progress=progress)
                )
    table = Table(title=f"Items per target weight, from {problems} problems per number of items")
    for column in ("law", "ε", "failure", "items", "95 % interval", "C", "C interval", "items with C = 1"):
        table.add_column(column, justify="left" if column == "law" else "right")
    for one in found:
        table.add_row(
            one.law,
            f"{one.eps:g}",
            f"{one.failure:g}",
            str(one.items),
            f"{one.items_lower} … {one.items_upper}",
            f"{one.C:.2f}",
            f"{one.C_lower:.2f} … {one.C_upper:.2f}",
            str(one.theory_items),
        )
    numbers = {"problems": problems, "seed": seed, "calibrations": [calibration_dict(one) for one in found]}
    show(table, numbers, as_json)
