"""What can be a target: torch's attention layer and plain matrices, merged head by head; blocks of a transformer."""

import math

import numpy as np
import pytest
import torch
from attention_reference import MASKS, attention_by_hand, example_mask, inputs

from strongticket import construct
from strongticket.construct.targets import AttentionTarget, BlockTarget, read_multihead_attention
from strongticket.modules import MergedAttention

SIZES = {"equal sizes": {}, "kdim and vdim": {"kdim": 5, "vdim": 3}}


def layer(seed=0, *, bias=True, batch_first=True, heads=2, size=6, **sizes):
    torch.manual_seed(seed)
    module = torch.nn.MultiheadAttention(size, heads, bias=bias, batch_first=batch_first, **sizes).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-0.7, 0.7)
    return module


class TestMultiheadAttention:
    @pytest.mark.parametrize("sizes", SIZES)
    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("batch_first", [False, True])
    @pytest.mark.parametrize("kind", MASKS)
    def test_merged_matrices_are_the_layer(self, kind, batch_first, bias, sizes):
        module = layer(bias=bias, batch_first=batch_first, **SIZES[sizes])
        x, y, z = inputs((2, 4, 6), (2, 5, module.kdim), (2, 5, module.vdim))
        if not batch_first:
            x, y, z = (t.transpose(0, 1) for t in (x, y, z))
        mask = example_mask(kind, batch=2, heads=2, queries=4, keys=5)
        target = read_multihead_attention(module)
        merged = MergedAttention(target.qk, target.vo, bias=target.bias, batch_first=target.batch_first)
        with torch.inference_mode():
            wanted, averaged = module(x, y, z, **mask)
            _, per_head = module(x, y, z, average_attn_weights=False, **mask)
            got, same = merged(x, y, z, **mask)
            _, each = merged(x, y, z, average_attn_weights=False, **mask)
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)
        torch.testing.assert_close(same, averaged, rtol=0, atol=1e-12)
        torch.testing.assert_close(each, per_head, rtol=0, atol=1e-12)

    def test_without_a_batch(self):
        module = layer(batch_first=False)
        (x,) = inputs((4, 6))
        target = read_multihead_attention(module)
        merged = MergedAttention(target.qk, target.vo, bias=True, batch_first=False)
        with torch.inference_mode():
            torch.testing.assert_close(merged(x)[0], module(x, x, x)[0], rtol=0, atol=1e-12)

    def test_float32_layers_are_read_exactly(self):
        module = layer().float()
        wanted, got = read_multihead_attention(module.double()), read_multihead_attention(module)
        for a, b in zip(wanted.qk + wanted.vo, got.qk + got.vo, strict=True):
            assert np.array_equal(a, b)

    @pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
    def test_positions_that_no_input_has_are_refused(self, option):
        module = torch.nn.MultiheadAttention(4, 2, **{option: True})
        with pytest.raises(ValueError, match=f"{option}.*build the layer without them"):
            construct.attention(module)

    @pytest.mark.parametrize("wrong", [torch.nn.Linear(2, 2), np.eye(2), None, "attention"])
    def test_other_types_are_refused(self, wrong):
        with pytest.raises(ValueError, match=rf"got {type(wrong).__name__}; AttentionTarget.from_matrices takes"):
            construct.attention(wrong)

    def test_nan_is_refused(self):
        module = layer()
        with torch.no_grad():
            module.out_proj.weight[1, 2] = math.nan
        with pytest.raises(ValueError, match=r"out_proj.weight must be finite, got 1 NaN.*\[1, 2\] = nan"):
            construct.attention(module)


class TestMatrices:
    rng = np.random.default_rng(2)
    query, key, value = rng.normal(size=(3, 2, 4, 5))
    output = rng.normal(size=(2, 5, 3))

    def test_merged_matrices_are_attention_by_hand(self):
        target = AttentionTarget.from_matrices(self.query, self.key, self.value, self.output)
        (x,) = inputs((2, 6, 4))
        weights = (self.query, *(part.transpose(0, 2, 1) for part in (self.key, self.value, self.output)))
        wanted, _ = attention_by_hand(weights, x, x, x, bias=False)
        got, _ = MergedAttention(target.qk, target.vo, bias=False)(x)
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)

    def test_packed_matrices_are_the_same(self):
        one = AttentionTarget.from_matrices(self.query, self.key, self.value, self.output)
        packed = [np.concatenate(part, axis=1) for part in (self.query, self.key, self.value)]
        two = AttentionTarget.from_matrices(*packed, np.concatenate(self.output), heads=2)
        for a, b in zip(one.qk + one.vo, two.qk + two.vo, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-15)

    def test_torch_tensors_and_lists(self):
        parts = (self.query, self.key, self.value, self.output)
        one = AttentionTarget.from_matrices(*(torch.as_tensor(part).requires_grad_() for part in parts))
        two = AttentionTarget.from_matrices(*(part.tolist() for part in parts))
        for a, b in zip(one.qk + one.vo, two.qk + two.vo, strict=True):
            assert np.array_equal(a, b)

    @pytest.mark.parametrize("heads", [0, 3, -1])
    def test_heads_that_do_not_divide(self, heads):
        wide = np.zeros((4, 10))
        with pytest.raises(ValueError, match=rf"query of shape \(4, 10\) has 10 columns, which {heads} heads"):
            AttentionTarget.from_matrices(wide, wide, wide, np.zeros((10, 4)), heads=heads)
        with pytest.raises(ValueError, match=r"output of shape \(9, 4\) has 9 rows, which 2 heads"):
            AttentionTarget.from_matrices(wide, wide, wide, np.zeros((9, 4)), heads=2)

    def test_a_single_matrix_without_heads(self):
        with pytest.raises(ValueError, match=r"query must hold one matrix per head.*heads="):
            AttentionTarget.from_matrices(np.eye(2), np.eye(2), np.eye(2), np.eye(2))

    def test_heads_that_differ(self):
        with pytest.raises(ValueError, match=r"one matrix per head, got \{'query': 2, 'key': 1"):
            AttentionTarget.from_matrices(self.query, self.key[:1], self.value, self.output)
        with pytest.raises(ValueError, match=r"head 0: query \(4, 5\) and key \(4, 3\) must have as many columns"):
            AttentionTarget.from_matrices(self.query, self.key[:, :, :3], self.value, self.output)
        with pytest.raises(ValueError, match=r"qk must have one shape for all heads, got \[\(2, 2\), \(3, 3\)\]"):
            AttentionTarget([np.eye(2), np.eye(3)], [np.eye(2), np.eye(2)])
        with pytest.raises(ValueError, match="one in vo, got 1 and 2"):
            AttentionTarget([np.eye(2)], [np.eye(2), np.eye(2)])
        with pytest.raises(ValueError, match="one in vo, got 0 and 0"):
            AttentionTarget.from_matrices([], [], [], [])

    def test_nan_and_infinity(self):
        for bad in (math.nan, math.inf):
            value = self.value.copy()
            value[1, 2, 3] = bad
            with pytest.raises(ValueError, match=rf"value\[1\] must be finite.*\[2, 3\] = {bad}"):
                AttentionTarget.from_matrices(self.query, self.key, value, self.output)
        with pytest.raises(ValueError, match=r"vo\[0\] must be finite"):
            AttentionTarget([np.eye(2)], [np.full((2, 2), math.nan)])

    def test_the_target_does_not_change_with_the_arrays_it_came_from(self):
        matrix = np.eye(2)
        target = AttentionTarget([matrix], [matrix])
        matrix[0, 0] = 7.0
        assert target.qk[0][0, 0] == 1.0


class TestBlock:
    eye = np.eye(2)[None]
    attention = AttentionTarget.from_matrices(eye, eye, eye, eye)

    def test_sizes_that_do_not_fit(self):
        with pytest.raises(ValueError, match="the network takes 3 and the query has 2"):
            BlockTarget(self.attention, [np.eye(3)])
        with pytest.raises(ValueError, match="the network takes 2 and the network output has 3"):
            BlockTarget(self.attention, [np.ones((3, 2))])
        with pytest.raises(ValueError, match=r"weights\[1\] of shape \(2, 5\) takes 5 inputs"):
            BlockTarget(self.attention, [np.ones((3, 2)), np.ones((2, 5))])
        wide = AttentionTarget.from_matrices(self.eye, self.eye, self.eye, np.ones((1, 2, 4)))
        with pytest.raises(ValueError, match="the network takes 2 and the attention output has 4"):
            BlockTarget(wide, [np.eye(2)])

    def test_bad_layers(self):
        with pytest.raises(ValueError, match="at least one weight matrix, got none"):
            BlockTarget(self.attention, [])
        with pytest.raises(ValueError, match=r"weights\[0\] must be finite"):
            BlockTarget(self.attention, [np.full((2, 2), math.nan)])

    def test_takes_the_layer_of_torch_and_always_has_the_batch_first(self):
        block = BlockTarget(layer(batch_first=False), [np.eye(6)])
        assert block.attention.batch_first
        assert block.attention.bias
        assert block.size == 6
        with pytest.raises(ValueError, match="got Linear"):
            BlockTarget(torch.nn.Linear(2, 2), [np.eye(2)])
