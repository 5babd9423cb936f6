"""How much closer masks come at the same width when units are assigned and exchanged.

Targets are U[-1,1], one target and one source per seed, and errors are means of the largest |entry error|. The
paper layout, the assignment without swap search and the swap search with a budget of seconds run on one core.
A second table looks for the width at which the assigned layout, with its default rounds, is as good as the
paper layout with 16 items. With --large, a 768 × 768 matrix from N(0, 0.05²) with range="auto".

    python benchmarks/construct_quality.py [--quick] [--sources N] [--seconds S] [--large]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from strongticket.construct import linear

RESULTS = Path(__file__).resolve().parent.parent / "results" / "construct_quality.json"
CASES = [(8, 8), (8, 16), (16, 8), (16, 12), (16, 16)]
TARGETS = {(16, 12): 200.0, (8, 16): 2000.0}
SIZES, PAPER_ITEMS, TARGET_FRACTION = [8, 16], 16, 0.6
UNTIL_SECONDS_END = 10**6


def target(d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (d, d))


def error(d: int, seed: int, **settings: Any) -> float:
    return linear(target(d, seed), seed=seed, threads=1, **settings).max_error


def measure_case(d: int, items: int, sources: int, seconds: float) -> dict[str, Any]:
    settings = {
        "paper": {"layout": "paper"},
        "assigned": {"refine": 0},
        "default": {},
        "budget": {"refine": UNTIL_SECONDS_END, "seconds": seconds},
    }
    means: dict[str, Any] = {}
    for name, chosen in settings.items():
        start = thread_time()
        means[name] = float(np.mean([error(d, seed, items=items, **chosen) for seed in range(sources)]))
        means[f"{name}_seconds"] = (thread_time() - start) / sources
    return means | {"d": d, "items": items, "ratio": means["paper"] / means["budget"]}


def measure_width(d: int, sources: int) -> dict[str, Any]:
    """The least width, in whole units, with at most the paper layout's mean error at 16 items; by bisection."""

    def mean(**settings: Any) -> float:
        return float(np.mean([error(d, seed, **settings) for seed in range(sources)]))

    paper_width = PAPER_ITEMS * d
    paper = mean(items=PAPER_ITEMS, layout="paper")
    low, high = d - 1, paper_width
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if mean(width=middle) <= paper else (middle, high)
    found = {"paper_error": paper, "assigned_error": mean(width=high)}
    return {"d": d, "paper_width": paper_width, "width": high, "fraction": high / paper_width} | found


def measure_large(rounds: list[int], size: int = 768, items: int = 16) -> list[dict[str, Any]]:
    W = np.random.default_rng(0).normal(0, 0.05, (size, size))
    linear(W[:16, :16], items=items, range="auto", refine=1)
    rows = []
    for layout, refine in [("paper", 0), *(("assigned", r) for r in rounds)]:
        start = perf_counter()
        pair = linear(W, items=items, range="auto", layout=layout, refine=refine)
        used = perf_counter() - start
        errors = np.abs(pair.errors())
        rows.append(
            {
                "layout": layout,
                "refine": refine,
                "range": pair.sources[0].law.r,
                "seconds": used,
                "max_error": float(errors.max()),
                "root_mean_square": float(np.sqrt(np.mean(errors**2))),
                "median_error": float(np.median(errors)),
            }
        )
    return rows


def table_of(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def show_cases(cases: list[dict[str, Any]], seconds: float, sources: int) -> Table:
    return table_of(
        f"Mean of the largest |error| over {sources} sources, one core",
        ["d", "items", "paper", "assigned", "default rounds", "took", f"{seconds:g} s", "paper ÷ it"],
        [
            [
                str(case["d"]),
                str(case["items"]),
                *(f"{case[name]:.1e}" for name in ("paper", "assigned", "default")),
                f"{case['default_seconds']:.2f} s",
                f"{case['budget']:.1e}",
                f"{case['ratio']:,.0f}",
            ]
            for case in cases
        ],
    )


def show_widths(widths: list[dict[str, Any]]) -> Table:
    return table_of(
        f"The width that is as good as the paper layout with {PAPER_ITEMS} items",
        ["d", "paper's width", "its error", "assigned, default rounds", "error", "fraction"],
        [
            [
                str(row["d"]),
                str(row["paper_width"]),
                f"{row['paper_error']:.1e}",
                str(row["width"]),
                f"{row['assigned_error']:.1e}",
                f"{row['fraction']:.2f}",
            ]
            for row in widths
        ],
    )


def show_large(rows: list[dict[str, Any]]) -> Table:
    return table_of(
        "768 × 768 from N(0, 0.05²), 16 items, range auto, all cores",
        ["layout", "rounds", "range", "time", "max error", "root mean square", "median"],
        [
            [
                row["layout"],
                str(row["refine"]),
                f"{row['range']:.3f}",
                f"{row['seconds']:.1f} s",
                *(f"{row[name]:.1e}" for name in ("max_error", "root_mean_square", "median_error")),
            ]
            for row in rows
        ],
    )


def show_targets(cases: list[dict[str, Any]], widths: list[dict[str, Any]], console: Console) -> dict[str, Any]:
    reached = {}
    for case in cases:
        least = TARGETS.get((case["d"], case["items"]))
        if least is not None:
            reached[f"d={case['d']}, {case['items']} items, paper ÷ budget"] = (case["ratio"], ">=", least)
    for row in widths:
        reached[f"d={row['d']}, fraction of the width"] = (row["fraction"], "<=", TARGET_FRACTION)
    for name, (value, sign, limit) in reached.items():
        good = value >= limit if sign == ">=" else value <= limit
        verdict = "reached" if good else "[red]missed[/]"
        console.print(f"{name}: {value:,.4g} (to reach: {sign} {limit:,g}, {verdict})", highlight=False)
    return {name: {"value": value, "target": f"{sign} {limit:g}"} for name, (value, sign, limit) in reached.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sources, and d = 8 only for the widths")
    parser.add_argument("--sources", type=int, help="sources, each with its own target, to average over")
    parser.add_argument("--seconds", type=float, default=1.0, help="the budget of the swap search")
    parser.add_argument("--large", action="store_true", help="only the 768 × 768 matrix")
    options = parser.parse_args()
    sources = options.sources or (2 if options.quick else 8)
    console, progress = Console(), Console(stderr=True)
    result = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    result["machine"] = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    result["versions"] = {"python": platform.python_version(), "numpy": np.__version__}
    if options.large:
        with progress.status("768 × 768"):
            result["large"] = measure_large([0, 100] if options.quick else [0, 41, 100, 400, 1000])
        console.print(show_large(result["large"]))
    else:
        for items in sorted({items for _, items in CASES}):
            error(4, 0, items=items, refine=2)
        cases, widths = [], []
        for d, items in CASES:
            with progress.status(f"d={d}, {items} items"):
                cases.append(measure_case(d, items, sources, options.seconds))
        console.print(show_cases(cases, options.seconds, sources))
        for d in SIZES[:1] if options.quick else SIZES:
            with progress.status(f"d={d}: the width as good as the paper layout's"):
                widths.append(measure_width(d, sources))
        console.print(show_widths(widths))
        targets = show_targets(cases, widths, console)
        result |= {"sources": sources, "seconds": options.seconds, "cases": cases, "widths": widths}
        result["targets"] = targets
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    console.print(f"written to {RESULTS.relative_to(RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
