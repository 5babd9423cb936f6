"""A small store with real trials, made once per test run."""

from __future__ import annotations

from strongticket.experiments.attention_trials import AttentionTrial, TargetTrial
from strongticket.experiments.runner import run_trials, with_needs
from strongticket.experiments.store import Store
from strongticket.experiments.transformer_trials import TransformerTrial
from strongticket.experiments.width_trials import CalibrationTrial, MatrixTrial, PracticeTrial

SETTINGS = {"preset": "quick", "seeds": 2}


def sample_plans():
    target = TargetTrial(epochs=1)
    kinds = (("paper", "theory"), ("assigned", "theory"), ("paper", "xavier"), ("paper", "section-4.1"))
    fig4 = [
        AttentionTrial(target, width, layout, init, 5 if layout == "assigned" else 0, (4,), 8, 5, 0, 2)
        for layout, init in kinds
        for width in (4, 12, 20)
    ]
    lengths = (4, 16, 64, 256, 1024, 4096)
    fig5 = [AttentionTrial(target, width, "paper", "theory", 0, lengths, 2, 3, 0, 2) for width in (8, 16)]
    fig6 = [TransformerTrial(0, 6, width, "paper", 0, 1e-3, 4, 4, 0, 2) for width in (8, 16, 32)]
    fig9 = [
        MatrixTrial(d, items, layout, refine, 1e-3, 0, 2)
        for layout, refine in (("paper", 0), ("assigned", 0), ("assigned", 200))
        for d in (2, 8)
        for items in (4, 24)
    ]
    fig10 = [PracticeTrial(2, width, layout, 0, 0, 10) for layout in ("paper", "assigned") for width in (8, 40)]
    fig10 += [CalibrationTrial(0.0078125, 600)]
    return {"fig4": fig4, "fig5": fig5, "fig6": fig6, "fig9": fig9, "fig10": fig10}


def make_sample_store(folder):
    plans = sample_plans()
    with Store(folder, create=True) as store:
        for figure, trials in plans.items():
            store.ask(figure, "quick", SETTINGS, with_needs(trials))
        run_trials([trial for trials in plans.values() for trial in trials], store, jobs=1)
    return folder
