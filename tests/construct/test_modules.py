"""The torch modules: random weights as they are against attention by hand, calling conventions, storage."""

import numpy as np
import pytest
import torch
from attention_reference import MASKS, attention_by_hand, example_mask, inputs

from strongticket.modules import MergedAttention, ReluNetwork, TicketAttention, Transformer
from strongticket.source import Source, Uniform

BATCH, HEADS, QUERIES, KEYS = 2, 3, 4, 5
D_Q, D_K, D_V, D_2, N_K, N_V = 4, 5, 3, 6, 8, 7
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


def random_weights(bias):
    """The unpruned weights of W_Q, W_Kᵀ, W_Vᵀ and W_Oᵀ, as ``construct`` draws them."""
    shapes = {"query": (D_Q + bias, N_K), "key": (N_K, D_K), "value": (N_V, D_V + bias), "output": (D_2, N_V)}
    return [
        [Source(seed=3, name=f"{name}/{j}", shape=shape, law=Uniform(1.0)).weights() for j in range(HEADS)]
        for name, shape in shapes.items()
    ]


def example_inputs(dtype=torch.float64):
    return inputs((BATCH, QUERIES, D_Q), (BATCH, KEYS, D_K), (BATCH, KEYS, D_V), dtype=dtype)


def mask_for(kind, dtype=torch.float64):
    return example_mask(kind, batch=BATCH, heads=HEADS, queries=QUERIES, keys=KEYS, dtype=dtype)


class TestTicketAttention:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("kind", MASKS)
    def test_unpruned_random_weights_are_attention_by_hand(self, kind, bias, dtype):
        weights = random_weights(bias)
        module = TicketAttention(*weights, bias=bias).to(dtype)
        x, y, z = example_inputs(dtype)
        mask = mask_for(kind, dtype)
        wanted, attended = attention_by_hand(weights, x, y, z, bias, **mask)
        got, averaged = module(x, y, z, **mask)
        assert got.dtype == dtype
        torch.testing.assert_close(got, wanted, rtol=0, atol=TOLERANCE[dtype])
        torch.testing.assert_close(averaged, attended.mean(dim=1), rtol=0, atol=TOLERANCE[dtype])
        _, per_head = module(x, y, z, average_attn_weights=False, **mask)
        torch.testing.assert_close(per_head, attended, rtol=0, atol=TOLERANCE[dtype])

    @pytest.mark.parametrize("kind", MASKS)
    def test_positions_first(self, kind):
        weights = random_weights(True)
        x, y, z = example_inputs()
        mask = mask_for(kind)
        wanted, averaged = TicketAttention(*weights, bias=True).double()(x, y, z, **mask)
        module = TicketAttention(*weights, bias=True, batch_first=False).double()
        got, same = module(*(t.transpose(0, 1) for t in (x, y, z)), **mask)
        torch.testing.assert_close(got.transpose(0, 1), wanted, rtol=0, atol=1e-14)
        torch.testing.assert_close(same, averaged, rtol=0, atol=0)

    @pytest.mark.parametrize("batch_first", [False, True])
    @pytest.mark.parametrize("kind", MASKS)
    def test_without_a_batch(self, kind, batch_first):
        weights = random_weights(True)
        module = TicketAttention(*weights, bias=True, batch_first=batch_first).double()
        x, y, z = (t[:1] for t in example_inputs())
        mask = example_mask(kind, batch=1, heads=HEADS, queries=QUERIES, keys=KEYS)
        wanted, attended = attention_by_hand(weights, x, y, z, True, **mask)
        if "key_padding_mask" in mask:
            mask["key_padding_mask"] = mask["key_padding_mask"][0]
        got, averaged = module(x[0], y[0], z[0], **mask)
        torch.testing.assert_close(got, wanted[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(averaged, attended[0].mean(dim=0), rtol=0, atol=1e-12)

    def test_true_forbids_a_position(self):
        module = TicketAttention(*random_weights(False), bias=False).double()
        only_last = torch.ones(QUERIES, KEYS, dtype=torch.bool)
        only_last[:, -1] = False
        _, attended = module(*example_inputs(), attn_mask=only_last)
        assert attended[..., -1].eq(1.0).all()
        assert attended[..., :-1].eq(0.0).all()

    def test_a_mask_per_head_need_not_be_contiguous(self):
        module = TicketAttention(*random_weights(False), bias=False).double()
        mask = mask_for("additive per head")["attn_mask"]
        strided = mask.transpose(1, 2).contiguous().transpose(1, 2)
        assert not strided.is_contiguous()
        assert torch.equal(
            module(*example_inputs(), attn_mask=strided)[0], module(*example_inputs(), attn_mask=mask)[0]
        )

    def test_key_and_value_default_to_the_query(self):
        weights = [[np.eye(4, dtype=np.float32)]] * 4
        module = TicketAttention(*weights, bias=False).double()
        (x,) = inputs((2, 5, 4))
        assert torch.equal(module(x)[0], module(x, x, x)[0])

    def test_need_weights(self):
        module = TicketAttention(*random_weights(False), bias=False).double()
        assert module(*example_inputs(), need_weights=False)[1] is None

    def test_is_causal_alone_is_the_causal_mask(self):
        module = TicketAttention(*random_weights(False), bias=False).double()
        _, attended = module(*example_inputs(), is_causal=True)
        assert torch.equal(attended != 0, torch.ones(QUERIES, KEYS).tril().bool().expand(BATCH, -1, -1))

    def test_has_nothing_to_train_and_runs_in_inference_mode(self):
        module = TicketAttention(*random_weights(True), bias=True)
        assert not list(module.parameters())
        with torch.inference_mode():
            out, _ = module(*example_inputs(torch.float32))
        assert out.is_inference()
        assert not module(*example_inputs(torch.float32))[0].requires_grad

    def test_state_dict_round_trip(self, tmp_path):
        module = TicketAttention(*random_weights(True), bias=True)
        torch.save(module.state_dict(), tmp_path / "module.pt")
        other = TicketAttention(*[[w * 0 for w in part] for part in random_weights(True)], bias=True)
        other.load_state_dict(torch.load(tmp_path / "module.pt", weights_only=True))
        x = example_inputs(torch.float32)
        assert torch.equal(other(*x)[0], module(*x)[0])


class TestMergedAttention:
    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("kind", MASKS)
    def test_equals_its_projections(self, kind, bias):
        query, key, value, output = ([w.astype(float) for w in part] for part in random_weights(bias))
        qk = [q @ k / np.sqrt(N_K) for q, k in zip(query, key, strict=True)]
        vo = [(o @ v).T for v, o in zip(value, output, strict=True)]
        mask = mask_for(kind)
        wanted, attended = attention_by_hand((query, key, value, output), *example_inputs(), bias, **mask)
        got, averaged = MergedAttention(qk, vo, bias=bias)(*example_inputs(), **mask)
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)
        torch.testing.assert_close(averaged, attended.mean(dim=1), rtol=0, atol=1e-12)


class TestReluNetwork:
    def test_is_the_formula(self):
        rng = np.random.default_rng(0)
        layers = [rng.normal(size=(5, 3)), rng.normal(size=(4, 5)), rng.normal(size=(2, 4))]
        x = rng.normal(size=(7, 3))
        wanted = np.maximum(np.maximum(x @ layers[0].T, 0) @ layers[1].T, 0) @ layers[2].T
        np.testing.assert_allclose(ReluNetwork(layers)(torch.as_tensor(x)).numpy(), wanted, atol=1e-14)

    def test_does_not_share_memory_with_the_matrices(self):
        matrix = np.eye(2)
        module = ReluNetwork([matrix])
        module.layer_0.zero_()
        assert np.array_equal(matrix, np.eye(2))


class TestTransformer:
    def test_blocks_follow_one_another(self):
        rng = np.random.default_rng(1)
        blocks = [
            (MergedAttention(rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 3)), bias=False), ReluNetwork([w]))
            for w in 0.3 * rng.normal(size=(2, 3, 3))
        ]
        module = Transformer(*zip(*blocks, strict=True))
        (x,) = inputs((2, 4, 3))
        wanted = x
        for attention, network in blocks:
            middle = attention(wanted, is_causal=True)[0] + wanted
            wanted = network(middle) + middle
        assert torch.equal(module(x, is_causal=True), wanted)
        assert torch.equal(list(module.states(x, is_causal=True))[-1], wanted)
