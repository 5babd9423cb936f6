"""Theorem 6 (Theorem 14): a transformer of B blocks contains another one. Widths, certificate, construction."""

import math

import numpy as np
import pytest
from reference import block, masks, unit, worst

from strongticket import construct
from strongticket.theory import (
    BlockMatrices,
    block_certificate,
    lemma_13_bound,
    transformer_certificate,
    transformer_widths,
)


class TestWidths:
    def test_three_blocks_by_hand(self):
        # d=1, H=1, α=1, ε=1/2: β = 1, 4, 16 and 16·β² = 256 (block 2), 4096 (block 3)
        # block 1: ε/(2²·256·4096) = ε/2^22, n_MHA = log(32·2^23) = 28·log 2, n_FC = log(24·2^23)
        # block 2: ε/(2²·4096) = ε/2^14, n_MHA = log(32·8³·2^15) = 29·log 2, n_FC = log(24·8·2^15)
        # block 3: ε/2, n_MHA = log(32·32³·4) = 22·log 2, n_FC = log(24·32·4)
        # with 24·2^23 = 3·2^26, 24·8·2^15 = 3·2^21, 24·32·4 = 3·2^10
        widths = transformer_widths(d=1, heads=1, blocks=3, eps=0.5)
        log2, log3 = 0.6931471805599453, 1.0986122886681098
        assert widths.betas == pytest.approx((1.0, 4.0, 16.0), rel=1e-14)
        assert [w.exact["n_MHA"] for w in widths.blocks] == pytest.approx([28 * log2, 29 * log2, 22 * log2])
        wanted = [log3 + 26 * log2, log3 + 21 * log2, log3 + 10 * log2]
        assert [w.exact["n_FC"] for w in widths.blocks] == pytest.approx(wanted, rel=1e-13)
        assert [(w.n_MHA, w.n_FC) for w in widths.blocks] == [(20, 20), (21, 16), (16, 9)]

    def test_probability_by_hand(self):
        # the ε of the three blocks above, added: 2^-23 + 2^-15 + 2^-2
        widths = transformer_widths(d=1, heads=1, blocks=3, eps=0.5)
        assert widths.printed_probability == pytest.approx(1 - 2**-23 - 2**-15 - 0.25, rel=1e-14)

    def test_two_blocks_by_hand(self):
        # d=2, H=1, α=√2, ε=0.1: β_2 = √2·4·√2 = 8, 16·√2·64 = 1448.154688, block 1: ε/(2·1448.154688)
        # n_MHA: 32·2^{3/2}·2^{3/2}·2896.309376/0.1 = 7414552.0; 2·log = 31.637765
        widths = transformer_widths(d=2, heads=1, blocks=2, eps=0.1)
        assert widths.blocks[0].exact["n_MHA"] == pytest.approx(2 * math.log(256 * 2896.309376 / 0.1), rel=1e-9)
        assert [(w.n_MHA, w.n_FC) for w in widths.blocks] == [(32, 32), (32, 22)]

    def test_corrected_adds_log_17_16_for_every_later_block(self):
        # log(17/16) = 0.06062462181643484; block b has B - b such factors, times d=3
        printed = transformer_widths(d=3, heads=2, blocks=4, eps=0.1)
        corrected = transformer_widths(d=3, heads=2, blocks=4, eps=0.1, corrected=True)
        for b, (less, more) in enumerate(zip(printed.blocks, corrected.blocks, strict=True), start=1):
            for key in ("n_MHA", "n_FC"):
                difference = more.exact[key] - less.exact[key]
                assert difference == pytest.approx(3 * (4 - b) * 0.06062462181643484, abs=1e-10)

    @pytest.mark.parametrize("blocks", [2, 3, 12, 1000])
    @pytest.mark.parametrize("eps", [1e-6, 0.999999])
    def test_probability_is_at_least_the_printed_closed_form(self, blocks, eps):
        widths = transformer_widths(d=8, heads=4, blocks=blocks, eps=eps)
        assert widths.probability >= widths.printed_probability >= 1 - 1055 / 1984 * eps
        assert all(math.isfinite(w.exact["n_MHA"]) and w.n_MHA > 0 for w in widths.blocks)

    @pytest.mark.parametrize("blocks", [-1, 0, 1, 2.5])
    def test_fewer_than_two_blocks(self, blocks):
        with pytest.raises(ValueError, match=r"Theorem 6 assumes B \(blocks\) >= 2"):
            transformer_widths(d=2, heads=1, blocks=blocks, eps=0.1)


class TestInduction:
    """What block b ≥ 2 passes on, E, must cover what Lemma 13 makes of its input error e = E/(c·H·√d·β²)."""

    @staticmethod
    def chain(d, heads, blocks, eps, stretch, constant):
        alpha = stretch * math.sqrt(d)
        betas = [alpha * (4 * heads * math.sqrt(d)) ** b for b in range(blocks)]
        for b in range(2, blocks + 1):
            later = math.prod(constant * heads * math.sqrt(d) * beta**2 for beta in betas[b:])
            passed_on = eps / (2 ** (blocks - b + 1) * later)
            yield betas[b - 1], passed_on, passed_on / (constant * heads * math.sqrt(d) * betas[b - 1] ** 2)

    @pytest.mark.parametrize("constant", [9, 16, 17])
    @pytest.mark.parametrize("d", [1, 2, 64])
    @pytest.mark.parametrize("heads", [1, 8])
    @pytest.mark.parametrize("stretch", [1.0, 20.0])
    def test_closes_with_the_factor_2_when_the_exponential_is_evaluated(self, constant, d, heads, stretch):
        for beta, passed_on, error in self.chain(d, heads, 5, 1 - 1e-9, stretch, constant):
            # The ticket's inputs may have norm β + e, a little more than Lemma 13 assumes.
            received = lemma_13_bound(error, d1=d, heads=heads, alpha=beta + error, corrected=True)
            assert received <= passed_on

    @pytest.mark.parametrize(("constant", "closes"), [(16, False), (17, True)])
    def test_closes_by_the_steps_of_the_paper_from_17_on(self, constant, closes):
        # β = 4 is the smallest: d = H = α = 1. The paper's step: exp(x) - 1 ≤ 2x with x = 4·β·e.
        for beta, passed_on, error in self.chain(1, 1, 2, 1 - 1e-9, 1.0, constant):
            alpha = beta + error
            received = 2 * (alpha * 2 * 4 * alpha * error + 2 * error)
            assert (received <= passed_on) is closes


def make_block(rng, d, heads, noise, scale=1.0):
    target = [[scale * unit(rng, d, d) for _ in range(heads)] for _ in range(2)]
    ticket = [[w + noise * unit(rng, d, d) for w in part] for part in target]
    layers = [scale * unit(rng, d, d)]
    pairs = [(w + noise * unit(rng, d, d), -w + noise * unit(rng, d, d)) for w in layers]
    return BlockMatrices(target[0], ticket[0], target[1], ticket[1], layers, pairs)


class TestCertificate:
    @pytest.mark.parametrize("noise", [1e-4, 0.02])
    def test_never_below_the_worst_error_found(self, noise):
        rng = np.random.default_rng(11)
        d, alpha, length = 2, 1.0, 4
        blocks = [make_block(rng, d, 2, noise, scale=0.5) for _ in range(3)]
        certificate = transformer_certificate(blocks, alpha)
        mask = masks(length)[0]

        def error(inputs):
            there = back = inputs[0]
            for b in blocks:
                there = block(there, b.target_qk, b.target_vo, b.target_layers, mask)
                back = block(back, b.ticket_qk, b.ticket_vo, b.ticket_layers, mask)
            return (there - back).norm(dim=1)

        found = worst(error, [(length, d)], [alpha], steps=60)
        assert 0.0 < found <= certificate.bound

    def test_one_block_is_the_block_certificate(self):
        one = make_block(np.random.default_rng(2), 3, 2, 0.1)
        assert transformer_certificate([one], 1.5).bound == block_certificate(one, 1.5).bound

    def test_says_from_which_block_on_it_is_useless(self):
        blocks = [make_block(np.random.default_rng(b), 3, 2, 0.1) for b in range(8)]
        certificate = transformer_certificate(blocks, 2.0)
        assert certificate.useless_from is not None
        assert 1 < certificate.useless_from <= 8
        assert math.isfinite(certificate.bound)
        assert certificate.bound >= certificate.trivial
        assert f"says nothing from block {certificate.useless_from} on" in str(certificate)

    @pytest.mark.parametrize("noise", [1e78, 0.0])
    def test_norms_that_overflow_are_reported(self, noise):
        blocks = [make_block(np.random.default_rng(b), 2, 1, noise, scale=1e80) for b in range(6)]
        certificate = transformer_certificate(blocks, 1.0)
        assert certificate.bound == math.inf
        assert certificate.useless_from is not None
        assert certificate.to_dict()["bound"] is None

    def test_sizes_must_agree(self):
        eye, wide = np.eye(2), np.ones((2, 3))
        with pytest.raises(ValueError, match=r"block 1: a block adds its input.*'attention output': 3"):
            transformer_certificate([BlockMatrices([eye], [eye], [wide], [wide], [eye], [eye])], 1.0)


def target_block(rng, d, heads=1, scale=0.5):
    """One block of the target with a single-layer F, as in §3.3."""
    projections = ([scale * unit(rng, d, d) for _ in range(heads)] for _ in range(4))
    return construct.BlockTarget(construct.AttentionTarget.from_matrices(*projections), [scale * unit(rng, d, d)])


class TestConstruction:
    """There are masks in a random transformer that make it the target, and here they are."""

    @pytest.mark.parametrize("mask_number", [0, 1, 2])
    def test_no_input_is_further_off_than_the_certificate(self, mask_number):
        rng = np.random.default_rng(3)
        targets = [target_block(rng, 2, heads=2) for _ in range(2)]
        found = construct.transformer(targets, items=12, refine=4, workers=1)
        alpha, length = math.sqrt(2), 4
        mask, ticket = masks(length)[mask_number], found.module().double()

        def error(inputs):
            there = inputs[0]
            for b in targets:
                there = block(there, b.attention.qk, b.attention.vo, b.layers, mask)
            return (there - ticket(inputs[0], attn_mask=~mask)).norm(dim=1)

        largest = worst(error, [(length, 2)], [alpha], steps=40)
        assert 0.0 < largest <= found.certificate(alpha).bound

    def test_the_widths_of_the_theorem_are_enough(self):
        # B = 2, d = 2, H = 1, α = √2, ε = 0.5 and C = 2: one width per block, the larger of n_MHA and n_FC
        eps, alpha = 0.5, math.sqrt(2)
        widths = transformer_widths(d=2, heads=1, blocks=2, eps=eps, alpha=alpha, C=2)
        for seed in range(5):
            rng = np.random.default_rng(seed)
            targets = [target_block(rng, 2, scale=1.0) for _ in range(2)]
            found = construct.transformer(
                targets, width=[max(w.n_MHA, w.n_FC) for w in widths.blocks], seed=seed, refine=4, workers=1
            )
            x = rng.normal(size=(8, 5, 2))
            x *= alpha / np.linalg.norm(x, axis=-1, keepdims=True)
            assert found.report(x).output_error <= eps

    def test_every_block_adds_to_the_error_and_more_items_make_it_small(self):
        rng = np.random.default_rng(0)
        targets = [target_block(rng, 3) for _ in range(3)]
        x = rng.normal(size=(6, 3))
        few, many = (construct.transformer(targets, items=n, refine=6, workers=1).report(x) for n in (8, 16))
        assert list(many.certificates) == sorted(many.certificates)
        for less, more in zip(many.block_errors, few.block_errors, strict=True):
            assert less < more / 10
