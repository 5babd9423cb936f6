"""Run trials through joblib: worker processes here, or a Dask cluster. Only this process writes to the store."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
import warnings
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from strongticket.cluster import check_cluster, connected
from strongticket.experiments.store import Outcome
from strongticket.parallel import resolve_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from strongticket.experiments.store import Store
    from strongticket.experiments.trial import Result, Trial

_ATTEMPTS = 3
_PACKAGES = ("numpy", "numba", "torch", "scipy", "joblib")


class TrialsFailedError(RuntimeError):
    """Some trials raised or were lost; all others are stored."""


def with_needs(trials: Sequence[Trial]) -> list[Trial]:
    """The trials and all those that they need, each once, what is needed first."""
    ordered: dict[str, Trial] = {}

    def visit(trial: Trial) -> None:
        for need in trial.needs:
            visit(need)
        ordered.setdefault(trial.id, trial)

    for trial in trials:
        visit(trial)
    return list(ordered.values())


def run_trials(
    trials: Sequence[Trial],
    store: Store,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: Callable[[int], Any] | None = None,
) -> int:
    """Run every trial that the store does not hold yet, and store each as soon as it is done; the number run.

    ``jobs`` processes on this machine (every core by default, 1 for this process), each with one thread, or
    the workers of a Dask ``cluster`` "dask://HOST:PORT". Trials lost with a worker are handed out again, at
    most three times. A trial that raises is not stored and does not stop the others; the error follows at the end.
    ``progress`` is called with 1 for each finished trial.
    """
    check_workers(jobs, cluster)
    everything = with_needs(trials)
    done = store.finished()
    count, failures = 0, []
    with _lock(store.folder), _backend(jobs, cluster) as backend:
        while left := [trial for trial in everything if trial.id not in done]:
            ready = [trial for trial in left if all(need.id in done for need in trial.needs)]
            for trial, outcome in _hand_out(ready, _results_of_needs(ready, store), backend):
                if outcome.error is not None:
                    failures.append((trial, outcome.error))
                    everything = [other for other in everything if not _depends(other, trial)]
                    continue
                store.save(trial, outcome)
                done.add(trial.id)
                count += 1
                if progress is not None:
                    progress(1)
    if failures:
        trial, error = failures[0]
        raise TrialsFailedError(
            f"{len(failures)} trials failed and were not stored; the first is {trial.kind} {trial.id} "
            f"with {trial.config()}:\n{error}"
        )
    return count


def check_workers(jobs: int | None, cluster: str | None) -> None:
    """Refuse a wrong number of processes or address before any work."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}; leave it out to use every core")
    check_cluster(cluster)


def execute(trial: Trial, needs: dict[str, Result]) -> tuple[str, Outcome]:
    """Run one trial in a worker, with one thread, and say where and how long; errors become part of the outcome."""
    if trial.uses_torch:
        import torch

        torch.set_num_threads(1)
    start = time.perf_counter()
    result, error = None, None
    try:
        result = trial.run(needs)
    except Exception:
        error = traceback.format_exc()
    return trial.id, Outcome(result, time.perf_counter() - start, _versions(), _host(), error)


def _hand_out(
    trials: Sequence[Trial], needs: dict[str, Result], backend: dict[str, Any]
) -> Iterator[tuple[Trial, Outcome]]:
    import joblib

    waiting = {trial.id: trial for trial in trials}
    for _ in range(_ATTEMPTS):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, **backend)
        # A plain dict travels with each task; joblib would scatter other large arguments, and lose them with a worker.
        outcomes = parallel(
            joblib.delayed(execute)(trial, {need.id: needs[need.id] for need in trial.needs})
            for trial in list(waiting.values())
        )
        try:
            for key, outcome in outcomes:
                yield waiting.pop(key), outcome
        except BrokenExecutor:
            continue
        finally:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*tasks")
                outcomes.close()
        if not waiting:
            return
    raise TrialsFailedError(f"{len(waiting)} trials got lost with their workers {_ATTEMPTS} times; run again to resume")


@contextmanager
def _backend(jobs: int | None, cluster: str | None) -> Iterator[dict[str, Any]]:
    if cluster is None:
        count = resolve_threads(jobs)
        yield {"n_jobs": 1} if count == 1 else {"n_jobs": count, "backend": "loky"}
        return
    with connected(cluster):
        yield {"n_jobs": -1}


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Refuse a second run on the same folder; the lock goes with the process, however that ends."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another run is writing into {folder}; wait for it or choose another folder") from None
        yield


def _results_of_needs(trials: Sequence[Trial], store: Store) -> dict[str, Result]:
    wanted = {need.id for trial in trials for need in trial.needs}
    return {row.id: row.result for row in store.rows(wanted)} if wanted else {}


def _depends(trial: Trial, on: Trial) -> bool:
    return trial.id == on.id or any(_depends(need, on) for need in trial.needs)


def _versions() -> dict[str, str]:
    import strongticket

    found = {package: version(package) for package in _PACKAGES}
    return {"strongticket": strongticket.__version__, "python": platform.python_version(), **found}


def _host() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "gpus": 0 if torch is None else torch.cuda.device_count(),
    }
