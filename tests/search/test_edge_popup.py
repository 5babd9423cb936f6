from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from search_reference import SortedEdgePopup
from torch import nn

from strongticket.search import EdgePopup, SigmoidMask, randomize
from strongticket.search.finders.edge_popup import kept_count
from strongticket.search.finders.selecting import Group, Tensor, update_and_select


def network(dtype=torch.float32):
    return nn.Sequential(nn.Embedding(37, 24), nn.Linear(24, 41), nn.ReLU(), nn.Linear(41, 37)).to(dtype)


def batch(step, size=16):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(37, (size,), generator=generator), torch.randint(37, (size,), generator=generator)


def learn(model, optimizer, steps, first=0):
    for step in range(first, first + steps):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("form", ["numba", "torch"])
def test_equals_the_sorting_form_for_50_steps_in_float64(form, decay, monkeypatch):
    if form == "torch":
        monkeypatch.setattr("strongticket.search.finders.edge_popup._is_flat", lambda parameter: False)
    model = network(torch.float64)
    sources = randomize(model, seed=1, init="gpt2-matched")
    plain = copy.deepcopy(model)
    optimizer = EdgePopup(model, sources, density=0.3, lr=1e-2, weight_decay=decay)
    scores = {name: optimizer.state[parameter]["score"] for name, parameter in optimizer.masked()}
    reference = SortedEdgePopup(plain, dict(optimizer.weights), scores, 0.3, lr=1e-2, weight_decay=decay)
    start = {name: mask.clone() for name, mask in optimizer.masks().items()}
    for step in range(50):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        expected = reference.step(lambda run, i=inputs, t=targets: nn.functional.cross_entropy(run(i), t))
        assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
        for name, mask in reference.masks().items():
            assert torch.equal(optimizer.masks()[name], mask.bool()), (step, name)
    assert any(not torch.equal(start[name], mask) for name, mask in optimizer.masks().items())


@pytest.mark.parametrize("selection", ["layer", "global"])
@pytest.mark.parametrize("score_init", ["kaiming", "weight"])
def test_the_fused_pass_equals_torch_operations(selection, score_init, monkeypatch):
    fused, plain = network(), network()
    options = {"density": 0.2, "lr": 1e-2, "selection": selection, "score_init": score_init}
    first = EdgePopup(fused, randomize(fused, seed=2), **options)
    second = EdgePopup(plain, randomize(plain, seed=2), **options)
    learn(fused, first, 5)
    monkeypatch.setattr("strongticket.search.finders.edge_popup._is_flat", lambda parameter: False)
    learn(plain, second, 5)
    for (name, a), (_, b) in zip(first.masked(), second.masked(), strict=True):
        torch.testing.assert_close(first.state[a]["score"], second.state[b]["score"], rtol=1e-4, atol=1e-6)
        assert (first.masks()[name] != second.masks()[name]).float().mean() < 0.01


@pytest.mark.parametrize("density", [0.001, 0.3, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("selection", ["layer", "global"])
def test_density_is_exact_at_every_step(density, selection):
    model = network()
    optimizer = EdgePopup(model, randomize(model, seed=3), density=density, lr=0.05, selection=selection)
    for step in range(4):
        learn(model, optimizer, 1, step)
        counts = {name: (int(mask.sum()), mask.numel()) for name, mask in optimizer.masks().items()}
        if selection == "layer":
            assert all(kept == kept_count(size, density) for kept, size in counts.values())
        kept, size = (sum(numbers) for numbers in zip(*counts.values(), strict=True))
        assert abs(kept - density * size) < (1 if selection == "global" else len(counts))


def test_effective_weights_are_the_masked_source():
    model = network()
    optimizer = EdgePopup(model, randomize(model, seed=4), density=0.3, lr=0.05)
    learn(model, optimizer, 3)
    for name, parameter in optimizer.masked():
        mask = optimizer.masks()[name]
        assert torch.equal(parameter.detach(), torch.where(mask, optimizer.weights[name], 0.0))
    assert not model[1].bias.requires_grad
    assert torch.equal(model[1].bias, torch.zeros(41))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_selection_against_a_sort_with_ties(dtype, threads, seed, monkeypatch):
    monkeypatch.setattr("strongticket.search.finders.selecting.PIECE", 700)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 3000, 3)
    scores = [rng.choice([0.0, -0.0, 1e-42, 0.1, -0.1, 0.1000001, 3e38, *rng.normal(size=40)], n) for n in sizes]
    tensors = [Tensor(s.astype(dtype), np.ones(s.size, dtype), np.full(s.size, 7, dtype)) for s in scores]
    keys = np.abs(np.concatenate([tensor.score for tensor in tensors]))
    for keep in {1, int(sizes.sum()), *rng.integers(1, sizes.sum() + 1, 3).tolist()}:
        update_and_select([Group(tensors, keep)], threads)
        expected = np.zeros(keys.size, dtype)
        expected[np.lexsort((np.arange(keys.size), -keys))[:keep]] = 1
        assert np.array_equal(np.concatenate([tensor.effective for tensor in tensors]), expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_change_the_outcome(threads, monkeypatch):
    monkeypatch.setattr("strongticket.search.finders.selecting.PIECE", 128)
    model = network()
    optimizer = EdgePopup(model, randomize(model, seed=5), lr=0.05, selection="global", threads=threads)
    learn(model, optimizer, 3)
    monkeypatch.undo()
    other = network()
    whole = EdgePopup(other, randomize(other, seed=5), lr=0.05, selection="global", threads=1)
    learn(other, whole, 3)
    assert all(torch.equal(mask, whole.masks()[name]) for name, mask in optimizer.masks().items())


@pytest.mark.parametrize("finder", [EdgePopup, SigmoidMask])
def test_state_continues_bit_for_bit(finder):
    def made(seed=6):
        model = network()
        return model, finder(model, randomize(model, seed=seed), lr=0.03, trained=["3.bias"])

    model, optimizer = made()
    learn(model, optimizer, 3)
    saved = copy.deepcopy(optimizer.state_dict())
    bias = model[3].bias.detach().clone()
    assert set(saved["state"][0]) >= {"score", "exp_avg", "exp_avg_sq", "step"}
    learn(model, optimizer, 3, 3)
    again, resumed = made()
    resumed.load_state_dict(saved)
    with torch.no_grad():
        again[3].bias.copy_(bias)
    learn(again, resumed, 3, 3)
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(again[3].bias, torch.zeros(37))


def test_a_parameter_without_gradient_keeps_its_scores():
    model = network()
    optimizer = EdgePopup(model, randomize(model, seed=7), lr=0.05)
    before = optimizer.state[model[0].weight]["score"].clone()
    model[1](torch.ones(24)).sum().backward()
    optimizer.step()
    assert torch.equal(optimizer.state[model[0].weight]["score"], before)
    assert optimizer.state[model[1].weight]["step"] == 1


def test_schedulers_set_the_learning_rate_and_closures_are_called():
    model = network()
    optimizer = EdgePopup(model, randomize(model, seed=8), lr=0.05)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    before = optimizer.state[model[1].weight]["score"].clone()

    def closure():
        optimizer.zero_grad()
        loss = model(batch(0)[0]).logsumexp(-1).mean()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > 0
    assert torch.equal(optimizer.state[model[1].weight]["score"], before)
    assert optimizer.state[model[1].weight]["step"] == 1


def test_accumulated_gradients_act_like_one_batch():
    whole, parts = network(torch.float64), network(torch.float64)
    first = EdgePopup(whole, randomize(whole, seed=8), lr=0.05)
    second = EdgePopup(parts, randomize(parts, seed=8), lr=0.05)
    inputs, targets = batch(0)
    nn.functional.cross_entropy(whole(inputs), targets).backward()
    for part in (slice(0, 8), slice(8, 16)):
        (nn.functional.cross_entropy(parts(inputs[part]), targets[part]) / 2).backward()
    first.step()
    second.step()
    for name, mask in first.masks().items():
        assert torch.equal(mask, second.masks()[name])


def test_autograd_notices_that_weights_changed():
    model = network()
    optimizer = EdgePopup(model, randomize(model, seed=9), lr=0.05)
    version = model[1].weight._version
    learn(model, optimizer, 1)
    assert model[1].weight._version > version


def test_roles():
    model = network()
    sources = randomize(model, seed=10)
    optimizer = EdgePopup(model, sources, masked=["1.*"], trained=["*.bias"])
    assert optimizer.roles == {
        "0.weight": "frozen",
        "1.weight": "masked",
        "1.bias": "trained",
        "3.weight": "frozen",
        "3.bias": "trained",
    }
    assert torch.equal(model[0].weight, torch.from_numpy(sources["0.weight"].weights()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"density": 0.0}, r"density .* \(0, 1\], got 0.0"),
        ({"density": 1.5}, r"density"),
        ({"density": float("nan")}, r"density"),
        ({"selection": "tensor"}, r"selection must be one of layer, global"),
        ({"score_init": "zero"}, r"score_init must be one of kaiming, weight"),
        ({"lr": -1.0}, r"lr=-1.0"),
        ({"masked": ["nothing.*"]}, r"'nothing.\*' matches no parameter"),
    ],
)
def test_bad_input_is_refused(options, words):
    model = network()
    with pytest.raises(ValueError, match=words):
        EdgePopup(model, randomize(model, seed=0), **options)


def test_sigmoid_stays_near_the_density():
    model = network()
    optimizer = SigmoidMask(model, randomize(model, seed=11), density=0.3, lr=0.05)
    assert optimizer.densities()["all"] == pytest.approx(0.3, abs=0.01)
    before = optimizer.masks()
    learn(model, optimizer, 40)
    assert optimizer.densities()["all"] == pytest.approx(0.3, abs=0.05)
    assert any(not torch.equal(mask, before[name]) for name, mask in optimizer.masks().items())


def test_autocast_clipping_and_compilation_need_no_change():
    plain, other = network(), network()
    first = EdgePopup(plain, randomize(plain, seed=12), lr=0.05)
    second = EdgePopup(other, randomize(other, seed=12), lr=0.05)
    compiled = torch.compile(other, backend="eager")
    for step in range(3):
        inputs, targets = batch(step)
        for model, optimizer in ((plain, first), (compiled, second)):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(inputs).float(), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
    assert all(torch.equal(mask, second.masks()[name]) for name, mask in first.masks().items())
    assert int(plain[1].weight.count_nonzero()) == kept_count(24 * 41, 0.3)


def test_other_types_use_torch_operations():
    model = network().to(torch.bfloat16)
    optimizer = EdgePopup(model, randomize(model, seed=13), lr=0.05, selection="global")
    learn(model, optimizer, 2)
    assert optimizer.densities()["all"] == pytest.approx(0.3, abs=1e-3)


def test_equal_scores_are_kept_in_order():
    model = nn.Linear(4, 5, bias=False)
    optimizer = EdgePopup(model, randomize(model, seed=0, init="signed"), density=0.5, score_init="weight")
    assert optimizer.masks()["weight"].flatten().tolist() == [True] * 10 + [False] * 10
