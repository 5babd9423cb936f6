"""The figures by name: what each is made of and what is shown of it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongticket.experiments.options import Options
    from strongticket.experiments.store import Store
    from strongticket.experiments.trial import Trial
    from strongticket.experiments.view import Check, View

FIGURES = ("fig4", "fig5", "fig6", "fig7", "fig8", "fig9", "fig10")
ALL = "all"


def checked_figures(names: Sequence[str]) -> list[str]:
    """The names in order, each once, "all" spelled out; an unknown one is refused."""
    unknown = [name for name in names if name not in (*FIGURES, ALL)]
    if unknown:
        raise ValueError(f"unknown figure {unknown[0]!r}; choose from {', '.join(FIGURES)} or {ALL}")
    return [name for name in FIGURES if ALL in names or name in names]


def plan_of(name: str, options: Options) -> list[Trial]:
    """The trials that a figure is made of."""
    return _module(name).plan(options)


def views(store: Store) -> list[View]:
    """What is shown of every figure that was asked for, as far as its trials are done."""
    found = []
    for plan in sorted((p for p in store.plans() if p.figure in FIGURES), key=lambda p: FIGURES.index(p.figure)):
        rows = store.rows(plan.trials)
        targets = [row for row in rows if row.experiment == "target"]
        others = [row for row in rows if row.experiment != "target"]
        if others:
            view = _module(plan.figure).view(plan, others, targets[0] if targets else None)
            facts = {"trials": f"{len(rows)} of {len(plan.trials)}", "compute": f"{sum(r.seconds for r in rows):.0f} s"}
            versions = {f"{name} version": value for name, value in rows[-1].versions.items()}
            checks = (
                view.checks if len(rows) == len(plan.trials) else [_unfinished(c, facts["trials"]) for c in view.checks]
            )
            found.append(replace(view, checks=checks, settings={**view.settings, **facts, **rows[-1].host, **versions}))
    return found


def _unfinished(check: Check, done: str) -> Check:
    """No verdict before all trials are done: missing points could turn it."""
    if check.verdict not in ("agrees", "differs"):
        return check
    return replace(check, verdict="open", measured=f"So far, {done} trials: {check.measured}")


def _module(name: str) -> Any:
    return import_module(f"strongticket.experiments.{name}")
