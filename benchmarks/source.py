"""How fast weights are drawn, as ratios to NumPy's Philox generator and torch, on one core.

Every contestant writes float32 to an array of its own that is already in memory. They take turns in one
run; a turn is four draws, each timed alone in CPU time, and each contestant is given its best draw. The
targets are for 2^20 weights (a 1024 x 1024 matrix), which stay in the cache; 2^23 do not, and there the
memory limits the signed law: filling the array with a constant, in the last row, is hardly faster.
``--fresh`` lets each contestant make a new array every time, which adds the same page faults to all.

    python benchmarks/source.py [--values N ...] [--rounds R] [--fresh]
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from strongticket.source import Law, Normal, Signed, Source, Uniform

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).resolve().parent.parent / "results" / "source.json"
LAWS: dict[str, Law] = {"uniform": Uniform(1.0), "normal": Normal(1.0), "signed": Signed(1.0)}
RATIOS = [
    ("uniform", "numpy uniform", 5.0),
    ("uniform", "torch uniform", None),
    ("normal", "numpy normal", 8.0),
    ("normal", "torch normal", 3.0),
    ("signed", "numpy uniform", 20.0),
    ("signed", "numpy fill", None),
]


def contestants(values: int, fresh: bool) -> dict[str, Callable[[], object]]:
    generator = np.random.Generator(np.random.Philox(1))
    sources = {name: Source(1, "benchmark", (values,), law) for name, law in LAWS.items()}
    if fresh:
        ours = {name: lambda s=source: s.weights(threads=1) for name, source in sources.items()}
        return ours | {
            "numpy uniform": lambda: generator.random(values, dtype=np.float32),
            "numpy normal": lambda: generator.standard_normal(values, dtype=np.float32),
            "numpy fill": lambda: np.full(values, 1.0, np.float32),
            "torch uniform": lambda: torch.empty(values).uniform_(-1, 1),
            "torch normal": lambda: torch.empty(values).normal_(),
        }
    out = np.zeros(values, np.float32)
    numpy_out, torch_out = np.zeros(values, np.float32), torch.zeros(values)
    ours = {name: lambda s=source: s._draw(out, 0, values, values, 1) for name, source in sources.items()}
    return ours | {
        "numpy uniform": lambda: generator.random(dtype=np.float32, out=numpy_out),
        "numpy normal": lambda: generator.standard_normal(dtype=np.float32, out=numpy_out),
        "numpy fill": lambda: numpy_out.fill(1.0),
        "torch uniform": lambda: torch_out.uniform_(-1, 1),
        "torch normal": lambda: torch_out.normal_(),
    }


def best_times(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """CPU seconds of the best draw, after one turn that compiles and warms up."""
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(rounds + 1):
        for name, run in runs.items():
            for _ in range(4):
                start = thread_time()
                run()
                seconds = thread_time() - start
                if turn:
                    best[name] = min(best[name], seconds)
    return best


def measure(values: int, rounds: int, fresh: bool) -> dict[str, object]:
    seconds = best_times(contestants(values, fresh), rounds)
    return {
        "values": values,
        "arrays": "fresh" if fresh else "preallocated",
        "ns_per_value": {name: 1e9 * s / values for name, s in seconds.items()},
        "ratios": [
            {"law": law, "against": peer, "ratio": seconds[peer] / seconds[law], "target": target}
            for law, peer, target in RATIOS
        ],
    }


def show(result: dict, console: Console) -> None:
    table = Table(title=f"Drawing {result['values']:,} weights, {result['arrays']} arrays, one core")
    for column in ("law", "ns per weight", "against", "its ns", "times faster", "target"):
        table.add_column(column, justify="left" if column in ("law", "against") else "right")
    ns = result["ns_per_value"]
    for row in result["ratios"]:
        target = "" if row["target"] is None else f"≥ {row['target']:g}"
        missed = row["target"] is not None and row["ratio"] < row["target"]
        ratio = f"[red]{row['ratio']:.1f}[/]" if missed else f"{row['ratio']:.1f}"
        law, peer = row["law"], row["against"]
        table.add_row(law, f"{ns[law]:.3f}", peer, f"{ns[peer]:.3f}", ratio, target)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--values", type=int, nargs="+", default=[1 << 20, 1 << 23])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--fresh", action="store_true", help="make a new array each time")
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    results = []
    for values in options.values:
        results.append(measure(values, options.rounds, options.fresh))
        show(results[-1], console)
    versions = {"python": platform.python_version(), "numpy": np.__version__, "torch": torch.__version__}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps({"machine": platform.machine(), "versions": versions, "runs": results}, indent=2) + "\n"
    )
    console.print(f"written to {RESULTS.relative_to(RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()
