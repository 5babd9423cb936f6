"""The commands ``reproduce``, ``results``, ``report`` and ``demo``."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest


def run(*arguments, before="pass"):
    code = f"import sys; {before}; from strongticket.cli import main; sys.argv[0] = 'strongticket'; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "out"
    shown = run("demo", "--out", out, "--seeds", 2)
    assert shown.returncode == 0, shown.stderr
    for words in ("report.html", "fig4.png", "ticket", "agrees"):
        assert words in shown.stdout
    return out


def test_demo_writes_everything(folder):
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert names == {"results.sqlite", "report.html", "ticket", "fig4.png", "fig4.svg", "fig4.pdf", "fig4.csv"}
    from strongticket.ticket import Ticket

    assert Ticket.from_pretrained(folder / "ticket").verify()


def test_a_second_run_resumes(folder):
    shown = run("reproduce", "fig4", "--seeds", 2, "--out", folder, "--json")
    numbers = json.loads(shown.stdout)
    (view,) = numbers["views"]
    assert view["figure"] == "fig4"
    assert {row["init"] for row in view["rows"]} == {"theory", "xavier", "section-4.1"}
    assert {row["width"] for row in view["rows"]} == set(range(4, 65, 4))
    assert all(row["sources"] == 2 for row in view["rows"])


def test_results_lists_filters_and_exports(folder, tmp_path):
    shown = run("results", folder, "--where", "layout=assigned", "--where", "width=16", "--json")
    (trial,) = json.loads(shown.stdout)["trials"]
    assert (trial["layout"], trial["width"], trial["experiment"]) == ("assigned", 16, "attention")
    assert "--all lists them" in run("results", folder).stdout
    assert run("results", folder, "--figure", "fig4", "--export", tmp_path / "a.csv").returncode == 0
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"id", "width", "result.errors", "seconds", "version.torch", "host.cores", "seeds"} <= set(rows[0])
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("results", folder, "--export", tmp_path / "a.parquet").returncode == 0
    assert parquet.read_table(tmp_path / "a.parquet").num_rows == len(rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "fig3"], "unknown figure 'fig3'; choose from fig4, fig5"),
        (["reproduce", "fig4", "--preset", "huge"], "unknown preset 'huge'; choose one of quick, paper"),
        (["reproduce", "fig4", "--seeds", "0"], "seeds must be at least 1, got 0"),
        (["reproduce", "fig4", "--token", "one"], "the token is one of learned, zero, got 'one'"),
        (["reproduce", "fig4", "--target-seed", "-1"], "the seed of the target must be 0 or more, got -1"),
        (["reproduce", "fig4", "--jobs", "0"], "jobs must be at least 1, got 0"),
        (["reproduce", "fig4", "--cluster", "ray://x:1"], "a cluster is given as dask://HOST:PORT"),
        (["results", "nowhere"], "nowhere holds no results"),
        (["report", "nowhere"], "nowhere holds no results"),
    ],
)
def test_mistakes_are_one_line_before_any_work(arguments, message, tmp_path):
    out = ["--out", tmp_path / "out"] if arguments[0] == "reproduce" else []
    shown = run(*arguments, *out)
    assert shown.returncode == 2
    assert len(shown.stderr.splitlines()) == 1
    assert message in shown.stderr
    assert not (tmp_path / "out" / "results.sqlite").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "width"], "a condition is written KEY=VALUE, got 'width'"),
        (["--where", "colour=red"], "no trial has the setting 'colour'"),
        (["--figure", "fig5"], "'fig5' was not asked for"),
        (["--export", "a.xls"], "ends in .csv or .parquet, got 'a.xls'"),
    ],
)
def test_mistakes_about_results(folder, arguments, message):
    shown = run("results", folder, *arguments)
    assert shown.returncode == 2
    assert message in shown.stderr


@pytest.mark.parametrize(
    ("package", "arguments", "message"),
    [
        ("pyarrow", ["results", "FOLDER", "--export", "a.parquet"], "needs the package 'pyarrow'"),
        (
            "distributed",
            ["reproduce", "fig4", "--out", "FOLDER", "--cluster", "dask://h:1"],
            "needs the package 'distrib",
        ),
    ],
)
def test_missing_packages_are_named(folder, package, arguments, message):
    given = [str(folder) if word == "FOLDER" else word for word in arguments]
    shown = run(*given, before=f"sys.modules['{package}'] = None")
    assert shown.returncode == 2
    assert message in shown.stderr
