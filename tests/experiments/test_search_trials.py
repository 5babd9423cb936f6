from __future__ import annotations

import math

import pytest

from strongticket.experiments import fig7, fig8, language_models
from strongticket.experiments.options import Options
from strongticket.experiments.search_trials import SearchTrial

pytest.importorskip("transformers")


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_planned_search_has_valid_settings(preset):
    from strongticket.search.settings import SearchSettings

    options = Options(preset=preset)
    for trial in {*fig7.plan(options), *fig8.plan(options)}:
        config = {key: value for key, value in trial.config().items() if value != 0 or key == "seed"}
        settings = SearchSettings.from_dict(config).resolved()
        settings.check()
        head = settings.config().n_embd // settings.config().n_head
        assert head == language_models.HEAD
        assert settings.seed == trial.seed
        assert settings.density == 0.3
    if preset == "paper":
        assert settings.steps == 50 * 227
        assert settings.corpus == "wikitext-103"


def test_figures_7_and_8_share_trials():
    shared = {t.id for t in fig7.plan(Options())} & {t.id for t in fig8.plan(Options())}
    assert len(shared) == 2 * 2 * 3


@pytest.mark.parametrize("mode", ["search", "dense"])
def test_a_short_search(mode, capsys):
    trial = SearchTrial(mode, "gpt2-tiny", 1, 64, 1, "embedded", "laptop", "best", 2, 0.3, 2.0, 0)
    found = trial.run({})
    assert capsys.readouterr() == ("", "")
    assert 5.0 < found["loss"] < 12.0
    assert math.isfinite(found["loss"])
    if mode == "dense":
        assert found["nonzero"] == found["parameters"]
    else:
        assert found["nonzero"] == pytest.approx(0.3 * found["parameters"], rel=0.02)
