"""The id of a trial is part of every store: it must not change."""

from __future__ import annotations

import json

import pytest
from sample_trials import Square, SumOfTwo

from strongticket.experiments.attention_trials import AttentionTrial, TargetTrial
from strongticket.experiments.catalogue import FIGURES, plan_of
from strongticket.experiments.options import Options
from strongticket.experiments.runner import with_needs
from strongticket.experiments.search_trials import SearchTrial
from strongticket.experiments.transformer_trials import TransformerTrial
from strongticket.experiments.trial import canonical_json
from strongticket.experiments.width_trials import CalibrationTrial, MatrixTrial, PracticeTrial

TARGET = TargetTrial(seed=3, token="zero")


@pytest.mark.parametrize(
    ("trial", "pinned"),
    [
        (TARGET, "adeaf1038ae8a876"),
        (AttentionTrial(TARGET, 8, "paper", "theory", 0, (4, 16), 32, 5, 20, 10), "c0058bd5a10773d1"),
        (TransformerTrial(0, 6, 16, "paper", 0, 1e-8, 4, 64, 0, 10), "5d1b746172c261b1"),
        (MatrixTrial(8, 12, "assigned", 200, 1e-3, 0, 10), "f370c85f0f86b48b"),
        (PracticeTrial(2, 16, "paper", 0, 0, 20), "6d48ff86d8155d13"),
        (CalibrationTrial(0.001, 10_000), "d6853b65a90bea44"),
        (
            SearchTrial("search", "gpt2-tiny", 2, 128, 2, "embedded", "laptop", "best", 0, 0.3, 2.8284, 1),
            "e53e289e6336a337",
        ),
    ],
)
def test_ids_are_pinned(trial, pinned):
    assert trial.id == pinned


def test_configurations_are_plain_json_and_name_their_kind():
    trial = AttentionTrial(TARGET, 8, "paper", "theory", 0, (4, 16), 32, 5, 20, 10)
    config = json.loads(canonical_json(trial.config()))
    assert config["kind"] == "attention"
    assert config["target"] == {"kind": "target", "seed": 3, "token": "zero", "epochs": 25}
    assert trial.seeds == tuple(range(20, 30))


def test_every_setting_changes_the_id():
    assert len({Square(1).id, Square(2).id, Square(1, 0.5).id, TARGET.id, TargetTrial(seed=3).id}) == 5


def test_numbers_that_json_does_not_know_are_refused():
    with pytest.raises(ValueError, match="Out of range"):
        _ = Square(1, float("nan")).id


def test_needs_come_first_and_once():
    one, two = Square(1), Square(2)
    ordered = with_needs([SumOfTwo(one, two), SumOfTwo(two, one), one])
    assert ordered == [one, two, SumOfTwo(one, two), SumOfTwo(two, one)]


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_no_plan_has_a_trial_twice(name, preset):
    trials = plan_of(name, Options(preset=preset))
    assert len({trial.id for trial in trials}) == len(trials) > 5


def test_more_seeds_keep_the_trials_that_are_done():
    few = {trial.id for trial in plan_of("fig4", Options(seeds=40)) if trial.config()["layout"] == "paper"}
    many = {trial.id for trial in plan_of("fig4", Options(preset="paper"))}
    assert few < many
