"""What models of the size of GPT-2 small and of BERT base cost as tickets: time, bytes, memory and errors.

One block of GPT-2 small (d = 768, 12 heads) with its embeddings is constructed and saved, each number of items in a
process of its own. The 12 blocks have the same shapes, so the whole model takes 12 times the block's time and masks;
embeddings are kept once. The weights are random, N(0, 0.14²) with biases N(0, 0.1²), to be about as large as trained
ones; the range follows their size, but outliers, which trained ones may have, are missing. With --bert-base a random
BERT base, all of its 12 blocks, goes through the command ``strongticket construct``, and its peak resident memory is
taken when it ends.

    python benchmarks/construct_gpt2.py [--items 12 16] [--bert-base]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
import transformers
from rich.console import Console
from rich.table import Table

from strongticket import construct

RESULTS = Path(__file__).resolve().parent.parent / "results" / "construct_gpt2.json"
BLOCKS, WEIGHTS, BIASES = 12, 0.14, 0.1
BERT_ITEMS, BERT_MEMORY = 12, 4e9


def randomise(model: Any) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, WEIGHTS if parameter.ndim > 1 else BIASES)
    return model.eval()


def measure_block(items: int) -> dict[str, Any]:
    small = {"n_layer": 1, "n_embd": 64, "n_head": 1, "vocab_size": 8, "bos_token_id": None, "eos_token_id": None}
    construct.model(transformers.GPT2Model(transformers.GPT2Config(**small)), items=items, layers="all")
    model = randomise(transformers.GPT2Model(transformers.GPT2Config(n_layer=1)))
    start = perf_counter()
    ticket = construct.model(model, items=items, layers="all")
    found = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        ticket.save_pretrained(folder)
        saved = perf_counter()
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        masks = mask_bytes(Path(folder))
    shapes = [(ticket.entries[p.second].source.shape[0], ticket.entries[p.first].source.shape[1]) for p in ticket.pairs]
    entries = sum(rows * columns for rows, columns in shapes)
    embeddings = 4 * (model.wte.weight.numel() + model.wpe.weight.numel())
    whole = BLOCKS * (size - embeddings) + embeddings
    return {
        "items": items,
        "entries": entries,
        "seconds": saved - start,
        "entries_per_second": entries / (saved - start),
        "masks": masks,
        "kept": size - masks,
        "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "max_error": max(ticket.finder["max_error"].values()),
        "relative_error": float(np.sqrt(np.mean(np.square(list(ticket.finder["relative_error"].values()))))),
        "model_seconds": BLOCKS * (found - start) + (saved - found) * whole / size,
        "model_masks": BLOCKS * masks,
        "model_bytes": whole,
    }


def mask_bytes(folder: Path) -> int:
    with open(folder / "ticket.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    spans = [about["data_offsets"] for name, about in header.items() if name.startswith("masks/")]
    return sum(end - start for start, end in spans)


def original_bytes() -> int:
    with torch.device("meta"):
        model = transformers.GPT2Model(transformers.GPT2Config())
    return sum(4 * parameter.numel() for parameter in model.parameters())


def measure_bert(console: Console) -> dict[str, Any]:
    """The whole command in a process of its own, and what the system says about it when it ends."""
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        randomise(transformers.BertModel(transformers.BertConfig())).save_pretrained(folder / "model")
        settings = ("--items", str(BERT_ITEMS), "--layers", "all", "--out", str(folder / "ticket"), "--no-report")
        command = [sys.executable, "-m", "strongticket", "construct", str(folder / "model"), *settings, "--json"]
        start = perf_counter()
        with open(folder / "out.json", "w") as out:
            process = subprocess.Popen(command, stdout=out)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = perf_counter() - start
        if process.returncode:
            sys.exit(f"strongticket construct ended with {process.returncode}")
        numbers = json.loads((folder / "out.json").read_text())
    row = {"items": BERT_ITEMS, "seconds": seconds, "peak": 1024 * usage.ru_maxrss}
    row |= {key: numbers[key] for key in ("pairs", "entries", "max_error", "bytes", "bytes_of_model")}
    verdict = "under" if row["peak"] < BERT_MEMORY else "OVER"
    console.print(
        f"BERT base, {BERT_ITEMS} items: {row['pairs']} pairs, {row['entries'] / 1e6:.1f} M entries "
        f"in {seconds:.0f} s, peak memory {row['peak'] / 1e9:.2f} GB ({verdict} 4 GB), "
        f"largest entry error {row['max_error']:.1e}, {row['bytes'] / 1e6:.0f} MB of files for "
        f"{row['bytes_of_model'] / 1e6:.0f} MB of weights",
        highlight=False,
        soft_wrap=True,
    )
    return row


def show(console: Console, rows: list[dict[str, Any]], original: int) -> None:
    table = Table(title="GPT-2 small, one block, and 12 from it")
    table.add_column("")
    for row in rows:
        table.add_column(f"{row['items']} items", justify="right")
    lines = {
        "entries": lambda row: f"{row['entries'] / 1e6:.1f} M",
        "time": lambda row: f"{row['seconds']:.1f} s",
        "entries per second": lambda row: f"{row['entries_per_second'] / 1e6:.2f} M",
        "masks": lambda row: f"{row['masks'] / 1e6:.1f} MB",
        "kept (embeddings, norms)": lambda row: f"{row['kept'] / 1e6:.1f} MB",
        "peak memory": lambda row: f"{row['peak'] / 1e9:.2f} GB",
        "largest entry error": lambda row: f"{row['max_error']:.1e}",
        "relative error": lambda row: f"{row['relative_error']:.1e}",
        "12 blocks: time": lambda row: f"{row['model_seconds'] / 60:.1f} min",
        "12 blocks: masks": lambda row: f"{row['model_masks'] / 1e6:.0f} MB",
        "12 blocks: files": lambda row: f"{row['model_bytes'] / 1e6:.0f} MB",
        "files ÷ model in float32": lambda row: f"{row['model_bytes'] / original:.2f}",
    }
    for name, line in lines.items():
        table.add_row(name, *(line(row) for row in rows))
    console.print(table)
    console.print(f"the model in float32: {original / 1e6:.1f} MB", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="*", default=[12, 16])
    parser.add_argument("--bert-base", action="store_true", help="also BERT base through the command; minutes")
    options = parser.parse_args()
    console, rows, original = Console(), [], original_bytes()
    for items in options.items:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            rows.append(pool.submit(measure_block, items).result())
    if rows:
        show(console, rows, original)
    bert = measure_bert(console) if options.bert_base else None
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "original": original, "rows": rows, "bert": bert}, indent=1))


if __name__ == "__main__":
    main()
