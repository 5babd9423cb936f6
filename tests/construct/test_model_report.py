"""Reports on tickets of models and comparisons of models, against the same numbers computed by hand."""

from __future__ import annotations

import copy
import json
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy.stats import rankdata

from strongticket import construct
from strongticket.construct.models.compare import tokenise

transformers = pytest.importorskip("transformers")

BLOCKS, D, HEADS, INNER = 2, 16, 2, 24
ARTICLES, NOUNS, OTHERS = ["the", "a"], ["cat", "dog", "tree", "house"], ["sees", "likes", "has", "old", "red", "small"]
WORDS = ["[PAD]", "[UNK]", *ARTICLES, *NOUNS, *OTHERS, "big", "and", "is", "in"]
TEXTS = [
    "the cat sees a dog",
    "a small red house",
    "the old dog likes the big tree",
    "is the cat in",
    "a tree and a dog",
]


pytestmark = pytest.mark.usefixtures("one_thread")


@cache
def example(cls, seed=0):
    """A small model with random weights and biases."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": len(WORDS), "hidden_size": D, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS}
    if cls.startswith("Bert"):
        config = transformers.BertConfig(**sizes, intermediate_size=INNER, max_position_embeddings=20)
    else:
        ends = {"bos_token_id": 0, "eos_token_id": 0}
        config = transformers.GPT2Config(**sizes, n_inner=INNER, n_positions=20, **ends)
    model = getattr(transformers, cls)(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


@cache
def ticket(cls, layers="all"):
    return construct.model(example(cls), items=8, refine=2, layers=layers)


def tokenizer(**special):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, model_input_names=["input_ids", "attention_mask"], **special or {"pad_token": "[PAD]"}
    )


def samples(cls):
    """Token numbers, with padding behind the second text."""
    ids = torch.randint(2, len(WORDS), (3, 7), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(ids)
    ids[1, 4:], mask[1, 4:] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def products(found):
    """scale · second @ first of every pair, from dense masked matrices."""
    dense = {name: array.astype(np.float64) for name, array in found.parameters().items()}
    return {pair.name: pair.scale * dense[pair.second] @ dense[pair.first] for pair in found.pairs}


def linear_of(layer):
    """[W, b] of torch's Linear or of Conv1D."""
    weight = layer.weight.detach().double().numpy()
    weight = weight if isinstance(layer, torch.nn.Linear) else weight.T
    return np.hstack([weight, layer.bias.detach().double().numpy()[:, None]])


def value_output_of(model, head):
    """W_VOᵀ with the biases in its last column, of a head of the first layer of a BERT."""
    attention, mine = model.encoder.layer[0].attention, slice(head * D // HEADS, (head + 1) * D // HEADS)
    value, output = linear_of(attention.self.value)[mine], linear_of(attention.output.dense)
    matrix = output[:, :-1][:, mine] @ value
    matrix[:, -1] += output[:, -1] / HEADS
    return matrix


def query_key_of(model, head):
    attention, mine = model.encoder.layer[0].attention, slice(head * D // HEADS, (head + 1) * D // HEADS)
    query, key = linear_of(attention.self.query)[mine], linear_of(attention.self.key)[mine]
    return query.T @ key[:, :-1] / np.sqrt(D // HEADS)


class TestReport:
    def test_errors_of_an_attention_layer(self):
        model, found, path = example("BertModel"), products(ticket("BertModel")), "encoder.layer.0.attention"
        errors = [query_key_of(model, head) - found[f"{path}.heads.{head}.qk"] for head in range(HEADS)]
        errors += [value_output_of(model, head) - found[f"{path}.heads.{head}.vo"] for head in range(HEADS)]
        layer = construct.model_report(model, ticket("BertModel")).layers[0]
        assert (layer.layer, layer.pairs, layer.units) == (path, 2 * HEADS, 2 * HEADS * 8 * D)
        assert layer.max_error == pytest.approx(max(np.abs(error).max() for error in errors))
        assert layer.spectral_error == pytest.approx(max(np.linalg.norm(error, 2) for error in errors))
        assert layer.output_error is None

    @pytest.mark.parametrize("cls", ["BertForMaskedLM", "GPT2Model"])
    def test_errors_of_linear_layers(self, cls):
        model, found = example(cls), products(ticket(cls))
        layers = {layer.layer: layer for layer in construct.model_report(model, ticket(cls)).layers}
        assert len(layers) == 3 * BLOCKS
        linears = [layer for name, layer in layers.items() if name in found]
        assert len(linears) == 2 * BLOCKS
        for layer in linears:
            matrix = linear_of(model.get_submodule(layer.layer))
            error = matrix - found[layer.layer]
            assert (layer.pairs, layer.units) == (1, 8 * min(matrix.shape))
            assert layer.max_error == pytest.approx(np.abs(error).max())
            assert layer.spectral_error == pytest.approx(np.linalg.norm(error, 2))

    @pytest.mark.parametrize("cls", ["BertModel", "GPT2LMHeadModel"])
    def test_the_output_error_of_a_linear_layer_is_on_what_the_model_gives_it(self, cls):
        model, found, given = example(cls), products(ticket(cls)), samples(cls)
        seen = {}
        copied = copy.deepcopy(model)
        for name in found:
            if ".heads." not in name:
                layer = copied.get_submodule(name)
                layer.register_forward_hook(lambda _, args, __, name=name: seen.update({name: args[0]}))
        with torch.inference_mode():
            copied(**given)
        report = construct.model_report(model, ticket(cls), given)
        layers = {layer.layer: layer for layer in report.layers}
        assert len(seen) == 2 * BLOCKS
        for name, x in seen.items():
            x = x.reshape(-1, x.shape[-1]).double().numpy()
            matrix = linear_of(model.get_submodule(name))
            wanted, got = (x @ m[:, :-1].T + m[:, -1] for m in (matrix, found[name]))
            relative = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
            assert layers[name].output_error == pytest.approx(relative, rel=1e-3)

    def test_the_output_error_of_attention_is_on_what_the_model_gives_it(self):
        model, given = example("GPT2Model"), {"input_ids": torch.arange(2, 12)[None]}
        path, found = "h.0.attn", products(ticket("GPT2Model"))
        with torch.inference_mode():
            x = model.h[0].ln_1(model.wte(given["input_ids"]) + model.wpe(torch.arange(10)))[0].double().numpy()
            wanted = model.h[0].attn(torch.tensor(x[None], dtype=torch.float32))[0][0].double().numpy()
        extended, got = np.hstack([x, np.ones((10, 1))]), np.zeros_like(x)
        for head in range(HEADS):
            logits = extended @ found[f"{path}.heads.{head}.qk"] @ x.T
            logits[np.triu_indices(10, 1)] = -np.inf
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            got += weights / weights.sum(axis=1, keepdims=True) @ extended @ found[f"{path}.heads.{head}.vo"].T
        report = construct.model_report(model, ticket("GPT2Model"), given)
        relative = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
        assert report.layers[0].output_error == pytest.approx(relative, rel=1e-3)

    @pytest.mark.parametrize("cls", ["BertForMaskedLM", "GPT2LMHeadModel"])
    def test_the_whole_output_error_leaves_padding_out(self, cls):
        model, given = example(cls), samples(cls)
        real = given["attention_mask"].bool()
        with torch.inference_mode():
            wanted, got = (m.base_model(**given)[0][real].double() for m in (model, ticket(cls).module("pruned")))
        report = construct.model_report(model, ticket(cls), given)
        assert report.output_error == pytest.approx(float((got - wanted).norm() / wanted.norm()), rel=1e-3)
        assert 0 < report.output_error < 1

    def test_attention_alone_has_a_row_for_each_attention_layer(self):
        report = construct.model_report(example("GPT2Model"), ticket("GPT2Model", "attention"), samples("GPT2Model"))
        assert [layer.layer for layer in report.layers] == ["h.0.attn", "h.1.attn"]
        assert all(layer.output_error > 0 for layer in report.layers)

    def test_the_model_is_left_as_it_is(self):
        model = copy.deepcopy(example("BertModel")).train()
        construct.model_report(model, ticket("BertModel"), samples("BertModel"))
        assert model.training
        assert not any(module._forward_hooks for module in model.modules())

    def test_tickets_of_other_things_are_refused(self):
        with pytest.raises(ValueError, match=r"one of a GPT2Model from construct\.model, got 'BertModel'"):
            construct.model_report(example("GPT2Model"), ticket("BertModel"))
        with pytest.raises(ValueError, match=r"one of a BertModel from construct\.model, got 'linear'"):
            construct.model_report(example("BertModel"), construct.linear(np.eye(2), items=4).ticket())

    @pytest.mark.parametrize("cls", ["BertModel", "BertForMaskedLM", "GPT2LMHeadModel"])
    def test_its_table_fits_80_columns(self, cls):
        report = construct.model_report(example(cls), ticket(cls), samples(cls))
        console = Console(width=80, no_color=True)
        with console.capture() as capture:
            console.print(report)
        shown = capture.get()
        assert "…" not in shown
        assert max(map(len, shown.splitlines())) <= 80
        rows = []
        for line in shown.splitlines():
            if line.startswith("│"):
                name, *numbers = (cell.strip() for cell in line.strip("│").split("│"))
                if any(numbers):
                    rows.append([name, *numbers])
                else:
                    rows[-1][0] += name
        assert rows == [
            [
                layer.layer,
                f"{layer.units:,}",
                *(f"{value:.1e}" for value in (layer.max_error, layer.spectral_error, layer.output_error)),
            ]
            for layer in report.layers
        ]
        assert f"last hidden state: {report.output_error:.2e}" in shown
        assert all(layer.layer in str(report) for layer in report.layers)

    def test_its_numbers_are_plain_values(self):
        report = construct.model_report(example("BertModel"), ticket("BertModel"))
        numbers = json.loads(json.dumps(report.to_dict()))
        assert numbers["output_error"] is None
        assert [layer["max_error"] for layer in numbers["layers"]] == [layer.max_error for layer in report.layers]


class TestComparison:
    @pytest.mark.parametrize("cls", ["BertModel", "BertForMaskedLM", "GPT2LMHeadModel"])
    def test_a_model_is_like_itself(self, cls):
        found = construct.compare_models(example(cls), example(cls), tokenizer(), TEXTS)
        assert found.texts == len(TEXTS)
        assert found.mean_cosine == pytest.approx(1, abs=1e-6)
        assert found.min_cosine == pytest.approx(1, abs=1e-6)
        assert found.rank_correlation == pytest.approx(1)
        assert found.same_choice == (None if cls == "BertModel" else 1.0)

    @pytest.mark.parametrize("count", [5, 20])
    @pytest.mark.parametrize("cls", ["BertForMaskedLM", "GPT2LMHeadModel"])
    def test_two_models_by_hand(self, cls, count):
        models = example(cls), example(cls, seed=1)
        texts = [f"{TEXTS[k % 5]} {' '.join(WORDS[2 + k : 3 + k + k % 3])}" for k in range(count)]
        embeddings, tokens = ([], []), ([], [])
        with torch.inference_mode():
            for text in texts:
                ids = torch.tensor([[WORDS.index(word) for word in text.split()]])
                for which, model in enumerate(models):
                    out = model(ids, output_hidden_states=True)
                    embeddings[which].append(out.hidden_states[-1][0].double().numpy().mean(axis=0))
                    tokens[which].extend(out.logits[0].argmax(dim=-1).tolist())
        first, second = ([x / np.linalg.norm(x) for x in found] for found in embeddings)
        cosines = [a @ b for a, b in zip(first, second, strict=True)]
        ranks = [
            rankdata([found[j] @ found[k] for j in range(count) for k in range(j + 1, count)])
            for found in (first, second)
        ]
        found = construct.compare_models(*models, tokenizer(), texts)
        assert found.texts == count
        assert found.mean_cosine == pytest.approx(np.mean(cosines), abs=1e-5)
        assert found.min_cosine == pytest.approx(min(cosines), abs=1e-5)
        assert found.rank_correlation == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-3)
        assert found.same_choice == np.mean([a == b for a, b in zip(*tokens, strict=True)])
        assert found.mean_cosine < 0.9
        assert found.same_choice < 1

    def test_classifiers_choose_one_label_for_each_text(self):
        models = example("BertForSequenceClassification"), example("BertForSequenceClassification", seed=1)
        texts = [f"{TEXTS[k % 5]} {WORDS[2 + k]}" for k in range(12)]
        labels = []
        with torch.inference_mode():
            for text in texts:
                ids = torch.tensor([[WORDS.index(word) for word in text.split()]])
                labels.append([int(model(ids).logits[0].argmax()) for model in models])
        found = construct.compare_models(*models, tokenizer(), texts)
        assert found.same_choice == np.mean([a == b for a, b in labels])

    def test_fewer_than_three_texts_are_refused(self):
        with pytest.raises(ValueError, match="at least 3 texts, got 2"):
            construct.compare_models(example("BertModel"), example("BertModel"), tokenizer(), TEXTS[:2])

    def test_it_prints_what_it_found(self):
        found = construct.compare_models(example("BertForMaskedLM"), example("BertForMaskedLM"), tokenizer(), TEXTS)
        assert "Compared on 5 texts" in str(found)
        assert "1.000000" in str(found)
        assert "100.0000%" in str(found)
        without = construct.compare_models(example("BertModel"), example("BertModel"), tokenizer(), TEXTS)
        assert "%" not in str(without)

    def test_texts_are_padded_and_cut(self):
        model = SimpleNamespace(config=transformers.BertConfig(max_position_embeddings=3))
        found = tokenise(tokenizer(), [TEXTS[0], "cat"], model)
        assert found["input_ids"].tolist() == [[2, 4, 8], [4, 0, 0]]
        assert found["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]

    def test_without_a_padding_token_the_end_of_text_pads(self):
        found = tokenise(tokenizer(eos_token="is"), ["cat", "the cat"], example("BertModel"))
        assert found["input_ids"].tolist() == [[4, WORDS.index("is")], [2, 4]]
        assert found["attention_mask"].tolist() == [[1, 0], [1, 1]]
