"""Run the trials of figures into a folder; what is there already is not run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongticket.experiments.catalogue import checked_figures, plan_of
from strongticket.experiments.options import Options
from strongticket.experiments.runner import check_workers, run_trials, with_needs
from strongticket.experiments.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Progress = Callable[[int], Any]


def reproduce(
    figures: Sequence[str],
    folder: Path,
    options: Options | None = None,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    resume: bool = True,
    start: Callable[[int], Progress] | None = None,
) -> int:
    """Run what the named figures need into ``folder/results.sqlite``; the number of trials run.

    ``resume=False`` drops the results of these trials first. ``start`` is called once with the number of trials
    to run and gives the function that counts them. Other arguments as in ``run_trials``.
    """
    options = options or Options()
    check_workers(jobs, cluster)
    plans = {name: with_needs(plan_of(name, options)) for name in checked_figures(figures)}
    everything = with_needs([trial for trials in plans.values() for trial in trials])
    with Store(folder, create=True) as store:
        if not resume:
            store.forget(everything)
        for name, trials in plans.items():
            store.ask(name, options.preset, options.to_dict(), trials)
        done = store.finished()
        left = sum(trial.id not in done for trial in everything)
        progress = None if start is None else start(left)
        return run_trials(everything, store, jobs=jobs, cluster=cluster, progress=progress)
