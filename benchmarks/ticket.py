"""How fast a ticket of GPT-2-small size becomes weights, and how many bytes it takes, on one core.

The ticket has the parameters of GPT-2 small: 124 million weights N(0, 0.02) masked at density 0.30, the fused
projection c_attn of three sources, biases and LayerNorm kept. All in one run, in turns, in CPU time; each is given
its best turn:

* normal: ``torch.empty(n).normal_()`` for as many values as the ticket has weights, and the same in memory that is
  already there (the target, the smaller of the two);
* weights: draw every source, unpack and apply every mask, in new arrays;
* load: the same after reading the files and checking the digest of masks and kept parameters;
* verified: the same after drawing every source once more and comparing its digest, as ``from_pretrained`` does.

    python benchmarks/ticket.py [--layers N] [--rounds R]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import tempfile
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from strongticket.source import Normal, Source
from strongticket.ticket import Entry, Part, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).resolve().parent.parent / "results" / "ticket.json"
DENSITY, WIDTH, VOCABULARY, POSITIONS = 0.30, 768, 50257, 1024
LIMIT = -(DENSITY * math.log2(DENSITY) + (1 - DENSITY) * math.log2(1 - DENSITY))


def gpt2_ticket(layers: int) -> Ticket:
    entries: dict[str, Entry] = {}
    kept: dict[str, np.ndarray] = {}
    generator = np.random.Generator(np.random.Philox(0))

    def masked(name: str, shape: tuple[int, int], part: Part | None = None) -> None:
        mask = generator.random(shape, dtype=np.float32) < DENSITY
        entries[name] = Entry.of(Source(0, name, shape, Normal(0.02)), mask, part)

    masked("transformer.wte.weight", (VOCABULARY, WIDTH))
    masked("transformer.wpe.weight", (POSITIONS, WIDTH))
    for layer in range(layers):
        at = f"transformer.h.{layer}"
        for place, piece in enumerate(("query", "key", "value")):
            fused = Part(f"{at}.attn.c_attn.weight", 1, place * WIDTH)
            masked(f"{at}.attn.c_attn.weight/{piece}", (WIDTH, WIDTH), fused)
        masked(f"{at}.attn.c_proj.weight", (WIDTH, WIDTH))
        masked(f"{at}.mlp.c_fc.weight", (WIDTH, 4 * WIDTH))
        masked(f"{at}.mlp.c_proj.weight", (4 * WIDTH, WIDTH))
        for name, size in (("attn.c_attn", 3), ("attn.c_proj", 1), ("mlp.c_fc", 4), ("mlp.c_proj", 1)):
            kept[f"{at}.{name}.bias"] = np.zeros(size * WIDTH, np.float32)
    for norm in [f"h.{layer}.{name}" for layer in range(layers) for name in ("ln_1", "ln_2")] + ["ln_f"]:
        kept[f"transformer.{norm}.weight"] = np.ones(WIDTH, np.float32)
        kept[f"transformer.{norm}.bias"] = np.zeros(WIDTH, np.float32)
    architecture = {
        "kind": "huggingface",
        "class": "GPT2LMHeadModel",
        "config": {"n_layer": layers},
        "tied": {"lm_head.weight": "transformer.wte.weight"},
    }
    return Ticket(entries, kept, architecture, {"name": "benchmark"})


def best_times(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = process_time()
            run()
            if turn:
                best[name] = min(best[name], process_time() - start)
    return best


def measure(layers: int, rounds: int) -> dict[str, object]:
    ticket = gpt2_ticket(layers)
    weights = sum(entry.source.size for entry in ticket.entries.values())
    kept = sum(array.nbytes for array in ticket.kept.values())
    with tempfile.TemporaryDirectory() as folder:
        plain, small = Path(folder, "plain"), Path(folder, "small")
        ticket.save_pretrained(plain)
        ticket.save_pretrained(small, compress=True)
        sizes = {p.name: sum(f.stat().st_size for f in p.iterdir()) for p in (plain, small)}
        coded = sum(place.nbytes for place in _tensors(small) if place.dtype == "U32")
        ready = torch.zeros(weights)
        runs: dict[str, Callable[[], object]] = {
            "normal, new memory": lambda: torch.empty(weights).normal_(),
            "normal, ready memory": lambda: ready.normal_(),
            "weights": ticket.parameters,
            "load": lambda: Ticket.from_pretrained(plain, verify=False).parameters(),
            "load, compressed": lambda: Ticket.from_pretrained(small, verify=False).parameters(),
            "verified": lambda: Ticket.from_pretrained(plain).parameters(),
        }
        seconds = best_times(runs, rounds)
    peer = min(seconds["normal, new memory"], seconds["normal, ready memory"])
    return {
        "weights": weights,
        "seconds": seconds,
        "ratio_to_normal": {name: value / peer for name, value in seconds.items()},
        "bytes": sizes | {"float32": 4 * weights + kept},
        "bits_per_weight": {
            "plain": 8 * sizes["plain"] / weights,
            "compressed": 8 * sizes["small"] / weights,
            "compressed, masks only": 8 * coded / weights,
            "limit": LIMIT,
        },
    }


def _tensors(folder: Path) -> list:
    from strongticket.ticket.files import TENSORS, open_tensors

    with open_tensors(folder / TENSORS) as file:
        return list(file.tensors.values())


def show(result: dict, console: Console) -> None:
    table = Table(title=f"A ticket of {result['weights']:,} weights, one core")
    for column in ("what", "seconds", "÷ normal_()", "target"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name, seconds in result["seconds"].items():
        ratio = result["ratio_to_normal"][name]
        target = "≤ 1" if name in ("weights", "load") else ""
        shown = f"[red]{ratio:.2f}[/]" if target and ratio > 1 else f"{ratio:.2f}"
        table.add_row(name, f"{seconds:.3f}", shown, target)
    console.print(table)
    table = Table(title="Bits per weight, everything in both files")
    for column in ("what", "bits", "target"):
        table.add_column(column, justify="left" if column == "what" else "right")
    targets = {"plain": "< 1.005", "compressed": "≤ 0.886", "compressed, masks only": "≤ 0.886"}
    for name, bits in result["bits_per_weight"].items():
        table.add_row(name, f"{bits:.4f}", targets.get(name, ""))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    result = measure(options.layers, options.rounds)
    show(result, console)
    versions = {"python": platform.python_version(), "numpy": np.__version__, "torch": torch.__version__}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": platform.machine(), "versions": versions} | result, indent=2) + "\n")
    console.print(f"written to {RESULTS.relative_to(RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
