"""Tasks, one per block, head and pair: the same masks wherever they run, progress, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
import torch

from strongticket import construct
from strongticket.construct import AttentionTarget, BlockTarget, tasks
from strongticket.construct.attention import attention_tasks
from strongticket.construct.draw import Draw
from strongticket.construct.search import Search


def target(seed=0, heads=2, size=0.6):
    rng = np.random.default_rng(seed)
    return AttentionTarget.from_matrices(*rng.uniform(-size, size, (4, heads, 3, 3)))


def blocks():
    rng = np.random.default_rng(1)
    return [BlockTarget(target(b, heads=1), rng.uniform(-0.5, 0.5, (2, 3, 3))) for b in range(2)]


def masks(found):
    return [mask.tobytes() for pair in found.pairs for mask in pair.masks]


@pytest.fixture(scope="module", autouse=True)
def _no_workers_left():
    yield
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True, kill_workers=True)


@pytest.fixture(scope="module")
def settings():
    return {"items": 10, "seed": 5, "refine": 6}


@pytest.fixture(scope="module")
def alone(settings):
    return masks(construct.attention(target(), workers=1, **settings))


class TestSameMasksEverywhere:
    @pytest.mark.parametrize(
        "where",
        [
            {},
            {"workers": 2},
            {"workers": 2, "backend": "threading"},
            {"backend": "threading"},
            {"workers": 2, "backend": "sequential"},
            {"workers": 1, "threads": 1},
            {"workers": 1, "threads": 2},
            {"workers": 2, "threads": 2},
        ],
        ids=str,
    )
    def test_attention(self, alone, settings, where):
        assert masks(construct.attention(target(), **settings, **where)) == alone

    def test_transformer(self, settings):
        wanted = masks(construct.transformer(blocks(), workers=1, **settings))
        assert masks(construct.transformer(blocks(), workers=2, **settings)) == wanted

    @pytest.mark.slow
    def test_a_layer_of_64_inputs_and_4_heads(self):
        torch.manual_seed(0)
        layer = torch.nn.MultiheadAttention(64, 4, batch_first=True)
        one, two = (construct.attention(layer, items=14, refine=100, workers=workers) for workers in (1, 2))
        assert masks(one) == masks(two)
        report = two.report(torch.randn(2, 30, 64), is_causal=True)
        assert report.output_error <= report.certificate
        assert report.output_error < 0.1

    def test_other_seeds_are_other_masks(self, alone, settings):
        assert masks(construct.attention(target(), workers=1, **settings | {"seed": 6})) != alone

    def test_a_large_job_goes_to_workers_by_itself(self, alone, settings, monkeypatch):
        monkeypatch.setattr(tasks, "_SMALL", 0)
        monkeypatch.setattr(tasks, "resolve_threads", lambda _threads: 2)
        used = []
        configured = joblib.parallel_config
        monkeypatch.setattr(
            joblib,
            "parallel_config",
            lambda backend, n_jobs: used.append((backend, n_jobs)) or configured(backend, n_jobs=n_jobs),
        )
        assert masks(construct.attention(target(), **settings)) == alone
        assert used == [("loky", 2)]


class TestThreads:
    def test_a_worker_solves_with_one_thread(self, settings):
        found = construct.attention(target(), workers=2, **settings)
        assert {pair.settings["threads"] for pair in found.pairs} == {1}

    def test_unless_told_otherwise(self, settings):
        found = construct.attention(target(), workers=2, threads=2, **settings)
        assert {pair.settings["threads"] for pair in found.pairs} == {2}

    @pytest.mark.parametrize("workers", [0, -1])
    def test_too_few_workers(self, settings, workers):
        with pytest.raises(ValueError, match=f"workers must be at least 1, got {workers}"):
            construct.attention(target(), workers=workers, **settings)


class TestDask:
    def test_two_workers_of_a_scheduler_find_the_same_masks(self, alone, settings):
        distributed = pytest.importorskip("distributed", reason="needs the extra strongticket[dask]")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.wait_for_workers(2, timeout=60)
            processes = set(client.run(os.getpid).values())
            assert len(processes) == 2
            assert os.getpid() not in processes
            counted = []
            found = construct.attention(target(), backend="dask", progress=counted.append, **settings)
            ran_on = client.run(lambda dask_worker: dask_worker.state.executed_count)
            assert sum(ran_on.values()) > 0
        assert masks(found) == alone
        assert len(counted) == 4
        for process in processes:
            with pytest.raises(ProcessLookupError):
                os.kill(process, 0)

    def test_without_a_cluster_it_says_what_to_do(self, settings):
        pytest.importorskip("distributed", reason="needs the extra strongticket[dask]")
        with pytest.raises(ValueError, match="first create a Dask Client"):
            construct.attention(target(), backend="dask", **settings)


class TestProgress:
    @pytest.mark.parametrize("layout", ["paper", "assigned"])
    @pytest.mark.parametrize("where", [{"workers": 1}, {"workers": 2}], ids=str)
    def test_attention_counts_to_the_total(self, settings, layout, where):
        todo = attention_tasks(target(), Draw(items=10, seed=5), Search(layout=layout, refine=6), name="attention")
        counted = []
        construct.attention(target(), progress=counted.append, layout=layout, **settings, **where)
        assert min(counted) > 0
        assert sum(counted) == sum(task.subset_sums for task in todo)

    def test_transformer_counts_to_the_total(self, settings, monkeypatch):
        totals, counted = [], []
        run = tasks.run_tasks

        def noted(todo, **how):
            totals.append(sum(task.subset_sums for task in todo))
            return run(todo, **how)

        monkeypatch.setattr(sys.modules["strongticket.construct.transformer"], "run_tasks", noted)
        construct.transformer(blocks(), progress=counted.append, **settings)
        assert [sum(counted)] == totals

    def test_each_task_counts_its_own(self):
        for task in attention_tasks(target(), Draw(width=31), Search(refine=3), name="attention"):
            counted = []
            task.run(counted.append)
            assert sum(counted) == task.subset_sums


class TestInterruption:
    @pytest.mark.parametrize(
        "where",
        [{"workers": 1}, {"workers": 2}, {"workers": 2, "backend": "threading"}],
        ids=str,
    )
    def test_ctrl_c_in_the_progress_is_passed_on(self, settings, where):
        def interrupt(_count):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            construct.attention(target(), progress=interrupt, **settings, **where)
        found = construct.attention(target(), workers=2, **settings)
        assert len(found.pairs) == 4

    def test_an_error_in_a_worker_is_passed_on(self, settings):
        with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
            construct.attention(target(), workers=2, threads=0, **settings)

    @pytest.mark.slow
    @pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
    def test_ctrl_c_in_a_terminal_ends_every_process(self):
        script = (
            "import numpy as np\n"
            "from strongticket import construct\n"
            "target = construct.AttentionTarget.from_matrices(*np.full((4, 4, 8, 8), 0.3))\n"
            "construct.attention(target, items=8, refine=0, workers=2)\n"
            "print('ready', flush=True)\n"
            "construct.attention(target, items=30, refine=10**6, workers=2)\n"
            "print('not reached', flush=True)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                assert process.stdout.readline() == "ready\n"
                time.sleep(0.5)
                os.killpg(process.pid, signal.SIGINT)
                out, error = process.communicate(timeout=120)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        assert out == ""
        assert "KeyboardInterrupt" in error
        assert process.returncode != 0
        deadline = time.monotonic() + 10
        while _alive(process.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not _alive(process.pid)


def _alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_bar_shows_the_subset_sums_and_their_rate(capfd):
    plain = construct.attention(target(), items=8, refine=2)
    shown = construct.attention(target(), items=8, refine=2, progress="bar")
    assert all(
        (a == b).all()
        for p, q in zip(plain.pairs, shown.pairs, strict=True)
        for a, b in zip(p.masks, q.masks, strict=True)
    )
    line = capfd.readouterr().err
    assert "subset sums" in line
    assert "per second" in line
