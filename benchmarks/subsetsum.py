"""How fast subset sums are solved, beside a textbook version, torch and general solvers.

The library's numba and torch backends and a textbook Horowitz-Sahni in plain numba take turns on one core,
and each is given its best turn, in processor time. The general solvers get a few problems each, in a process
of their own (highspy and ortools do not share one) and with a limit per size; their times are by the clock,
with as many threads as the backend lets them take, and their residuals are recomputed from the masks.

    python benchmarks/subsetsum.py [--quick] [--items N ...] [--rounds R] [--limit SECONDS]
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table

from strongticket.subsetsum import solve
from strongticket.subsetsum.problems import random_problems

if TYPE_CHECKING:
    from collections.abc import Callable

    Turn = Callable[[int], Any]

RESULTS = Path(__file__).resolve().parent.parent / "results" / "subsetsum.json"
SIZES = [8, 12, 16, 20, 24, 28, 32]
MOST_PROBLEMS = 1 << 17
FEWEST_SOLVED = 3
SOLVERS = {
    "Gurobi": ("gurobipy", "gurobi", {"tight": False}),
    "Gurobi tight": ("gurobipy", "gurobi", {"tight": True}),
    "HiGHS": ("highspy", "highs", {}),
    "CP-SAT": ("ortools", "ortools", {}),
}
TARGET_SIZE, TARGET_TEXTBOOK, TARGET_GUROBI = 16, 3.5, 50_000.0


@njit(cache=True)
def merged_sums(items, sums, masks, next_sums, next_masks):
    """All subset sums in ascending order with their masks, one merge per item."""
    sums[0], masks[0] = 0.0, 0
    size = 1
    for k in range(items.size):
        item, bit = items[k], 1 << k
        without, having = 0, 0
        for place in range(2 * size):
            if having == size or (without < size and sums[without] <= sums[having] + item):
                next_sums[place], next_masks[place] = sums[without], masks[without]
                without += 1
            else:
                next_sums[place], next_masks[place] = sums[having] + item, masks[having] | bit
                having += 1
        size *= 2
        sums, next_sums = next_sums, sums
        masks, next_masks = next_masks, masks
    return sums, masks


@njit(cache=True)
def textbook(items, targets, subsets):
    """Horowitz and Sahni (1974), one problem after the other; the best subsets as bits."""
    problems, count = items.shape
    half = count // 2
    rows = 1 << (count - half)
    sums, masks = np.empty((4, rows)), np.empty((4, rows), np.int64)
    for p in range(problems):
        left, left_masks = merged_sums(items[p, :half], sums[0], masks[0], sums[1], masks[1])
        right, right_masks = merged_sums(items[p, half:], sums[2], masks[2], sums[3], masks[3])
        i, j = 0, rows - 1
        best = np.inf
        while i < 1 << half and j >= 0:
            gap = left[i] + right[j] - targets[p]
            if abs(gap) < best:
                best = abs(gap)
                subsets[p] = left_masks[i] | (right_masks[j] << half)
            if gap > 0.0:
                j -= 1
            else:
                i += 1


def residuals_of(items, targets, subsets):
    """target - sum of the kept items, added in the order of the items."""
    kept = np.zeros(len(items))
    for k in range(items.shape[1]):
        kept += items[:, k] * ((subsets >> k) & 1)
    return targets - kept


def best_rates(turns: dict[str, Turn], rounds: int, seconds: float, most: int) -> dict[str, float]:
    """Problems per second of processor time in the best of ``rounds`` turns of about ``seconds`` each."""
    counts = {}
    for name, turn in turns.items():
        count, used = 4, 0.0
        turn(count)
        while used < seconds / 3 and count < most:
            count = min(most, count * (2 if used > seconds / 20 else 4))
            start = thread_time()
            turn(count)
            used = thread_time() - start
        counts[name] = max(1, min(count, most))
    best = dict.fromkeys(turns, 0.0)
    for _ in range(rounds):
        for name, turn in turns.items():
            start = thread_time()
            turn(counts[name])
            best[name] = max(best[name], counts[name] / (thread_time() - start))
    return best


def measure_speed(count: int, rounds: int, seconds: float) -> dict[str, Any]:
    items, targets = random_problems(MOST_PROBLEMS, count, seed=count)
    subsets = np.zeros(MOST_PROBLEMS, np.int64)
    rates = best_rates(
        {
            "numba": lambda p: solve(items[:p], targets[:p], threads=1),
            "torch": lambda p: solve(items[:p], targets[:p], threads=1, backend="torch"),
            "textbook": lambda p: textbook(items[:p], targets[:p], subsets[:p]),
        },
        rounds,
        seconds,
        MOST_PROBLEMS,
    )
    shared = np.flatnonzero(subsets)[:1000]
    ours = np.abs(solve(items[shared], targets[shared]).residuals)
    theirs = np.abs(residuals_of(items[shared], targets[shared], subsets[shared]))
    if not np.all(ours <= theirs):
        raise AssertionError(f"the textbook version found a better subset of {count} items")
    return {"problems_per_second": rates, "numba_by_textbook": rates["numba"] / rates["textbook"]}


def measure_tolerance(count: int, rounds: int, seconds: float) -> dict[str, float]:
    """How many times faster than the best subset a good enough one is found."""
    items, targets = random_problems(MOST_PROBLEMS // 4, count, seed=count)
    tolerances = [1e-2, 1e-3, 1e-4, 1e-5]
    rates = best_rates(
        {str(tol): lambda p, tol=tol: solve(items[:p], targets[:p], tol=tol, threads=1) for tol in (0.0, *tolerances)},
        rounds,
        seconds,
        len(items),
    )
    return {f"{tol:.0e}": rates[str(tol)] / rates["0.0"] for tol in tolerances}


def work(name: str, count: int, problems: int, limit: float) -> None:
    """In a process of its own, which ends after ``limit`` seconds: solve problems, one line of JSON each."""
    _, backend, options = SOLVERS[name]
    module = importlib.import_module(f"strongticket.subsetsum.backends.{backend}_backend")
    items, targets = random_problems(problems, count, seed=count)
    module.solve_one(items[0, :2], float(targets[0]), **options)
    with Path(os.devnull).open("w") as nowhere:
        faulthandler.dump_traceback_later(limit, exit=True, file=nowhere)
        for row, target in zip(items, targets, strict=True):
            start = perf_counter()
            subset = module.solve_one(row, float(target), **options)
            print(json.dumps({"seconds": perf_counter() - start, "subset": subset}), flush=True)
        faulthandler.cancel_dump_traceback_later()


def measure_solver(name: str, count: int, problems: int, limit: float) -> dict[str, Any] | None:
    """Mean seconds per problem and true residuals of what ``name`` solves within ``limit``, if anything.

    Where the limit ends the run, ``limit`` ÷ (problems begun) is a lower bound on their mean, and is given
    instead: the mean over the problems solved would count the easy ones only.
    """
    command = [sys.executable, __file__, "--worker", name, "--items", str(count)]
    command += ["--problems", str(problems), "--limit", str(limit)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    solved = [json.loads(line) for line in lines.splitlines()]
    if not solved:
        return None
    items, targets = (array[: len(solved)] for array in random_problems(problems, count, seed=count))
    found = np.abs(residuals_of(items, targets, np.array([line["subset"] for line in solved])))
    best = np.abs(solve(items, targets).residuals)
    complete = len(solved) == problems
    mean = float(np.mean([line["seconds"] for line in solved]))
    return {
        "solved": len(solved),
        "complete": complete,
        "seconds_per_problem": mean if complete else limit / (len(solved) + 1),
        "median_residual": float(np.median(found)),
        "median_optimum": float(np.median(best)),
        "residual_by_optimum": float(np.exp(np.mean(np.log(found / best)))),
        "never_better": bool(np.all(best <= found)),
    }


def show_speed(rows: dict[int, dict[str, Any]], console: Console) -> None:
    table = Table(title="Problems per second, one core")
    for column in ("items", "numba", "torch", "textbook", "numba ÷ textbook"):
        table.add_column(column, justify="right")
    for count, row in rows.items():
        rates = row["problems_per_second"]
        speeds = (f"{rates[name]:,.0f}" for name in ("numba", "torch", "textbook"))
        table.add_row(str(count), *speeds, f"{row['numba_by_textbook']:.1f}")
    console.print(table)


def show_solvers(rows: dict[int, dict[str, Any]], console: Console) -> None:
    names = [name for name in SOLVERS if any(name in row["solvers"] for row in rows.values())]
    if not names:
        console.print("no general solver is installed: pip install 'strongticket\\[gurobi,highs,ortools]'")
        return
    table = Table(
        title="Time per problem, and true |residual| ÷ optimum (×, geometric mean)",
        caption="> a lower bound: the time limit ended the run, after as many problems as stand in brackets",
    )
    table.add_column("items", justify="right")
    for name in ("numba", *names):
        table.add_column(name, justify="right")
    for count, row in rows.items():
        cells = [_time(1 / row["problems_per_second"]["numba"])]
        cells += [_cell(row["solvers"].get(name)) for name in names]
        table.add_row(str(count), *cells)
    console.print(table)


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    cell = f"{_time(found['seconds_per_problem'])} ×{found['residual_by_optimum']:.3g}"
    return cell if found["complete"] else f"> {cell} ({found['solved']})"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def show_targets(rows: dict[int, dict[str, Any]], console: Console) -> dict[str, Any]:
    row = rows[TARGET_SIZE]
    reached = {"numba ÷ textbook": (row["numba_by_textbook"], TARGET_TEXTBOOK)}
    gurobi = row["solvers"].get("Gurobi")
    if gurobi:
        ratio = gurobi["seconds_per_problem"] * row["problems_per_second"]["numba"]
        reached["numba ÷ default Gurobi"] = (ratio, TARGET_GUROBI)
    for name, (ratio, target) in reached.items():
        verdict = "reached" if ratio >= target else "[red]missed[/]"
        console.print(f"{TARGET_SIZE} items, {name}: {ratio:,.1f} (to reach: {target:,g}, {verdict})", highlight=False)
    if gurobi:
        answer = "yes" if gurobi["never_better"] else "[red]no[/]"
        console.print(f"{TARGET_SIZE} items, residual never worse than default Gurobi's: {answer}")
    return {name: {"ratio": ratio, "target": target} for name, (ratio, target) in reached.items()}


def show_tolerance(gains: dict[str, float], count: int, console: Console) -> None:
    table = Table(title=f"{count} items: times faster than the best subset where a tolerance is enough")
    for tol in gains:
        table.add_column(f"tol {tol}", justify="right")
    table.add_row(*(f"{gain:.1f}" for gain in gains.values()))
    console.print(table)


def run(options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(1)
    console = Console(width=None if sys.stdout.isatty() else 100)
    progress = Console(stderr=True)
    seconds = 0.05 if options.quick else 0.2
    rows = {}
    for count in options.items:
        with progress.status(f"{count} items: numba, torch, textbook"):
            rows[count] = measure_speed(count, options.rounds, seconds) | {"solvers": {}}
    show_speed(rows, console)
    for name, (package, _, _) in SOLVERS.items():
        if importlib.util.find_spec(package) is None:
            continue
        for count in options.items:
            with progress.status(f"{count} items: {name}"):
                found = measure_solver(name, count, options.problems, options.limit)
            if found is not None:
                rows[count]["solvers"][name] = found
            if found is None or found["solved"] < FEWEST_SOLVED:
                break
    show_solvers(rows, console)
    with progress.status("24 items with a tolerance"):
        gains = measure_tolerance(24, options.rounds, seconds)
    show_tolerance(gains, 24, console)
    result = {
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
        },
        "sizes": rows,
        "targets": show_targets(rows, console) if TARGET_SIZE in rows else {},
        "tolerance_gain_at_24_items": gains,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    console.print(f"written to {RESULTS.relative_to(RESULTS.parent.parent)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes, rounds and problems")
    parser.add_argument("--items", type=int, nargs="+", help="the numbers of items to measure")
    parser.add_argument("--rounds", type=int, help="turns for each contestant, of which the best counts")
    parser.add_argument("--problems", type=int, help="problems for each general solver and size")
    parser.add_argument("--limit", type=float, help="seconds for each general solver and size")
    parser.add_argument("--worker", choices=SOLVERS, help=argparse.SUPPRESS)
    quick, full = ([8, 16, 24], 3, 3, 4.0), (SIZES, 7, 30, 10.0)
    options = parser.parse_args()
    for name, value in zip(("items", "rounds", "problems", "limit"), quick if options.quick else full, strict=True):
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.worker:
        work(options.worker, options.items[0], options.problems, options.limit)
    else:
        run(options)


if __name__ == "__main__":
    main()
