"""The command ``strongticket solve``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import strongticket


def run(*arguments, before="pass"):
    code = f"import sys; {before}; from strongticket.cli import main; sys.argv[0] = 'strongticket'; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_help():
    top = run("--help")
    assert top.returncode == 0
    assert "solve" in top.stdout
    solve = run("solve", "--help")
    assert solve.returncode == 0
    for option in ("--items", "--problems", "--seed", "--tol", "--threads", "--backend", "--json"):
        assert option in solve.stdout


def test_version():
    shown = run("--version")
    assert shown.returncode == 0
    assert shown.stdout.split() == ["strongticket", strongticket.__version__]


def test_table():
    shown = run("solve", "--items", "10", "--problems", "2000")
    assert shown.returncode == 0, shown.stderr
    for words in ("2,000 subset sums of 10 items", "problems per second", "threads", "median |residual|"):
        assert words in shown.stdout


def test_json():
    shown = run("solve", "--items", "16", "--problems", "5000", "--threads", "1", "--seed", "2", "--json")
    numbers = json.loads(shown.stdout)
    assert {
        "items": 16,
        "problems": 5000,
        "threads": 1,
        "seed": 2,
        "tol": 0.0,
        "backend": "numba",
    }.items() <= (numbers.items())
    assert numbers["problems_per_second"] == pytest.approx(5000 / numbers["seconds"])
    quantiles = {float(share): value for share, value in numbers["residual_quantiles"].items()}
    assert sorted(quantiles) == [0.0, 0.25, 0.5, 0.75, 0.99, 1.0]
    assert [quantiles[share] for share in sorted(quantiles)] == sorted(quantiles.values())
    assert quantiles[0.0] <= numbers["residual_mean"] <= quantiles[1.0]


def test_the_same_seed_gives_the_same_residuals_on_every_backend():
    shown = [
        json.loads(run("solve", "--items", "9", "--problems", "50", "--backend", backend, "--json").stdout)
        for backend in ("numba", "torch")
    ]
    assert shown[0]["residual_quantiles"] == shown[1]["residual_quantiles"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--items", "41"], "at most 40 items, got 41; give a tol > 0"),
        (["--tol", "-1"], "tol must be 0"),
        (["--threads", "0"], "threads must be at least 1, got 0"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(arguments, message):
    shown = run("solve", "--problems", "10", *arguments)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr.startswith("error: ")
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_a_missing_solver_is_an_error_too():
    shown = run("solve", "--backend", "gurobi", before="sys.modules['gurobipy'] = None")
    assert shown.returncode == 2
    assert len(shown.stderr.splitlines()) == 1
    assert "the backend 'gurobi' needs the package 'gurobipy': pip install 'strongticket[gurobi]'" in shown.stderr


@pytest.mark.parametrize("arguments", [["--items", "0"], ["--backend", "cplex"], ["--problems", "many"], ["--what"]])
def test_wrong_options_are_refused(arguments):
    shown = run("solve", *arguments)
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr
