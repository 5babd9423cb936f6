"""The numbers of the trials, against independent ways to get them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from strongticket import construct
from strongticket.experiments.angular import SAMPLES, draw_motions, sequences, train_target
from strongticket.experiments.attention_trials import AttentionTrial, TargetTrial, attend, target_of
from strongticket.experiments.transformer_trials import TransformerTrial, untrained_block
from strongticket.experiments.width_trials import CalibrationTrial, MatrixTrial, PracticeTrial


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As in a worker."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def target():
    trial = TargetTrial(epochs=1)
    return trial, {trial.id: trial.run({})}


def test_data_follow_the_paper():
    velocity, phase = draw_motions("train", 0)
    assert len(velocity) == len(phase) == SAMPLES == 10_000
    assert -np.pi <= float(velocity.min()) < -3.1
    assert 3.1 < float(velocity.max()) <= np.pi
    assert 0.0 <= float(phase.min()) < 0.01
    assert 3.1 < float(phase.max()) <= np.pi
    x = sequences(velocity[:3], phase[:3], 5, torch.tensor([0.5, -0.5]))
    assert x.shape == (3, 6, 2)
    assert x[:, 0].tolist() == [[0.5, -0.5]] * 3
    assert float(x[1, 4, 1]) == pytest.approx(np.sin(float(velocity[1] * 4 + phase[1])))
    assert not torch.equal(draw_motions("test", 0)[0], velocity)


def test_the_token_is_learned_or_stays_zero():
    assert np.abs(train_target(epochs=1).token).min() > 0.0
    assert train_target(epochs=1, token="zero").token.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="the token is one of learned, zero, got 'one'"):
        train_target(token="one")  # type: ignore[arg-type]


def test_training_is_the_same_every_time(target):
    trial, results = target
    assert trial.run({}) == results[trial.id]


@pytest.mark.parametrize(("layout", "init"), [("paper", "theory"), ("assigned", "theory"), ("paper", "xavier")])
def test_attention_errors_against_the_construction_s_own_report(target, layout, init):
    needed, results = target
    trial = AttentionTrial(needed, 8, layout, init, 3, (4,), 6, 5, 7, 2)
    found = trial.run(results)
    goal = target_of(results[needed.id])
    for place, seed in enumerate((7, 8)):
        built = construct.attention(goal.attention, width=8, seed=seed, layout=layout, init=init, refine=3)
        report = built.report(goal.inputs(4, 6))
        assert found["worst"]["4"][place] == pytest.approx(report.output_error, rel=1e-5)
        assert found["certificates"][place] == pytest.approx(built.certificate(goal.alpha).bound)
        assert found["token_errors"]["4"][place] <= found["errors"]["4"][place] <= found["worst"]["4"][place]
        assert found["worst"]["4"][place] <= found["certificates"][place]


def test_attend_is_torch_s_attention():
    rng = np.random.default_rng(0)
    layer = torch.nn.MultiheadAttention(4, 2, bias=False, batch_first=True, dtype=torch.float64)
    goal = construct.AttentionTarget
    read = construct.attention(layer, items=1).target
    assert isinstance(read, goal)
    x = torch.from_numpy(rng.normal(size=(3, 5, 4)))
    with torch.inference_mode():
        wanted = layer(x, x, x)[0]
    assert torch.allclose(attend(read.qk, read.vo, x, 99), wanted)
    assert torch.allclose(attend(read.qk, read.vo, x, 3), wanted[:, [0, 2, 4]])


def test_transformer_errors_are_those_of_shorter_transformers():
    trial = TransformerTrial(5, 3, 16, "paper", 0, 0.0, 4, 6, 2, 1)
    found = trial.run({})
    x = sequences(*draw_motions("test", 0, 6), 4, torch.zeros(2))
    for blocks in (1, 3):
        target = [untrained_block(5, place) for place in range(blocks)]
        built = construct.transformer(target, width=16, seed=2, layout="paper")
        with torch.inference_mode():
            off = built.module().double()(x) - built.target_module()(x)
        assert found["errors"][blocks - 1][0] == pytest.approx(float(off.norm(dim=-1).amax(dim=-1).mean()))


def test_matrix_practice_and_calibration():
    few, many = (MatrixTrial(4, items, "paper", 0, 0.0, 0, 5).run({})["max_errors"] for items in (4, 20))
    assert np.median(few) > 10 * np.median(many)
    assert len(few) == 5
    bounds = PracticeTrial(2, 40, "paper", 0, 0, 4).run({})["certificates"]
    assert all(bound > 0.0 for bound in bounds)
    found = CalibrationTrial(0.05, 400).run({})
    assert found["items_lower"] <= found["items"] <= found["items_upper"]
