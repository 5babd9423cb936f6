"""Models of transformers with exact maps in place of their heads and linear layers do as they did before."""

import copy
import math

import numpy as np
import pytest
import torch

from strongticket.families import family_of
from strongticket.modules import MergedMap, PrunedMap

transformers = pytest.importorskip("transformers")

from strongticket.modules.huggingface import Heads, insert  # noqa: E402

BLOCKS, WIDTH, HEADS, WORDS, EXACT = 2, 32, 4, 50, 1e-10
CONFIGS = {
    "bert": lambda **options: transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=BLOCKS,
        num_attention_heads=HEADS,
        intermediate_size=48,
        max_position_embeddings=40,
        **options,
    ),
    "gpt2": lambda **options: transformers.GPT2Config(
        vocab_size=WORDS,
        n_embd=WIDTH,
        n_layer=BLOCKS,
        n_head=HEADS,
        n_positions=40,
        bos_token_id=WORDS - 1,
        eos_token_id=WORDS - 1,
        pad_token_id=0,
        **options,
    ),
}
BERT, GPT2 = ["BertModel", "BertForMaskedLM"], ["GPT2Model", "GPT2LMHeadModel"]


def example_model(cls, implementation="eager", **options):
    config = CONFIGS[family_of(cls).name](attn_implementation=implementation, **options)
    torch.manual_seed(5)
    model = getattr(transformers, cls)(config).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def projections(family, attention):
    """W_Q, W_K, W_V and W_O as they multiply rows from the right, and their biases."""
    if family.name == "gpt2":
        merged, output = attention.c_attn, attention.c_proj
        return [*merged.weight.chunk(3, dim=1), output.weight], [*merged.bias.chunk(3), output.bias]
    layers = [attention.self.query, attention.self.key, attention.self.value, attention.output.dense]
    return [layer.weight.T for layer in layers], [layer.bias for layer in layers]


def merged_heads(family, attention):
    """W_QKᵀ (d × d+1) and W_VOᵀ (d × d+1) of each head; b_K is the same for all keys and leaves the softmax alone."""
    (query, key, value, output), (b_query, _, b_value, b_output) = projections(family, attention)
    size = WIDTH // HEADS
    for part in (slice(start, start + size) for start in range(0, WIDTH, size)):
        w_query = torch.cat([query[:, part], b_query[None, part]])
        w_value = torch.cat([value[:, part], b_value[None, part]])
        qk = w_query @ key[:, part].T / math.sqrt(size)
        vo = w_value @ output[part]
        vo[-1] += b_output / HEADS
        yield qk.T.numpy(), vo.T.numpy()


def merged_linear(family, layer):
    weight = layer.weight.T if family.name == "gpt2" else layer.weight
    return torch.cat([weight, layer.bias[:, None]], dim=1).numpy()


def pruned_map(matrix, rng):
    """A pair with random units and one solved one per group, whose product is ``matrix``, and the folded product."""
    units_first = bool(rng.integers(2))
    target = matrix.T if units_first else matrix
    groups, size, scale = len(target), 3, 0.5
    units = rng.uniform(0.5, 1.5, (groups, size))
    units[np.arange(size) >= rng.integers(1, size + 1, (groups, 1))] = 0.0
    dense = rng.normal(size=(groups, size, target.shape[1]))
    rest = (units[:, 1:, None] * dense[:, 1:]).sum(axis=1)
    dense[:, 0] = (target / scale - rest) / units[:, :1]
    product = scale * (units[:, :, None] * dense).sum(axis=1)
    dense = dense.reshape(groups * size, -1)
    pruned = PrunedMap(units, dense if units_first else dense.T, units_first=units_first, scale=scale)
    return pruned, MergedMap(product.T if units_first else product)


@torch.no_grad()
def replaced(model, kind="merged"):
    """A copy of ``model`` with maps inserted: "merged", or "pruned" or "folded" ones of the same random pairs."""
    rng = np.random.default_rng(11)

    def new_map(matrix):
        return MergedMap(matrix) if kind == "merged" else pruned_map(matrix, rng)[kind == "folded"]

    found = copy.deepcopy(model)
    cls = type(model).__name__
    family = family_of(cls)
    attentions = {
        path: [(new_map(qk), new_map(vo)) for qk, vo in merged_heads(family, model.get_submodule(path))]
        for path in family.attentions(cls, BLOCKS)
    }
    linears = {path: new_map(merged_linear(family, model.get_submodule(path))) for path in family.linears(cls, BLOCKS)}
    insert(found, family, attentions, linears)
    return found


def words(batch=3, length=9):
    return torch.randint(1, WORDS - 1, (batch, length), generator=torch.Generator().manual_seed(2))


def padding(side, batch=3, length=9):
    """Sequences of different lengths, the first without padding."""
    kept = torch.arange(length) < length - 2 * torch.arange(batch)[:, None]
    return (kept.flip(1) if side == "left" else kept).long()


@torch.no_grad()
def outputs(model, **inputs):
    """The first output, hidden states and attention weights, in one list."""
    found = model(**inputs, output_hidden_states=True, output_attentions=True)
    return [found[0], *found.hidden_states, *found.attentions]


def assert_same(found, wanted, keep=None):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        where = slice(None) if keep is None else keep.bool()
        a, b = (t.transpose(1, 2)[where] if t.dim() == 4 else t[where] for t in (a, b))
        torch.testing.assert_close(a, b, rtol=0, atol=EXACT)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("cls", BERT + GPT2)
class TestModel:
    @pytest.mark.parametrize("kind", ["merged", "pruned"])
    @pytest.mark.parametrize("side", [None, "right", "left"])
    def test_all_outputs_are_those_of_eager_attention(self, cls, side, kind):
        model = example_model(cls)
        inputs = {"input_ids": words(), "attention_mask": None if side is None else padding(side)}
        wanted = outputs(model, **inputs)
        assert len(wanted) == 1 + (BLOCKS + 1) + BLOCKS
        assert_same(outputs(replaced(model, kind), **inputs), wanted)

    @pytest.mark.parametrize("side", [None, "right", "left"])
    def test_all_outputs_with_the_masks_of_sdpa(self, cls, side):
        inputs = {"input_ids": words(), "attention_mask": None if side is None else padding(side)}
        wanted = outputs(example_model(cls), **inputs)
        assert_same(outputs(replaced(example_model(cls, "sdpa")), **inputs), wanted)

    @pytest.mark.parametrize("side", ["right", "left"])
    def test_sdpa_at_the_positions_that_count(self, cls, side):
        model = example_model(cls, "sdpa")
        inputs = {"input_ids": words(), "attention_mask": padding(side)}
        with torch.no_grad():
            found, wanted = replaced(model)(**inputs)[0], model(**inputs)[0]
        assert_same([found], [wanted], keep=inputs["attention_mask"])

    def test_pruned_pairs_are_their_folded_products(self, cls):
        model = example_model(cls)
        assert_same(
            outputs(replaced(model, "pruned"), input_ids=words()), outputs(replaced(model, "folded"), input_ids=words())
        )

    @pytest.mark.parametrize("heads", [1, HEADS])
    @pytest.mark.parametrize("implementation", ["eager", "sdpa"])
    def test_own_additive_masks(self, cls, implementation, heads):
        model = example_model(cls, implementation)
        mask = torch.randn(3, heads, 9, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
        with torch.no_grad():
            found, wanted = (m(words(), attention_mask=mask)[0] for m in (replaced(model), model))
        assert_same([found], [wanted])

    def test_a_batch_of_nothing_but_padding_is_finite(self, cls):
        for implementation in ("eager", "sdpa"):
            model = replaced(example_model(cls, implementation))
            assert all(t.isfinite().all() for t in outputs(model, input_ids=words(), attention_mask=padding(None) * 0))

    def test_attention_weights_where_the_model_recorded_them_before(self, cls):
        model = example_model(cls)
        wanted = outputs(model, input_ids=words())
        assert_same(outputs(replaced(model), input_ids=words()), wanted)

    def test_gradients_of_the_inputs(self, cls):
        model = example_model(cls)
        gradients = []
        for m in (model, replaced(model, "pruned")):
            x = model.get_input_embeddings()(words()).detach().requires_grad_()
            m(inputs_embeds=x)[0].square().sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients, rtol=EXACT, atol=EXACT)

    @pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.bfloat16, 1.0)])
    @pytest.mark.parametrize("side", [None, "left"])
    def test_other_precisions(self, cls, dtype, tolerance, side):
        model = example_model(cls)
        inputs = {"input_ids": words(), "attention_mask": None if side is None else padding(side)}
        wanted = outputs(model, **inputs)[0]
        found = outputs(replaced(model).to(dtype), **inputs)[0]
        assert found.dtype == dtype
        assert (found.double() - wanted)[padding(side or "right").bool()].abs().mean() < tolerance

    def test_a_mask_of_higher_precision(self, cls):
        model = replaced(example_model(cls)).bfloat16()
        assert model(words(), attention_mask=torch.zeros(3, 1, 9, 9))[0].dtype == torch.bfloat16

    def test_training_mode_storage_and_copies(self, cls):
        model = replaced(example_model(cls).train())
        assert all(module.training for module in model.modules())
        assert not any(module.training for module in replaced(example_model(cls)).modules())
        model(words())[0].sum().backward()
        model.eval().init_weights()
        other = copy.deepcopy(model)
        other.load_state_dict(model.state_dict())
        assert_same(outputs(other, input_ids=words()), outputs(model, input_ids=words()))

    def test_nothing_of_the_replaced_layers_is_left(self, cls):
        model = replaced(example_model(cls))
        family = family_of(cls)
        assert sum(isinstance(module, Heads) for module in model.modules()) == BLOCKS
        assert not [
            name for name, _ in model.named_parameters() if name.startswith(family.replaced(cls, BLOCKS, "all"))
        ]


class TestDecoderBert:
    @pytest.mark.parametrize("implementation", ["eager", "sdpa"])
    def test_causal_with_and_without_cache(self, implementation):
        model = example_model("BertModel", implementation, is_decoder=True)
        found = replaced(model)
        with torch.no_grad():
            wanted = model(words())[0]
            start = found(words()[:, :4])
            rest = found(words()[:, 4:], past_key_values=start.past_key_values)
        assert_same([torch.cat([start[0], rest[0]], dim=1), found(words())[0]], [wanted, wanted])


def generate(model, inputs, **options):
    torch.manual_seed(17)
    return model.generate(**inputs, max_new_tokens=12, **options)


GENERATION = {
    "greedy": {"do_sample": False},
    "beams": {"do_sample": False, "num_beams": 3},
    "returned beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
    "sampled": {"do_sample": True, "top_k": 0},
    "sampled beams": {"do_sample": True, "num_beams": 2},
    "prefill in parts": {"do_sample": False, "prefill_chunk_size": 4},
}


class TestGenerate:
    @pytest.mark.parametrize("implementation", ["eager", "sdpa"])
    @pytest.mark.parametrize("padded", [False, True])
    @pytest.mark.parametrize("how", GENERATION)
    def test_the_same_words_with_and_without_cache(self, how, padded, implementation):
        model = example_model("GPT2LMHeadModel", implementation)
        mask = padding("left") if padded else torch.ones(3, 9, dtype=torch.long)
        inputs = {"input_ids": words() * mask, "attention_mask": mask}
        wanted = generate(model, inputs, **GENERATION[how])
        for kind in ("merged", "pruned"):
            found = replaced(model, kind)
            cached = [True] if "prefill_chunk_size" in GENERATION[how] else [True, False]
            for use_cache in cached:
                assert torch.equal(generate(found, inputs, use_cache=use_cache, **GENERATION[how]), wanted)

    @pytest.mark.parametrize("implementation", ["eager", "sdpa"])
    @pytest.mark.parametrize("cache", ["dynamic", "static", "cropped", "one by one"])
    def test_logits_with_a_cache(self, cache, implementation):
        model = example_model("GPT2LMHeadModel", implementation)
        found = replaced(model)
        past = (
            transformers.StaticCache(config=model.config, max_cache_len=20)
            if cache == "static"
            else transformers.DynamicCache(config=model.config)
        )
        with torch.no_grad():
            wanted = model(words()).logits
            parts = [found(words()[:, :4], past_key_values=past).logits]
            if cache == "cropped":
                found(words()[:, :3], past_key_values=past)
                past.crop(-3)
            for part in words()[:, 4:].split(1 if cache == "one by one" else 5, dim=1):
                parts.append(found(part, past_key_values=past).logits)
        assert_same([torch.cat(parts, dim=1)], [wanted])

    def test_the_cache_holds_the_inputs_once(self):
        past = replaced(example_model("GPT2LMHeadModel"))(words()).past_key_values
        assert [layer.keys.shape for layer in past.layers] == [(3, 1, 9, WIDTH)] * BLOCKS
        assert [layer.values.shape for layer in past.layers] == [(3, 1, 9, 0)] * BLOCKS
        past.batch_repeat_interleave(2)
        past.reorder_cache(torch.tensor([5, 0]))
        past.batch_select_indices(torch.tensor([1, 0]))
        assert [layer.keys.shape for layer in past.layers] == [(2, 1, 9, WIDTH)] * BLOCKS
        assert [layer.values.shape for layer in past.layers] == [(2, 1, 9, 0)] * BLOCKS
