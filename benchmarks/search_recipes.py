"""Compare recipes at equal steps: paper, best, sigmoid and dense training on two corpora, and a query/key scale sweep.

    python benchmarks/search_recipes.py --text train.txt --held-out-text test.txt
    python benchmarks/search_recipes.py     (prints the tables of what is finished)

Learning rates are chosen per recipe on the text (``tune``, one seed that the table does not use); the table then uses
them on both corpora. Finished runs are lines of ``results/search_recipes.jsonl`` and are not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from strongticket.search import SearchSettings, run_search
from strongticket.search.run import load_material, train_dense

BASE = SearchSettings(model="gpt2-tiny", preset="laptop", steps=300, every=10**6, batch=8, length=128)
VARIANTS = {
    "paper": {"recipe": "paper", "qk_scale": "theory"},
    "paper, matched init": {"recipe": "paper", "init": "gpt2-matched", "qk_scale": "theory"},
    "best": {"recipe": "best", "qk_scale": "theory"},
    "sigmoid": {"recipe": "sigmoid", "qk_scale": "theory"},
    "dense": {"recipe": "best", "qk_scale": 1.0},
}
RATES = {
    "paper": (3e-3, 1e-2, 3e-2),
    "paper, matched init": (3e-3, 1e-2, 3e-2),
    "best": (1e-2, 3e-2),
    "sigmoid": (3e-2, 1e-1),
    "dense": (3e-3, 1e-2),
}
SCALES = (1.0, 2.0, "theory", 4.0, 8.0)
TUNE_SEED, SEEDS, SWEEP_SEEDS = 100, (0, 1, 2), (0, 1)


class Runs:
    """Runs that are made once and remembered in a file."""

    def __init__(self, path: Path, corpora: dict[str, tuple[str, str | None]]):
        self.path, self.corpora = path, corpora
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.done = {line["key"]: line for line in map(json.loads, lines)}

    def get(self, variant: str, corpus: str, seed: int, lr: float, **changes: object) -> dict:
        key = json.dumps([variant, corpus, seed, lr, changes], sort_keys=True)
        if key not in self.done:
            text, held_out = self.corpora[corpus]
            settings = replace(BASE, **(VARIANTS[variant] | changes), corpus=text, held_out=held_out, seed=seed)
            settings = replace(settings, lr=lr, lr_end=lr / 10, dense_lr=lr).resolved()
            with tempfile.TemporaryDirectory() as folder:
                if variant == "dense":
                    numbers = {"loss": train_dense(settings, Path(folder), load_material(settings)), "density": 1.0}
                else:
                    numbers = run_search(settings, Path(folder) / "run")
            kept = {name: numbers.get(name) for name in ("loss", "loss_unpruned", "density", "seconds")}
            self.done[key] = {
                "key": key,
                "variant": variant,
                "corpus": corpus,
                "seed": seed,
                "lr": lr,
                **changes,
                **kept,
            }
            with self.path.open("a") as file:
                file.write(json.dumps(self.done[key]) + "\n")
        return self.done[key]


def best_rate(runs: Runs, variant: str, corpus: str) -> float:
    return min(RATES[variant], key=lambda lr: runs.get(variant, corpus, TUNE_SEED, lr)["loss"])


def summary(losses: list[float]) -> str:
    spread = f" ± {statistics.stdev(losses):.3f}" if len(losses) > 1 else ""
    return f"{statistics.mean(losses):.3f}{spread} ({len(losses)} seeds)" if losses else "not run"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, help="the corpus beside the embedded one")
    parser.add_argument("--held-out-text", type=Path)
    parser.add_argument("--held-out-bytes", type=int, default=120_000, help="how much of the held-out text is used")
    parser.add_argument("--results", type=Path, default=Path("results/search_recipes.jsonl"))
    options = parser.parse_args()
    if options.text is None:
        print_tables(Runs(options.results, {}))
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        held_out = Path(folder) / "held_out.txt"
        text = options.held_out_text.read_text(encoding="utf-8")
        held_out.write_text(text[: text.rfind("\n", 0, options.held_out_bytes) + 1], encoding="utf-8")
        corpora = {"text": (f"file:{options.text}", f"file:{held_out}"), "embedded": ("embedded", None)}
        runs = Runs(options.results, corpora)
        run(runs)
        print_tables(runs)


def run(runs: Runs) -> None:
    rates = {variant: best_rate(runs, variant, "text") for variant in VARIANTS}
    for seed in SEEDS:
        for corpus in runs.corpora:
            for variant, lr in rates.items():
                runs.get(variant, corpus, seed, lr)
    for seed in SWEEP_SEEDS:
        for scale in SCALES:
            runs.get("best", "text", seed, rates["best"], qk_scale=scale)


def print_tables(runs: Runs) -> None:
    """Print what is finished."""
    done = [line for line in runs.done.values() if line["seed"] != TUNE_SEED]
    print("| recipe | learning rate | text | embedded |\n| --- | --- | --- | --- |")
    for variant in VARIANTS:
        mine = [line for line in done if line["variant"] == variant and "qk_scale" not in line]
        rates = ", ".join(sorted({f"{line['lr']:g}" for line in mine}))
        cells = [summary([line["loss"] for line in mine if line["corpus"] == name]) for name in ("text", "embedded")]
        print(f"| {variant} | {rates} | {' | '.join(cells)} |")
    print("\n| query/key scale | loss |\n| --- | --- |")
    for scale in SCALES:
        print(f"| {scale} | {summary([line['loss'] for line in done if line.get('qk_scale') == scale])} |")


if __name__ == "__main__":
    main()
