"""Merged matrices read from Hugging Face models do what the models' own layers do."""

import copy

import numpy as np
import pytest
import torch

from strongticket.construct.targets import read_model

transformers = pytest.importorskip("transformers")

BLOCKS, SIZE, HEADS, EXACT = 2, 32, 4, 1e-12
CLASSES = ["BertModel", "BertForMaskedLM", "GPT2Model", "GPT2LMHeadModel"]


def example(cls, seed=0, **options):
    """A small model with random weights and random biases."""
    sizes = {"vocab_size": 50, "hidden_size": SIZE, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS}
    if cls.startswith("Bert"):
        sizes |= {"intermediate_size": 48, "max_position_embeddings": 40}
        config = transformers.BertConfig(**sizes, attn_implementation="eager", **options)
    else:
        ends = {"n_positions": 40, "bos_token_id": 49, "eos_token_id": 49, "pad_token_id": 0}
        config = transformers.GPT2Config(**sizes, **ends, attn_implementation="eager", **options)
    torch.manual_seed(seed)
    model = getattr(transformers, cls)(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def merged_output(target, x, causal):
    """Σ_j softmax(x̃ W_QK xᵀ) x̃ W_VO in NumPy."""
    extended = np.hstack([x, np.ones((len(x), 1))])
    out = np.zeros_like(x)
    for qk, vo in zip(target.qk, target.vo, strict=True):
        logits = extended @ qk @ x.T
        if causal:
            logits[np.triu_indices(len(x), 1)] = -np.inf
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        out += weights / weights.sum(axis=1, keepdims=True) @ extended @ vo
    return out


def own_output(model, family, path, x):
    """The output of the attention layer itself, in float64, before residual connection and LayerNorm."""
    layer = copy.deepcopy(model.get_submodule(path)).double()
    hidden = torch.from_numpy(x)[None]
    with torch.no_grad():
        if family == "bert":
            return layer.output.dense(layer.self(hidden)[0])[0].numpy()
        mask = torch.full((len(x), len(x)), -torch.inf, dtype=torch.float64).triu(1)[None, None]
        return layer(hidden, attention_mask=mask)[0][0].numpy()


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        *[(cls, {}) for cls in CLASSES],
        ("GPT2Model", {"scale_attn_by_inverse_layer_idx": True}),
        ("GPT2Model", {"scale_attn_weights": False}),
        ("GPT2Model", {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True}),
    ],
)
def test_attention_as_the_model_computes_it(cls, options):
    model = example(cls, **options)
    target = read_model(model)
    x = np.random.default_rng(1).standard_normal((7, SIZE))
    assert len(target.attentions) == BLOCKS
    for path in target.attentions:
        found = target.attention(path)
        assert found.bias
        assert found.heads == target.heads == HEADS
        assert {matrix.shape for matrix in found.qk + found.vo} == {(SIZE + 1, SIZE)}
        wanted = own_output(model, target.family.name, path, x)
        assert np.abs(merged_output(found, x, target.family.name == "gpt2") - wanted).max() < EXACT


@pytest.mark.parametrize("cls", CLASSES)
def test_linear_layers_as_the_model_computes_them(cls):
    model = example(cls)
    target = read_model(model, "all")
    assert len(target.linears) == 2 * BLOCKS
    for path in target.linears:
        matrix = target.linear(path)
        x = np.random.default_rng(2).standard_normal((5, matrix.shape[1] - 1))
        with torch.no_grad():
            wanted = copy.deepcopy(model.get_submodule(path)).double()(torch.from_numpy(x)).numpy()
        assert np.abs(x @ matrix[:, :-1].T + matrix[:, -1] - wanted).max() < EXACT


def test_reading_changes_nothing_and_converts_half_weights():
    model = example("BertModel").half()
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    target = read_model(model, "all")
    matrix = target.linear(target.linears[0])
    assert matrix.dtype == target.attention(target.attentions[0]).qk[0].dtype == np.float64
    matrix[:] = 0.0
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def test_attention_alone_has_no_linears():
    target = read_model(example("GPT2LMHeadModel"))
    assert (target.layers, target.linears, target.size) == ("attention", (), SIZE)
    assert target.attentions == ("transformer.h.0.attn", "transformer.h.1.attn")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda model: torch.nn.Linear(2, 2), "classes BertModel, .*, got Linear"),
        (lambda model: model.to("meta"), "attention.self.query.weight must have values, got a tensor on the meta"),
    ],
)
def test_refuses_what_it_cannot_read(spoil, message):
    with pytest.raises(ValueError, match=message):
        read_model(spoil(example("BertModel")))


def test_refuses_unknown_layers():
    with pytest.raises(ValueError, match="'attention', 'all', got 'linear'"):
        read_model(example("BertModel"), "linear")


@pytest.mark.parametrize(
    ("cls", "options", "name"),
    [
        ("BertModel", {"is_decoder": True}, "is_decoder"),
        ("GPT2Model", {"add_cross_attention": True}, "add_cross_attention"),
    ],
)
def test_refuses_decoders_and_cross_attention(cls, options, name):
    with pytest.raises(ValueError, match=f"{name} must be False, got {cls} with {name}=True"):
        read_model(example(cls, **options))


def test_refuses_quantised_weights():
    model = example("GPT2Model")
    quantised = torch.zeros(SIZE, 3 * SIZE, dtype=torch.int8)
    model.h[1].attn.c_attn.weight = torch.nn.Parameter(quantised, requires_grad=False)
    with pytest.raises(ValueError, match=r"h\.1\.attn\.c_attn\.weight must hold floating-point .* got torch.int8"):
        read_model(model)


def test_refuses_weights_that_are_not_finite():
    model = example("BertModel")
    model.encoder.layer[1].attention.self.key.bias.data[3] = torch.nan
    target = read_model(model)
    target.attention(target.attentions[0])
    with pytest.raises(ValueError, match=r"encoder\.layer\.1\.attention\.self\.key\.bias must be finite"):
        target.attention(target.attentions[1])
