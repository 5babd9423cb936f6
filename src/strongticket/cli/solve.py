"""``strongticket solve``: draw random subset-sum problems and solve them."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from strongticket.cli.output import Json, progress_bar, show
from strongticket.subsetsum.backends import BACKENDS

BackendName = StrEnum("BackendName", [(name, name) for name in BACKENDS])  # type: ignore[misc]
_DEFAULT = BackendName("numba")
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.99, 1.0)


def command(
    items: Annotated[int, typer.Option(help="How many random products may sum to one target.", min=1)] = 16,
    problems: Annotated[int, typer.Option(help="How many problems to draw and solve.", min=1)] = 100_000,
    seed: Annotated[int, typer.Option(help="The seed that the problems are drawn from.", min=0)] = 0,
    tol: Annotated[float, typer.Option(help="An error that is good enough; 0 asks for the best subset.")] = 0.0,
    threads: Annotated[int | None, typer.Option(help="Threads for numba; every core by default.")] = None,
    backend: Annotated[BackendName, typer.Option(help="What solves the problems.")] = _DEFAULT,
    json: Json = False,
) -> None:
    """Draw random subset-sum problems, solve them exactly, and show speed and error.

    The problems are those of Lemma 4: each item is a product of two weights from U[-1, 1], and each target,
    also from U[-1, 1], is to be hit by the sum of a subset of the items.

    Example: `strongticket solve --items 16 --problems 100000`
    """
    import numpy as np

    from strongticket.parallel import resolve_threads
    from strongticket.subsetsum import solve
    from strongticket.subsetsum.backends import load_backend
    from strongticket.subsetsum.problems import random_problems

    threads = resolve_threads(threads)
    if not load_backend(backend.value).threaded:
        threads = 1
    products, targets = random_problems(problems, items, seed=seed)
    solve(products[:1], targets[:1], tol=tol, threads=1, backend=backend.value)
    start = time.perf_counter()
    with progress_bar("subset sums", problems) as advance:
        solution = solve(products, targets, tol=tol, threads=threads, progress=advance, backend=backend.value)
    seconds = time.perf_counter() - start
    quantiles = dict(zip(_QUANTILES, np.quantile(np.abs(solution.residuals), _QUANTILES).tolist(), strict=True))

    table = Table(title=f"{problems:,} subset sums of {items} items ({backend})", show_header=False)
    table.add_row("problems per second", f"{problems / seconds:,.0f}")
    table.add_row("seconds", f"{seconds:.3f}")
    table.add_row("threads", str(threads))
    for share, value in quantiles.items():
        name = {0.0: "least", 0.5: "median", 1.0: "largest"}.get(share, f"{share:.0%} quantile of")
        table.add_row(f"{name} |residual|", f"{value:.3g}")
    table.add_row("mean |residual|", f"{np.abs(solution.residuals).mean():.3g}")
    table.add_row("density of the masks", f"{solution.masks.mean():.3f}")
    numbers = {
        "items": items,
        "problems": problems,
        "seed": seed,
        "tol": tol,
        "backend": str(backend),
        "threads": threads,
        "seconds": seconds,
        "problems_per_second": problems / seconds,
        "residual_quantiles": {str(share): value for share, value in quantiles.items()},
        "residual_mean": float(np.abs(solution.residuals).mean()),
    }
    show(table, numbers, json)
