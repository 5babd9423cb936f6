"""A construction is a list of independent tasks, one per (block, head, pair), run here or on workers."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from strongticket.construct.linear import prune_pair
from strongticket.construct.progress import counting
from strongticket.construct.relu import prune_relu_pair
from strongticket.parallel import resolve_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from strongticket.construct.pair import Pair
    from strongticket.construct.progress import Progress
    from strongticket.construct.search import Search
    from strongticket.source import Source

_SMALL = 2_000_000


@dataclass(frozen=True, eq=False)
class PairTask:
    """Prune one pair of sources; ``nonnegative`` is None for a linear pair, see ``relu`` otherwise."""

    target: NDArray[np.float64]
    sources: tuple[Source, Source]
    search: Search
    name: str
    scale: float = 1.0
    nonnegative: bool | None = None

    @property
    def subset_sums(self) -> int:
        """How many subset sums the task counts to."""
        rows, columns = self.target.shape
        if self.nonnegative is not None:
            columns *= 1 if self.nonnegative else 2
        elif self.search.layout != "paper" and rows < columns:
            rows, columns = columns, rows
        return self.search.subset_sums(rows, columns, self.sources[0].shape[0])

    def with_one_thread(self) -> PairTask:
        """The task for a worker among others: one thread, unless a number of threads was asked for."""
        return self if self.search.threads is not None else replace(self, search=replace(self.search, threads=1))

    def run(self, progress: Callable[[int], Any] | None = None) -> Pair:
        """Find the masks."""
        if self.nonnegative is not None:
            return prune_relu_pair(
                self.target,
                self.sources,
                self.search,
                name=self.name,
                nonnegative=self.nonnegative,
                progress=progress,
            )
        return prune_pair(self.target, self.sources, self.search, name=self.name, scale=self.scale, progress=progress)


def run_tasks(
    tasks: Sequence[PairTask],
    *,
    workers: int | None = None,
    backend: str = "loky",
    progress: Progress = None,
) -> list[Pair]:
    """The pairs of all tasks, in order; the masks do not depend on where or in which order they were found.

    ``workers`` processes (every core by default) of the joblib ``backend``: "loky" for processes on this machine,
    "threading", or "dask" and "ray" where such a cluster has been connected to. Each worker solves with one
    thread. Small jobs, under two million subset sums, and single tasks run in this process, with threads, unless
    ``workers`` or another backend is asked for. ``progress`` is called with the subset sums solved, or "bar".
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}; leave it out to use every core")
    total = sum(task.subset_sums for task in tasks)
    with counting(progress, total) as advance:
        if backend == "loky" and (workers == 1 or (workers is None and (len(tasks) == 1 or total < _SMALL))):
            return [task.run(advance) for task in tasks]
        return _run_on_workers(tasks, workers, backend, advance)


def _run_on_workers(
    tasks: Sequence[PairTask], workers: int | None, backend: str, progress: Callable[[int], Any] | None
) -> list[Pair]:
    alone = [task.with_one_thread() for task in tasks]
    largest_first = sorted(range(len(tasks)), key=lambda place: -tasks[place].subset_sums)
    found: dict[int, Pair] = {}
    with closing(unordered(_run, ((place, alone[place]) for place in largest_first), workers, backend)) as results:
        for place, pair in results:
            found[place] = pair
            if progress is not None:
                progress(tasks[place].subset_sums)
    return [found[place] for place in range(len(tasks))]


def _run(place: int, task: PairTask) -> tuple[int, Pair]:
    return place, task.run()


def unordered(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], workers: int | None, backend: str
) -> Generator[Any, None, None]:
    """What ``function`` returns for each of ``arguments``, taken when a worker is free, in the order of finishing.

    Close it to cancel what is left.
    """
    import joblib

    jobs = workers if workers is not None else resolve_threads(None) if backend in ("loky", "threading") else -1
    with joblib.parallel_config(backend, n_jobs=jobs):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        results = parallel(joblib.delayed(function)(*values) for values in arguments)
        try:
            for result in results:  # noqa: UP028 - close() must reach joblib's generator below, not here
                yield result
        finally:
            with warnings.catch_warnings():
                # Closed before the end, joblib cancels what still runs, as it should, and warns about it.
                warnings.filterwarnings("ignore", message=".*tasks")
                results.close()
