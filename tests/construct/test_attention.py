"""Attention from attention: the ticket is torch's layer within the certificate, over sources drawn once."""

import math

import numpy as np
import pytest
import torch
from attention_reference import MASKS, attention_by_hand, example_mask, inputs

from strongticket import construct
from strongticket.construct import AttentionTarget
from strongticket.modules import MergedAttention
from strongticket.theory import attention_certificate

SIZE, HEADS = 4, 2


def layer(seed=0, **options):
    torch.manual_seed(seed)
    module = torch.nn.MultiheadAttention(SIZE, HEADS, **{"batch_first": True, **options}).double()
    if module.in_proj_bias is not None:
        torch.nn.init.uniform_(module.in_proj_bias, -0.5, 0.5)
        torch.nn.init.uniform_(module.out_proj.bias, -0.5, 0.5)
    return module


def matrices(seed=0, heads=2, d1=3, d2=2, size=0.7):
    rng = np.random.default_rng(seed)
    query, key, value = rng.uniform(-size, size, (3, heads, d1, 5))
    return AttentionTarget.from_matrices(query, key, value, rng.uniform(-size, size, (heads, 5, d2)))


@pytest.fixture(scope="module")
def target():
    return layer(kdim=5, vdim=3)


@pytest.fixture(scope="module")
def found(target):
    return construct.attention(target, items=24, seed=7, refine=4, workers=1)


class TestTicket:
    """24 items: the ticket is torch.nn.MultiheadAttention, and no further from it than certified."""

    x, y, z = inputs((2, 4, SIZE), (2, 5, 5), (2, 5, 3))

    @pytest.mark.parametrize("kind", MASKS)
    def test_is_the_target_within_the_certificate(self, target, found, kind):
        mask = example_mask(kind, batch=2, heads=HEADS, queries=4, keys=5)
        with torch.inference_mode():
            wanted, attended = target(self.x, self.y, self.z, **mask)
            got, same = found.module().double()(self.x, self.y, self.z, **mask)
        alpha, alpha_kv = (max(float(t.norm(dim=-1).max()) for t in part) for part in ([self.x], [self.y, self.z]))
        error = float((got - wanted).norm(dim=-1).max())
        assert 0 < error <= found.certificate(alpha, alpha_kv).bound < 1e-4
        torch.testing.assert_close(same, attended, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("kind", MASKS)
    def test_report_is_what_one_computes_oneself(self, target, found, kind):
        mask = example_mask(kind, batch=2, heads=HEADS, queries=4, keys=5)
        report = found.report(self.x, self.y, self.z, **mask)
        weights = [np.stack(part) for part in zip(*(pair.weights() for pair in found.qk), strict=True)][::-1]
        weights += [np.stack(part) for part in zip(*(pair.weights() for pair in found.vo), strict=True)]
        got, _ = attention_by_hand(weights, self.x, self.y, self.z, True, **mask)
        wanted = target(self.x, self.y, self.z, **mask)[0].detach()
        assert report.output_error == pytest.approx(float((got - wanted).norm(dim=-1).max()), rel=1e-6)
        assert report.output_error <= report.certificate
        assert report.alpha == max(float(t.norm(dim=-1).max()) for t in (self.x, self.y, self.z))
        for j, errors in enumerate(report.heads):
            w_q, w_k, w_v, w_o = (part[j] for part in weights)
            qk = w_q @ w_k / math.sqrt(w_q.shape[1]) - found.target.qk[j]
            vo = (w_o @ w_v).T - found.target.vo[j]
            expected = [m for e in (qk, vo) for m in (np.abs(e).max(), np.linalg.svd(e, compute_uv=False)[0])]
            assert list(vars(errors).values()) == pytest.approx(expected, rel=1e-8)

    def test_certificate_is_that_of_the_real_matrices(self, found):
        qk = [pair.product() for pair in found.qk]
        vo = [pair.product().T for pair in found.vo]
        wanted = attention_certificate(found.target.qk, qk, found.target.vo, vo, alpha=1.5, alpha_kv=2.5, bias=True)
        assert found.certificate(1.5, 2.5) == wanted
        assert found.certificate(1.5).bound < wanted.bound

    @pytest.mark.parametrize("kind", MASKS)
    def test_both_modules_agree_to_rounding(self, found, kind):
        mask = example_mask(kind, batch=2, heads=HEADS, queries=4, keys=5)
        exact, folded = found.module().double(), found.merged()
        with torch.inference_mode():
            wanted = exact(self.x, self.y, self.z, **mask)[0]
            size = float(wanted.abs().max())
            torch.testing.assert_close(folded(self.x, self.y, self.z, **mask)[0], wanted, rtol=0, atol=1e-13 * size)
            mask = {
                name: m.float() if torch.is_tensor(m) and m.dtype == torch.double else m for name, m in mask.items()
            }
            for module in (found.module(), found.merged().float()):
                got = module(self.x.float(), self.y.float(), self.z.float(), **mask)[0]
                assert got.dtype == torch.float32
                torch.testing.assert_close(got.double(), wanted, rtol=0, atol=1e-5 * size)

    def test_positions_first_like_the_target(self):
        module = layer(batch_first=False)
        found = construct.attention(module, items=12, refine=2, workers=1)
        (x,) = inputs((5, 3, SIZE))
        with torch.inference_mode():
            error = (found.merged()(x)[0] - module(x, x, x)[0]).norm(dim=-1).max()
        assert found.report(x).output_error == pytest.approx(float(error), rel=1e-6)
        assert float(error) <= found.report(x).certificate

    @pytest.mark.parametrize("bias", [False, True])
    def test_with_and_without_bias(self, bias):
        module = layer(bias=bias)
        found = construct.attention(module, items=16, refine=2, workers=1)
        (x,) = inputs((3, 5, SIZE))
        report = found.report(x, is_causal=True)
        assert found.module().bias is bias
        assert report.output_error <= report.certificate < 0.1

    def test_other_inputs_than_outputs(self):
        found = construct.attention(matrices(d1=3, d2=2, size=0.5), items=16, refine=20, workers=1)
        assert found.module()(torch.zeros(4, 3))[0].shape == (4, 2)
        report = found.report(np.random.default_rng(1).normal(size=(6, 3)))
        assert report.output_error <= report.certificate < 0.1


class TestReport:
    def test_a_value_without_a_key_is_a_value(self):
        found = construct.attention(matrices(), items=12, refine=0, workers=1)
        x, z = inputs((4, 3), (4, 3))
        reference = MergedAttention(found.target.qk, found.target.vo, bias=False)
        error = (found.module().double()(x, x, z)[0] - reference(x, x, z)[0]).norm(dim=-1).max()
        assert found.report(x, value=z).output_error == float(error)

    def test_takes_arrays_and_prints_a_table(self):
        found = construct.attention(matrices(), items=12, refine=0, workers=1)
        x = np.random.default_rng(0).normal(size=(4, 3))
        mask = np.triu(np.ones((4, 4), dtype=bool), 1)
        report = found.report(x, attn_mask=mask)
        assert report == found.report(torch.as_tensor(x), is_causal=True)
        assert "W_QK spectral" in str(report)
        assert f"certificate {report.certificate:.3g}" in str(report)
        assert set(report.to_dict()) == {"heads", "output_error", "certificate", "alpha"}
        assert len(report.to_dict()["heads"]) == 2


class TestMasksAndSources:
    @pytest.mark.parametrize("layout", ["paper", "assigned"])
    def test_masks_are_bits_over_sources_drawn_once(self, layout):
        target = matrices(size=0.4)
        before = [
            (source, source.digest())
            for pair in construct.attention(matrices(seed=9), items=6, seed=3, refine=0, workers=1).pairs
            for source in pair.sources
        ]
        found = construct.attention(target, items=6, seed=3, layout=layout, refine=2, workers=1)
        after = [(source, source.digest()) for pair in found.pairs for source in pair.sources]
        if layout == "assigned":
            assert after == before
        names = [source.name for source, _ in after]
        assert len(set(names)) == len(names) == 8
        for pair in found.pairs:
            for mask, source, kept in zip(pair.masks, pair.sources, pair.weights(), strict=True):
                assert mask.dtype == np.bool_
                assert mask.shape == source.shape
                assert np.array_equal(kept, np.where(mask, source.weights(), 0.0))
        total = sum(mask.size for pair in found.pairs for mask in pair.masks)
        assert found.density == sum(int(mask.sum()) for pair in found.pairs for mask in pair.masks) / total

    def test_other_seeds_and_names_are_other_sources(self):
        digests = {
            construct.attention(matrices(), items=4, refine=0, workers=1, **other).qk[0].sources[0].digest()
            for other in ({}, {"seed": 1}, {"name": "second"})
        }
        assert len(digests) == 3

    def test_paper_layout_is_that_of_the_proof(self):
        # Lemma 7 on the input side: unit k of the key (of the value) keeps the weight of input k // n' only.
        d1, d2, items = 3, 2, 5
        found = construct.attention(matrices(d1=d1, d2=d2), items=items, layout="paper", workers=1)
        unit, width = np.arange(items * d1), items * d1
        wanted = np.zeros((width, d1), dtype=bool)
        wanted[unit, unit // items] = True
        for qk, vo in zip(found.qk, found.vo, strict=True):
            assert qk.sources[0].name.endswith("/key")
            assert qk.sources[1].name.endswith("/query")
            assert vo.sources[0].name.endswith("/value")
            assert vo.sources[1].name.endswith("/output")
            assert np.array_equal(qk.masks[0], wanted)
            assert np.array_equal(vo.masks[0], wanted)
            assert qk.masks[1].shape == (d1, width)
            assert vo.masks[1].shape == (d2, width)

    def test_assigned_layout_shares_units_on_the_smaller_side(self):
        found = construct.attention(matrices(d1=5, d2=2), items=6, refine=0, workers=1)
        assert found.qk[0].width == 6 * 5
        assert found.vo[0].width == 6 * 2
        assert np.array_equal(found.vo[0].masks[1].sum(axis=0), np.ones(12))

    def test_width_in_place_of_items(self):
        found = construct.attention(matrices(d1=3, d2=2), width=19, refine=0, workers=1)
        assert {pair.width for pair in found.pairs} == {19}


class TestInit:
    def ranges(self, width=81, **options):
        found = construct.attention(matrices(d1=4, d2=4), width=width, refine=0, tol=0.1, workers=1, **options)
        pairs = (found.qk[0], found.vo[0])
        return {s.name.rpartition("/")[2]: s.law.r for pair in pairs for s in pair.sources}, pairs[0].scale

    def test_theory_has_products_like_u_times_u(self):
        # n_K = 81: query and key U[-3, 3], so that 3·3/√81 = 1, as for value and output (§3.1)
        assert self.ranges() == ({"key": 3.0, "query": 3.0, "value": 1.0, "output": 1.0}, 1 / 9)

    def test_range_multiplies_every_source(self):
        assert self.ranges(range=0.5)[0] == {"key": 1.5, "query": 1.5, "value": 0.5, "output": 0.5}

    def test_xavier(self):
        # √(6 / (fan in + fan out)) = √(6/85)
        ranges, _ = self.ranges(init="xavier")
        assert list(ranges.values()) == pytest.approx([math.sqrt(6 / 85)] * 4, rel=1e-7)

    def test_section_4_1(self):
        ranges, _ = self.ranges(init="section-4.1")
        assert list(ranges.values()) == pytest.approx([1 / 3, 1 / 3, 1.0, 1.0], rel=1e-7)

    def test_auto_differs_between_pairs_and_is_recorded(self):
        large, small = np.eye(3)[None], 0.01 * np.eye(3)[None]
        found = construct.attention(
            AttentionTarget.from_matrices(large, large, small, small), width=48, refine=0, range="auto", workers=1
        )
        r_qk, r_vo = found.qk[0].sources[0].law.r / 48**0.25, found.vo[0].sources[0].law.r
        assert r_vo < 0.1 < r_qk
        assert found.vo[0].max_error < 1e-6

    def test_theory_reaches_what_the_others_do_not(self):
        errors = {
            init: construct.attention(matrices(size=1.0), items=14, refine=0, init=init, workers=1).qk[0].max_error
            for init in ("theory", "xavier", "section-4.1")
        }
        assert errors["theory"] < 0.01
        assert errors["xavier"] > 5 * errors["theory"]
        assert errors["section-4.1"] > 5 * errors["theory"]


class TestErrors:
    """All before anything is solved."""

    @pytest.fixture(autouse=True)
    def _no_solving(self, monkeypatch):
        def solved(*_args, **_settings):
            raise AssertionError("a subset sum was solved")

        monkeypatch.setattr("strongticket.construct.prune.solve_checked", solved)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"items": 8, "width": 24}, "give items or width, not both: got items=8 and width=24"),
            ({"items": 0}, "items must be at least 1, got 0"),
            ({"width": 2}, r"width must be at least 3 for qk of head 0, a matrix of shape \(3, 3\).*got 2"),
            ({"init": "kaiming"}, "unknown init 'kaiming'; choose one of theory, xavier, section-4.1"),
            ({"init": "xavier", "range": 0.5}, 'range=0.5 needs init="theory"'),
            ({"init": "section-4.1", "range": "auto"}, "range='auto' needs init=\"theory\""),
            ({"range": -1.0}, "range must be a positive number"),
            ({"layout": "diagonal"}, "unknown layout 'diagonal'; choose one of assigned, paper"),
            ({"refine": -1}, "refine must be a number of rounds, 0 for none, got -1"),
        ],
    )
    def test_says_what_to_change(self, options, message):
        with pytest.raises(ValueError, match=message):
            construct.attention(matrices(), **options)

    def test_paper_layout_needs_units_for_every_input(self):
        with pytest.raises(ValueError, match=r"at least 5 for qk of head 0"):
            construct.attention(matrices(d1=5, d2=2), width=4, layout="paper")
        with pytest.raises(ValueError, match=r"at least 5 for qk of head 0"):
            construct.attention(matrices(d1=5, d2=2), width=4)
