"""A real scheduler with two workers, one of which is killed while trials run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strongticket.experiments.store import Store

pytest.importorskip("distributed")
HERE = Path(__file__).parent
COUNT = 24


def start(*arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "DASK_DISTRIBUTED__WORKER__DAEMON": "False",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def cluster(tmp_path):
    scheduler = start("-m", "distributed.cli.dask_scheduler", "--port", 0, "--host", "127.0.0.1", "--no-dashboard")
    address = next(found[1] for line in scheduler.stderr if (found := re.search(r"tcp://(127\.0\.0\.1:\d+)", line)))
    options = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--memory-limit", 0)
    workers = [
        start("-m", "distributed.cli.dask_worker", f"tcp://{address}", *options, "--local-directory", tmp_path / str(n))
        for n in range(2)
    ]
    yield f"dask://{address}", workers
    for process in (*workers, scheduler):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finished(folder):
    try:
        with Store(folder) as store:
            return len(store.finished())
    except ValueError:
        return 0


def test_a_killed_worker_loses_nothing(cluster, tmp_path):
    address, workers = cluster
    folder = tmp_path / "results"
    run = start(HERE / "sample_trials.py", folder, COUNT, 0.25, address)
    deadline = time.monotonic() + 60
    while finished(folder) < 4:
        assert time.monotonic() < deadline
        assert run.poll() is None, run.stderr.read()
        time.sleep(0.02)
    os.killpg(workers[0].pid, signal.SIGKILL)
    assert finished(folder) < COUNT - 4
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    with Store(folder) as store:
        assert sorted(row.result["square"] for row in store.rows()) == [number**2 for number in range(COUNT)]
    assert workers[1].poll() is None
