"""Certificates of Hugging Face models cover what the models do, block by block."""

import copy
import math

import numpy as np
import pytest
import torch

from strongticket.construct.targets import read_model
from strongticket.modules import MergedMap

transformers = pytest.importorskip("transformers")

from strongticket import Source, Uniform  # noqa: E402
from strongticket.construct.certify import certify, certify_matrices  # noqa: E402
from strongticket.modules.huggingface import insert  # noqa: E402
from strongticket.ticket import Ticket  # noqa: E402
from strongticket.ticket.huggingface import describe_constructed  # noqa: E402

BLOCKS, D, INNER, HEADS, WORDS = 2, 32, 48, 4, 50
CLASSES = ["BertModel", "BertForMaskedLM", "GPT2Model", "GPT2LMHeadModel"]


def example(cls, size=0.05, **options):
    """A small model with random weights, biases and LayerNorms."""
    sizes = {"vocab_size": WORDS, "hidden_size": D, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS}
    if cls.startswith("Bert"):
        config = transformers.BertConfig(**sizes, intermediate_size=INNER, max_position_embeddings=40, **options)
    else:
        ends = {"n_inner": INNER, "n_positions": 40, "bos_token_id": 49, "eos_token_id": 49, "pad_token_id": 0}
        config = transformers.GPT2Config(**sizes, **ends, **options)
    torch.manual_seed(0)
    model = getattr(transformers, cls)(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            scale = 1.0 if "embed" in name or ".wte" in f".{name}" else size
            weight.add_(scale * torch.randn_like(weight))
    return model


def example_inputs(cls):
    """Three sentences, one of them with padding: behind it, or before it for GPT-2."""
    ids = torch.randint(1, WORDS - 1, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    padding = slice(-3, None) if cls.startswith("Bert") else slice(3)
    ids[1, padding], mask[1, padding] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


class Perturbed:
    """The matrices of a model, each with random errors of one size."""

    def __init__(self, target, noise):
        rng = np.random.default_rng(2)
        self.heads, self.linears = {}, {}

        def near(matrix):
            return matrix + noise * rng.standard_normal(matrix.shape)

        for path in target.attentions:
            merged = target.attention(path)
            self.heads[path] = [near(m) for m in merged.qk], [near(m) for m in merged.vo]
        for path in target.linears:
            self.linears[path] = near(target.linear(path))

    def certificate(self, target, inputs):
        return certify_matrices(target, self.heads.__getitem__, self.linears.__getitem__, inputs)


def with_matrices(target, heads, linears):
    """A float64 copy of the model that computes with these matrices."""
    model = copy.deepcopy(target.model).double()
    model.set_attn_implementation("eager")
    maps = {
        path: [(MergedMap(a.T), MergedMap(b.T)) for a, b in zip(qk, vo, strict=True)]
        for path, (qk, vo) in heads.items()
    }
    insert(model, target.family, maps, {path: MergedMap(matrix) for path, matrix in linears.items()})
    return model


def hidden_states(model, target, inputs):
    """The hidden states after every block, and the last one, in float64."""
    model = copy.deepcopy(model).double()
    model.set_attn_implementation("eager")
    found = []
    for path in target.attentions:
        block = model.get_submodule(path.removesuffix(f".{target.family.attention}"))
        block.register_forward_hook(lambda _, __, out: found.append(out))
    with torch.no_grad():
        found.append(model.base_model(**inputs)[0])
    return found


def measured(target, heads, linears, inputs):
    states = hidden_states(target.model, target, inputs)
    others = hidden_states(with_matrices(target, heads, linears), target, inputs)
    return [float((a - b).norm(dim=-1).max()) for a, b in zip(states, others, strict=True)]


def bounds(certificate):
    after = [term.value for term in certificate.terms if term.what == "output error" and term.where.startswith("block")]
    return [*after, certificate.bound]


@pytest.mark.parametrize("noise", [1e-8, 1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("layers", ["attention", "all"])
@pytest.mark.parametrize("cls", CLASSES)
def test_bounds_cover_the_errors_after_every_block(cls, layers, noise):
    target, inputs = read_model(example(cls), layers), example_inputs(cls)
    near = Perturbed(target, noise)
    certificate = near.certificate(target, inputs)
    errors = measured(target, near.heads, near.linears, inputs)
    assert len(errors) == len(bounds(certificate)) == BLOCKS + 1
    for error, bound in zip(errors, bounds(certificate), strict=True):
        assert 0 < error <= bound


@pytest.mark.parametrize("size", [0.3, 1.0])
@pytest.mark.parametrize("cls", ["BertModel", "GPT2Model"])
def test_bounds_cover_the_errors_of_models_with_large_weights(cls, size):
    target, inputs = read_model(example(cls, size), "all"), example_inputs(cls)
    near = Perturbed(target, 1e-9)
    errors = measured(target, near.heads, near.linears, inputs)
    for error, bound in zip(errors, bounds(near.certificate(target, inputs)), strict=True):
        assert error <= bound


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu_pytorch_tanh", "tanh"])
@pytest.mark.parametrize(("cls", "setting"), [("BertModel", "hidden_act"), ("GPT2Model", "activation_function")])
def test_bounds_cover_other_activations(cls, setting, activation):
    target, inputs = read_model(example(cls, **{setting: activation}), "all"), example_inputs(cls)
    near = Perturbed(target, 1e-4)
    errors = measured(target, near.heads, near.linears, inputs)
    for error, bound in zip(errors, bounds(near.certificate(target, inputs)), strict=True):
        assert error <= bound


@pytest.mark.parametrize("cls", ["BertModel", "GPT2Model"])
def test_small_errors_have_useful_bounds_in_proportion(cls):
    target, inputs = read_model(example(cls), "all"), example_inputs(cls)
    certificate = Perturbed(target, 1e-6).certificate(target, inputs)
    assert certificate.useful
    assert certificate.bound < 1
    one, two = (Perturbed(target, noise).certificate(target, inputs).bound for noise in (1e-9, 2e-9))
    assert two == pytest.approx(2 * one, rel=1e-3)


@pytest.mark.parametrize("noise", [100.0, 1e200])
@pytest.mark.parametrize("cls", ["BertModel", "GPT2Model"])
def test_large_errors_are_said_to_be_useless(cls, noise):
    target = read_model(example(cls), "all")
    certificate = Perturbed(target, noise).certificate(target, example_inputs(cls))
    assert not certificate.useful
    assert certificate.useless_from == 1


@pytest.mark.parametrize("layers", ["attention", "all"])
@pytest.mark.parametrize("cls", ["BertModel", "GPT2Model"])
def test_no_errors_have_the_bound_zero(cls, layers):
    target = read_model(example(cls), layers)
    assert Perturbed(target, 0.0).certificate(target, example_inputs(cls)).bound == 0.0


@pytest.mark.parametrize("cls", ["BertForMaskedLM", "GPT2LMHeadModel"])
def test_the_model_is_left_as_it_is(cls):
    model = example(cls).train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    implementation = model.config._attn_implementation
    target = read_model(model)
    Perturbed(target, 1e-3).certificate(target, example_inputs(cls))
    assert model.training
    assert model.config._attn_implementation == implementation
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_float32_upcasting_has_no_part_in_it():
    models = [example("GPT2Model", reorder_and_upcast_attn=upcast) for upcast in (False, True)]
    found = []
    for model in models:
        target = read_model(model)
        found.append(Perturbed(target, 1e-6).certificate(target, example_inputs("GPT2Model")).bound)
    assert found[0] == found[1]


def hand_made_ticket(model, layers):
    """A ticket whose pairs are random; each hidden unit serves one input."""
    architecture, kept = describe_constructed(model, layers)
    target, entries = read_model(model, layers), {}

    def pair(first, second, inputs, outputs):
        n = 4 * inputs
        served = np.arange(inputs) == np.arange(n)[:, None] % inputs
        entries[first] = Source(1, first, (n, inputs), Uniform(0.2)), served
        entries[second] = Source(1, second, (outputs, n), Uniform(0.2)), np.ones((outputs, n), bool)

    for path in target.attentions:
        for at in (f"{path}.heads.{head}" for head in range(HEADS)):
            pair(f"{at}.key", f"{at}.query", D, D + 1)
            pair(f"{at}.value", f"{at}.output", D + 1, D)
    for path in target.linears:
        outputs, inputs = target.linear(path).shape
        pair(f"{path}.first", f"{path}.second", inputs, outputs)
    return Ticket(entries, kept, architecture)


@pytest.mark.parametrize("layers", ["attention", "all"])
@pytest.mark.parametrize("cls", ["BertForMaskedLM", "GPT2LMHeadModel"])
def test_tickets_are_certified_by_their_products(cls, layers):
    model, inputs = example(cls), example_inputs(cls)
    ticket, target = hand_made_ticket(model, layers), read_model(model, layers)
    dense = {name: entry.weights().astype(np.float64) for name, entry in ticket.entries.items()}
    products = {place.name: place.scale * dense[place.second] @ dense[place.first] for place in ticket.pairs}

    def heads(path):
        names = [f"{path}.heads.{head}" for head in range(HEADS)]
        return [products[f"{name}.qk"] for name in names], [products[f"{name}.vo"].T for name in names]

    certificate = certify(model, ticket, inputs)
    same = certify_matrices(target, heads, products.__getitem__, inputs)
    assert certificate.bound == pytest.approx(same.bound)
    states = hidden_states(model, target, inputs)
    others = hidden_states(ticket.module(), target, inputs)
    for a, b, bound in zip(states, others, bounds(certificate), strict=True):
        assert float((a - b).norm(dim=-1).max()) <= bound


def test_refuses_tickets_of_other_models():
    model, inputs = example("BertModel"), example_inputs("BertModel")
    ticket = hand_made_ticket(model, "attention")
    other = copy.deepcopy(model)
    other.encoder.layer[1].output.LayerNorm.bias.data[0] += 1
    with pytest.raises(ValueError, match=r"parameter encoder\.layer\.1\.output\.LayerNorm\.bias is not that of"):
        certify(other, ticket, inputs)
    with pytest.raises(ValueError, match="hidden_act is 'gelu', the target's 'relu'"):
        certify(example("BertModel", hidden_act="relu"), ticket, inputs)
    with pytest.raises(ValueError, match="class is 'BertModel', the target's 'GPT2Model'"):
        certify(example("GPT2Model"), ticket, inputs)


def test_refuses_other_kinds_of_tickets():
    sources = Source(1, "a", (4, 2), Uniform(1.0)), Source(1, "b", (2, 4), Uniform(1.0))
    entries = dict(zip(("first", "second"), ((source, np.ones(source.shape)) for source in sources), strict=True))
    ticket = Ticket(entries, architecture={"kind": "linear", "scale": 1.0})
    with pytest.raises(ValueError, match="must be of kind \"model\", got 'linear'"):
        certify(example("BertModel"), ticket, example_inputs("BertModel"))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "must hold some of input_ids, .* got nothing"),
        ({"labels": torch.ones(1, 2)}, "got labels"),
        ({"input_ids": [1, 2]}, r"inputs\['input_ids'\] must be a tensor, got list"),
        ({"input_ids": torch.ones(1, 0, dtype=torch.long)}, r"at least one position, got shape \(1, 0\)"),
    ],
)
def test_refuses_bad_inputs(inputs, message):
    target = read_model(example("BertModel"))
    with pytest.raises(ValueError, match=message):
        Perturbed(target, 1e-3).certificate(target, inputs)


def test_refuses_unknown_activations_before_it_runs():
    model = example("BertModel", hidden_act="relu2")
    target = read_model(model)
    with pytest.raises(ValueError, match="activation 'relu2'"):
        Perturbed(target, 1e-3).certificate(target, {"input_ids": torch.ones(1, 3, dtype=torch.long)})


def test_says_what_it_assumes():
    target = read_model(example("GPT2Model"))
    certificate = Perturbed(target, 1e-3).certificate(target, example_inputs("GPT2Model"))
    assert any("float64" in assumption for assumption in certificate.assumptions)
    assert math.isfinite(certificate.alpha)
    assert "holds for the samples" in str(certificate)
