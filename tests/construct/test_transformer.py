"""Transformers: the module runs the pruned weights as §3.3 says, and the error after each block is measured."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from attention_reference import MASKS, example_mask

from strongticket import construct
from strongticket.construct import AttentionTarget, BlockTarget

SIZE = 3


def block(seed, layers=1, heads=2, size=0.5):
    rng = np.random.default_rng(seed)
    attention = AttentionTarget.from_matrices(*rng.uniform(-size, size, (4, heads, SIZE, SIZE)))
    hidden = [SIZE, *[4] * (layers - 1), SIZE]
    return BlockTarget(attention, [rng.uniform(-size, size, (n, m)) for m, n in pairwise(hidden)])


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def run(blocks, x, added=0.0):
    """§3.3 in NumPy: (T, d) inputs through blocks of (heads, layers); returns the state after each block.

    A head is the four projections W_Q, W_Kᵀ, W_Vᵀ, W_Oᵀ; layers are the matrices of F. ``added`` masks the logits.
    """
    states = []
    for heads, layers in blocks:
        middle = x.copy()
        for w_q, w_k, w_v, w_o in heads:
            logits = (x @ w_q) @ (x @ w_k.T).T / math.sqrt(w_q.shape[1]) + added
            middle += softmax(logits) @ (x @ w_v.T) @ w_o.T
        out = middle
        for place, w in enumerate(layers):
            out = (np.maximum(out, 0.0) if place else out) @ w.T
        x = out + middle
        states.append(x)
    return states


def target_blocks(blocks):
    """Each head as W_Q = √d·W_QK, W_K = 1, W_V = 1, W_O = W_VO, which merge to the target's matrices."""
    one = np.eye(SIZE)
    return [
        (
            [(math.sqrt(SIZE) * qk, one, one, vo.T) for qk, vo in zip(b.attention.qk, b.attention.vo, strict=True)],
            b.layers,
        )
        for b in blocks
    ]


def ticket_blocks(found):
    """The pruned random weights of each block, from the sources and the masks."""

    def pruned(pair):
        return [
            source.weights().astype(np.float64) * mask for source, mask in zip(pair.sources, pair.masks, strict=True)
        ]

    blocks = []
    for attention, network in zip(found.attentions, found.networks, strict=True):
        heads = [(*pruned(qk)[::-1], *pruned(vo)) for qk, vo in zip(attention.qk, attention.vo, strict=True)]
        blocks.append((heads, [w for pair in network.pairs for w in pruned(pair)]))
    return blocks


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("layers", [1, 2])
class TestTicket:
    def found(self, depth, layers):
        blocks = [block(b, layers) for b in range(depth)]
        return blocks, construct.transformer(blocks, items=12, seed=2, refine=4, workers=1)

    def test_module_and_report_are_what_one_computes_oneself(self, depth, layers):
        blocks, found = self.found(depth, layers)
        x = np.random.default_rng(9).normal(size=(5, SIZE))
        causal = np.triu(np.full((5, 5), -np.inf), 1)
        for mask, added in (({}, 0.0), ({"is_causal": True}, causal)):
            got, wanted = run(ticket_blocks(found), x, added), run(target_blocks(blocks), x, added)
            with torch.inference_mode():
                states = list(found.module().double().states(torch.as_tensor(x), **mask))
                exact = list(found.target_module().states(torch.as_tensor(x), **mask))
                out = found.module()(torch.as_tensor(x, dtype=torch.float32), **mask)
            for b in range(depth):
                np.testing.assert_allclose(states[b].numpy(), got[b], rtol=0, atol=1e-12)
                np.testing.assert_allclose(exact[b].numpy(), wanted[b], rtol=0, atol=1e-12)
            np.testing.assert_allclose(out.numpy(), got[-1], rtol=0, atol=1e-4 * np.abs(got[-1]).max())
            errors = [np.linalg.norm(a - b, axis=1).max() for a, b in zip(got, wanted, strict=True)]
            report = found.report(x, **mask)
            assert report.block_errors == pytest.approx(errors, rel=1e-7)
            assert report.output_error == report.block_errors[-1]
            assert report.alpha == np.linalg.norm(x, axis=1).max()

    def test_certificates_hold_after_every_block(self, depth, layers):
        _, found = self.found(depth, layers)
        report = found.report(np.random.default_rng(4).normal(size=(3, 6, SIZE)))
        assert len(report.block_errors) == len(report.certificates) == depth
        for error, bound in zip(report.block_errors, report.certificates, strict=True):
            assert 0 < error <= bound
        assert report.certificates[-1] == found.certificate(report.alpha).bound
        assert report.certificates[0] == found.certificate(report.alpha, blocks=1).bound


class TestConstruction:
    @pytest.mark.parametrize("kind", MASKS)
    def test_every_kind_of_mask(self, kind):
        found = construct.transformer([block(0), block(1)], items=12, refine=4, workers=1)
        x = np.random.default_rng(0).normal(size=(2, 5, SIZE))
        report = found.report(x, **example_mask(kind, batch=2, heads=2, queries=5, keys=5))
        assert all(e <= bound for e, bound in zip(report.block_errors, report.certificates, strict=True))
        assert report.output_error < 0.05

    def test_errors_fall_with_the_items(self):
        blocks = [block(0), block(1)]
        x = np.random.default_rng(0).normal(size=(6, SIZE))
        reports = [
            construct.transformer(blocks, items=items, seed=1, refine=10, workers=1).report(x) for items in (8, 16)
        ]
        assert reports[1].output_error < reports[0].output_error / 10
        assert reports[1].certificates[-1] < reports[0].certificates[-1] / 10

    @pytest.mark.parametrize("numbers", [[6, 9], (6, 9), np.array([6, 9])], ids=["list", "tuple", "array"])
    def test_every_block_has_its_own_number_of_items(self, numbers):
        found = construct.transformer([block(0), block(1)], items=numbers, refine=0, workers=1)
        for place, items in enumerate((6, 9)):
            assert {pair.width for pair in found.attentions[place].pairs} == {items * SIZE}
            assert {pair.width for pair in found.networks[place].pairs} == {items * SIZE * 2}

    def test_every_block_has_its_own_width(self):
        found = construct.transformer([block(0, 2), block(1, 2)], width=[20, 31], refine=0, workers=1)
        for place, width in enumerate((20, 31)):
            pairs = found.attentions[place].pairs + found.networks[place].pairs
            assert {pair.width for pair in pairs} == {width}

    def test_sources_have_a_name_each_and_do_not_depend_on_the_target(self):
        one, two = (
            construct.transformer([block(s), block(s + 1)], items=6, seed=4, refine=0, workers=1) for s in (0, 5)
        )
        sources = [source for pair in one.pairs for source in pair.sources]
        assert [source for pair in two.pairs for source in pair.sources] == sources
        assert len({source.name for source in sources}) == len(sources)
        assert [s.digest() for s in sources] == [s.digest() for p in two.pairs for s in p.sources]

    @pytest.mark.parametrize(
        ("options", "attention", "network"),
        [
            ({}, [48**0.25, 1.0], 1.0),
            ({"range": 0.5}, [0.5 * 48**0.25, 0.5], 0.5),
            ({"init": "xavier"}, [math.sqrt(6 / 51)] * 2, math.sqrt(6 / 51)),
            ({"init": "section-4.1"}, [48**-0.25, 1.0], 1.0),
        ],
    )
    def test_ranges(self, options, attention, network):
        found = construct.transformer([block(0)], width=48, refine=0, workers=1, **options)
        drawn = [pair.sources[0].law.r for pair in (found.attentions[0].qk[0], found.attentions[0].vo[0])]
        assert drawn == pytest.approx(attention, rel=1e-6)
        assert found.networks[0].pairs[0].sources[0].law.r == pytest.approx(network, rel=1e-6)

    def test_the_network_is_that_of_construct_network(self):
        target = block(0, layers=2)
        found = construct.transformer([target], items=8, seed=3, refine=3, workers=1)
        alone = construct.network(target.layers, items=8, seed=3, name="transformer/0/network", refine=3)
        for one, two in zip(found.networks[0].pairs, alone.pairs, strict=True):
            assert one.sources == two.sources
            assert all(np.array_equal(a, b) for a, b in zip(one.masks, two.masks, strict=True))

    @pytest.mark.parametrize("batch_first", [False, True])
    def test_attention_of_torch_with_biases(self, batch_first):
        torch.manual_seed(0)
        layer = torch.nn.MultiheadAttention(4, 2, batch_first=batch_first).double()
        torch.nn.init.uniform_(layer.in_proj_bias, -0.3, 0.3)
        torch.nn.init.uniform_(layer.out_proj.bias, -0.3, 0.3)
        weight = 0.2 * torch.randn(4, 4, dtype=torch.float64)
        found = construct.transformer([BlockTarget(layer, [weight])], items=14, refine=10, workers=1)
        x = torch.randn(2, 5, 4, dtype=torch.float64)
        with torch.inference_mode():
            y = x if batch_first else x.transpose(0, 1)
            attended = layer(y, y, y)[0]
            middle = x + (attended if batch_first else attended.transpose(0, 1))
            wanted = middle @ weight.T + middle
            got = found.module().double()(x)
        error = float((got - wanted).norm(dim=-1).max())
        report = found.report(x)
        assert report.output_error == pytest.approx(error, rel=1e-7)
        assert error <= report.certificates[-1] < 0.5

    def test_prints_a_table(self):
        report = construct.transformer([block(0), block(1)], items=6, refine=0, workers=1).report(np.eye(SIZE))
        assert "after block" in str(report)
        assert f"{report.certificates[1]:.3g}" in str(report)
        assert set(report.to_dict()) == {"block_errors", "certificates", "alpha"}

    def test_largest_entry_error(self):
        found = construct.transformer([block(0)], items=6, refine=0, workers=1)
        assert found.max_error == max(float(np.abs(pair.errors()).max()) for pair in found.pairs)


class TestErrors:
    """All before anything is solved."""

    @pytest.fixture(autouse=True)
    def _no_solving(self, monkeypatch):
        def solved(*_args, **_settings):
            raise AssertionError("a subset sum was solved")

        monkeypatch.setattr("strongticket.construct.prune.solve_checked", solved)

    def test_no_blocks(self):
        with pytest.raises(ValueError, match="at least one block, got none"):
            construct.transformer([])

    @pytest.mark.parametrize("wrong", [torch.nn.Linear(2, 2), None, [np.eye(2)]])
    def test_not_blocks(self, wrong):
        with pytest.raises(ValueError, match=f"list of BlockTarget, got {type(wrong).__name__}"):
            construct.transformer(wrong)

    def test_a_single_block_is_not_a_list(self):
        with pytest.raises(ValueError, match="list of BlockTarget, got BlockTarget"):
            construct.transformer(block(0))

    @pytest.mark.parametrize("what", ["items", "width"])
    def test_one_number_too_few(self, what):
        with pytest.raises(ValueError, match=f"{what} must be one number or one per block, got 1 for 2 blocks"):
            construct.transformer([block(0), block(1)], **{what: [30]})

    def test_items_and_width(self):
        with pytest.raises(ValueError, match="give items or width, not both"):
            construct.transformer([block(0)], items=8, width=30)

    def test_a_width_that_is_too_small(self):
        with pytest.raises(ValueError, match=r"at least 6 for layer 0, a matrix of shape \(3, 3\) through ReLU.*got 5"):
            construct.transformer([block(0), block(1)], width=[40, 5])

    def test_blocks_of_different_sizes(self):
        eye = np.eye(2)[None]
        small = BlockTarget(AttentionTarget.from_matrices(eye, eye, eye, eye), [np.eye(2)])
        with pytest.raises(ValueError, match=r"got sizes \[3, 2\]"):
            construct.transformer([block(0), small])

    def test_a_range_with_another_init(self):
        with pytest.raises(ValueError, match=r'range=2\.0 needs init="theory"'):
            construct.transformer([block(0)], init="xavier", range=2.0)
