from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from strongticket.search import randomize
from strongticket.search.regions import assemble

transformers = pytest.importorskip("transformers")


def gpt2(**sizes):
    config = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 300, "n_positions": 32}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**(config | sizes)))


def deviations(model):
    return {name: parameter.std().item() for name, parameter in model.named_parameters() if parameter.ndim == 2}


def test_gpt2_has_the_deviations_of_the_paper():
    model = gpt2()
    randomize(model, seed=0, init="gpt2")
    for name, deviation in deviations(model).items():
        residual = math.sqrt(2 * 2) if name.endswith("c_proj.weight") else 1.0
        assert deviation == pytest.approx(0.02 / residual, rel=0.05), name


def test_matched_keeps_the_gain_at_another_width():
    model = gpt2()
    randomize(model, seed=0, init="gpt2-matched")
    found = deviations(model)
    assert found["transformer.wte.weight"] == pytest.approx(0.02 * 768 / 64, rel=0.05)
    assert found["transformer.h.0.mlp.c_fc.weight"] == pytest.approx(0.02 * math.sqrt(768 / 64), rel=0.05)
    assert found["transformer.h.0.mlp.c_proj.weight"] == pytest.approx(0.02 * math.sqrt(768 / 64) / 2, rel=0.05)


@pytest.mark.parametrize("init", ["signed", "uniform"])
def test_other_laws_have_the_matched_deviations(init):
    model, other = gpt2(), gpt2()
    randomize(model, seed=0, init=init)
    randomize(other, seed=0, init="gpt2-matched")
    for name, deviation in deviations(other).items():
        assert deviations(model)[name] == pytest.approx(deviation, rel=0.05)
    if init == "signed":
        assert model.transformer.wpe.weight.abs().unique().numel() == 1


@pytest.mark.parametrize(("qk_scale", "factor"), [(3.0, 3.0), ("theory", 16**0.25)])
def test_the_scale_acts_on_exactly_query_and_key(qk_scale, factor):
    model, plain = gpt2(), gpt2()
    sources = randomize(model, seed=5, qk_scale=qk_scale)
    randomize(plain, seed=5, qk_scale=1.0)
    for (name, scaled), (_, weight) in zip(model.named_parameters(), plain.named_parameters(), strict=True):
        expected = weight.detach().clone()
        if name.endswith("c_attn.weight"):
            expected[:, :128] *= factor
        torch.testing.assert_close(scaled.detach(), expected, rtol=1e-6, atol=0)
    key = "transformer.h.1.attn.c_attn.weight"
    assert [name for name in sources if name.startswith(key)] == [
        f"{key}[:, 0:64]",
        f"{key}[:, 64:128]",
        f"{key}[:, 128:192]",
    ]
    assert np.array_equal(assemble(sources, key, (64, 192)), model.transformer.h[1].attn.c_attn.weight.detach().numpy())


def test_a_tied_head_is_drawn_once_and_stays_tied():
    model = gpt2()
    sources = randomize(model, seed=0)
    assert "lm_head.weight" not in sources
    assert model.lm_head.weight.data_ptr() == model.transformer.wte.weight.data_ptr()
    untied = gpt2(tie_word_embeddings=False)
    assert "lm_head.weight" in randomize(untied, seed=0)


def test_same_seed_same_bits_and_names_are_independent():
    a, b, c = gpt2(), gpt2(), gpt2()
    assert randomize(a, seed=1) == randomize(b, seed=1)
    randomize(c, seed=2)
    for first, second in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(first, second)
    assert not torch.equal(a.transformer.wte.weight, c.transformer.wte.weight)
    h = a.transformer.h
    assert not torch.equal(h[0].mlp.c_fc.weight, h[1].mlp.c_fc.weight)


def test_norms_and_biases():
    model = gpt2()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    randomize(model, seed=0)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            assert torch.equal(parameter, torch.full_like(parameter, float(name.endswith("weight")))), name


def test_separate_projections_and_torch_attention():
    bert = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
        )
    )
    sources = randomize(bert, seed=0, init="gpt2", qk_scale=4.0)
    law = {name.split(".")[-2]: source.law.s for name, source in sources.items() if ".self." in name}
    assert law == pytest.approx({"query": 0.08, "key": 0.08, "value": 0.02})
    layer = nn.TransformerEncoderLayer(16, 4, 32)
    sources = randomize(layer, seed=0, init="gpt2", qk_scale="theory")
    assert sources["self_attn.in_proj_weight[0:16]"].law.s == pytest.approx(0.02 * 4**0.25)
    assert sources["self_attn.in_proj_weight[32:48]"].law.s == pytest.approx(0.02)
    assert sources["linear2.weight"].law.s == pytest.approx(0.02 / math.sqrt(2))


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (nn.Linear(3, 3), {"qk_scale": 2.0}, "none were found"),
        (nn.Linear(3, 3), {"qk_scale": "theory"}, "head size"),
        (nn.Linear(3, 3), {"qk_scale": "much"}, "number or"),
        (nn.Linear(3, 3), {"qk_scale": -1.0}, "positive"),
        (nn.Linear(3, 3), {"init": "xavier"}, "gpt2, gpt2-matched, signed, uniform"),
        (nn.ReLU(), {}, "no linear layer"),
    ],
)
def test_bad_input_is_refused(model, options, words):
    with pytest.raises(ValueError, match=words):
        randomize(model, seed=0, **options)
