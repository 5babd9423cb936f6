from __future__ import annotations

import pytest
from sample_trials import KillsItsWorker, Square, SumOfTwo

from strongticket.experiments.runner import TrialsFailedError, run_trials
from strongticket.experiments.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path, create=True) as opened:
        yield opened


def test_needs_run_first_and_their_results_are_handed_on(store):
    seen = []
    assert run_trials([SumOfTwo(Square(3), Square(4))], store, jobs=1, progress=seen.append) == 3
    assert seen == [1, 1, 1]
    assert {row.experiment: row.result for row in store.rows()}["sum"] == {"sum": 25}


def test_nothing_runs_twice(store):
    trials = [Square(number) for number in range(5)]
    assert run_trials(trials[:3], store, jobs=1) == 3
    before = store.rows()
    assert run_trials(trials, store, jobs=1) == 2
    assert run_trials(trials, store, jobs=1) == 0
    assert [row for row in store.rows() if row in before] == before


def test_processes_give_what_one_process_gives(store, tmp_path):
    trials = [SumOfTwo(Square(number), Square(number + 1)) for number in range(4)]
    run_trials(trials, store, jobs=2)
    with Store(tmp_path / "alone", create=True) as alone:
        run_trials(trials, alone, jobs=1)
        assert [(r.id, r.result) for r in alone.rows()] == [(r.id, r.result) for r in store.rows()]


def test_facts_about_the_run_are_stored(store):
    run_trials([Square(2)], store, jobs=1)
    (row,) = store.rows()
    assert {"strongticket", "python", "numpy", "numba", "torch", "scipy"} <= set(row.versions)
    assert {"cores", "machine"} <= set(row.host)
    assert row.seconds >= 0.0
    assert row.seeds == [2]


def test_a_failing_trial_does_not_stop_the_others(store):
    with pytest.raises(RuntimeError, match=r"1 trials failed and were not stored(.|\n)*no square of -1 today"):
        run_trials([Square(-1), SumOfTwo(Square(-1), Square(2)), Square(5)], store, jobs=1)
    assert {row.config["number"] for row in store.rows()} == {2, 5}


def test_trials_lost_with_a_worker_process_run_again(store, tmp_path):
    trials = [KillsItsWorker(str(tmp_path / "marker")), *(Square(number) for number in range(4))]
    assert run_trials(trials, store, jobs=2) == 5
    assert len(store.rows()) == 5


def test_a_trial_that_always_ends_its_worker_is_given_up(store, tmp_path):
    with pytest.raises(TrialsFailedError, match="1 trials got lost with their workers 3 times"):
        run_trials([KillsItsWorker(str(tmp_path / "missing" / "marker"), always=True)], store, jobs=2)


def test_two_runs_cannot_write_into_one_folder(store, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another run is writing into"):
            run_trials([Square(1)], store, jobs=1)
    assert run_trials([Square(1)], store, jobs=1) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jobs": 0}, "jobs must be at least 1, got 0"),
        ({"cluster": "host:8786"}, "a cluster is given as dask://HOST:PORT, got 'host:8786'"),
        ({"cluster": "dask://host"}, "a cluster is given as dask://HOST:PORT"),
    ],
)
def test_mistakes_are_told_before_any_work(store, arguments, message):
    with pytest.raises(ValueError, match=message):
        run_trials([Square(1)], store, **arguments)
    assert store.rows() == []
