from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sample_trials import Square

from strongticket.experiments.store import FILE, FORMAT, Outcome, Store

HERE = Path(__file__).parent


def outcome(value):
    return Outcome({"square": value}, 0.5, {"torch": "1"}, {"cores": 2})


def test_what_is_saved_is_read_back(tmp_path):
    with Store(tmp_path / "new" / "folder", create=True) as store:
        store.save(Square(3), outcome(9))
        store.ask("fig4", "quick", {"seeds": None}, [Square(3), Square(4)])
    with Store(tmp_path / "new" / "folder") as store:
        (row,) = store.rows()
        assert (row.id, row.experiment, row.config["number"], row.result) == (Square(3).id, "square", 3, {"square": 9})
        assert (row.seeds, row.versions, row.host, row.seconds) == ([3], {"torch": "1"}, {"cores": 2}, 0.5)
        (plan,) = store.plans()
        assert (plan.figure, plan.preset, plan.trials) == ("fig4", "quick", [Square(3).id, Square(4).id])
        assert store.rows(plan.trials) == [row]


def test_a_finished_trial_is_never_overwritten(tmp_path):
    with Store(tmp_path, create=True) as store:
        store.save(Square(3), outcome(9))
        store.save(Square(3), outcome(-1))
        assert store.rows()[0].result == {"square": 9}
        store.forget([Square(3)])
        assert store.finished() == set()


def test_a_folder_without_results(tmp_path):
    with pytest.raises(ValueError, match="holds no results"):
        Store(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("not a database, but long enough to look at"), "is not a store of results"),
        (lambda path: _other(path, "CREATE TABLE other (a)"), "was not made by strongticket"),
        (lambda path: _newer(path), f"has the format {FORMAT + 1}, this version of strongticket reads {FORMAT}"),
    ],
)
def test_files_of_others_are_refused_and_left_alone(tmp_path, make, message):
    path = tmp_path / FILE
    make(path)
    before = path.read_bytes()
    for create in (False, True):
        with pytest.raises(ValueError, match=message):
            Store(tmp_path, create=create)
    assert path.read_bytes() == before


def _other(path, statement):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.close()


def _newer(path):
    Store(path.parent, create=True).close()
    _other(path, f"PRAGMA user_version = {FORMAT + 1}")


def run(folder, *arguments):
    command = [sys.executable, str(HERE / "sample_trials.py"), str(folder), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    return subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True)


def table(folder):
    with Store(folder) as store:
        return [(row.id, row.experiment, row.config, row.result, row.seeds) for row in store.rows()]


def test_kills_lose_only_what_was_running(tmp_path):
    count, wait = 40, 0.05
    with Store(tmp_path / "whole", create=True) as store:
        for number in range(count):
            store.save(Square(number, wait), outcome(number**2))
    seen, kills = 0, 0
    while seen < count:
        process = run(tmp_path / "killed", count, wait)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if len(_ids(tmp_path / "killed")) >= min(seen + 9, count):
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.005)
        process.communicate(timeout=60)
        now = len(_ids(tmp_path / "killed"))
        assert now > seen
        seen = now
    assert kills >= 3
    assert table(tmp_path / "killed") == table(tmp_path / "whole")
    with sqlite3.connect(tmp_path / "killed" / FILE) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def _ids(folder):
    try:
        with Store(folder) as store:
            return store.finished()
    except (ValueError, sqlite3.OperationalError):
        return set()
