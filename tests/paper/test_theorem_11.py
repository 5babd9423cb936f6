"""Theorem 11: a transformer block contains another one. Widths, certificate, construction."""

import numpy as np
import pytest
from reference import block, masks, unit, worst

from strongticket import construct
from strongticket.theory import BlockMatrices, block_certificate, block_widths


class TestWidths:
    def test_by_hand(self):
        # d=4, H=1, L=1, α=2, ε=0.5: n_MHA: 32·8·8/0.5 = 4096 = 2^12, 4·12·log 2 = 33.271065
        # n_FC: 24·2·32/0.5 = 3072, 4·log(3·2^10) = 4·(1.098612 + 6.931472) = 32.120336
        widths = block_widths(d=4, heads=1, eps=0.5, alpha=2.0)
        assert widths.exact["n_MHA"] == pytest.approx(33.27106466687737, rel=1e-13)
        assert widths.exact["n_FC"] == pytest.approx(32.12033637707025, rel=1e-13)
        assert (widths.n_MHA, widths.n_FC) == (34, 33)

    def test_probability_by_hand(self):
        # as printed: ε/4 + ε/(6·α·H·√d) = 0.125 + 0.5/(6·2·2·2) = 0.125 + 0.0104166…
        # all heads: 0.125·(2/(8·8) + 2/(2·2)) + 0.0104166… = 0.06640625 + 0.0104166…
        widths = block_widths(d=4, heads=2, eps=0.5, alpha=2.0)
        assert widths.printed_probability == pytest.approx(1 - 0.125 - 0.5 / 48, rel=1e-14)
        assert widths.probability == pytest.approx(1 - 0.06640625 - 0.5 / 48, rel=1e-14)

    def test_layers_enter_the_network_only(self):
        # L=3 in place of 1: n_FC grows by 4·log 3
        one, three = block_widths(d=4, heads=1, eps=0.5), block_widths(d=4, heads=1, eps=0.5, layers=3)
        assert three.exact["n_FC"] - one.exact["n_FC"] == pytest.approx(4.394449154672439, rel=1e-12)
        assert three.exact["n_MHA"] == one.exact["n_MHA"]

    def test_alpha_below_its_edge(self):
        with pytest.raises(ValueError, match="Theorem 11 assumes alpha >= "):
            block_widths(d=4, heads=1, eps=0.5, alpha=1.9)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_certificate_is_never_below_the_worst_error_found(bias, noise):
    rng = np.random.default_rng(7)
    d, heads, alpha, length = 3, 2, 1.5, 4
    target_qk = [unit(rng, d + bias, d) for _ in range(heads)]
    target_vo = [unit(rng, d + bias, d) for _ in range(heads)]
    layers = [unit(rng, d, d + bias), unit(rng, d, d + bias)]
    near = [[w + noise * unit(rng, *w.shape) for w in part] for part in (target_qk, target_vo)]
    pairs = [(w + noise * unit(rng, *w.shape), -w + noise * unit(rng, *w.shape)) for w in layers]
    matrices = BlockMatrices(target_qk, near[0], target_vo, near[1], layers, pairs, bias)
    bound = block_certificate(matrices, alpha).bound
    for mask in masks(length):

        def error(inputs, mask=mask):
            there = block(inputs[0], target_qk, target_vo, layers, mask, bias)
            return (there - block(inputs[0], near[0], near[1], pairs, mask, bias)).norm(dim=1)

        found = worst(error, [(length, d)], [alpha], steps=60)
        assert 0.02 * bound < found <= bound


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_constructed_block_is_never_further_off_than_its_certificate(layers):
    # F of L layers by Theorem 10; attention by Theorem 3; both residual
    rng = np.random.default_rng(layers)
    d, alpha, length = 3, 1.8, 4
    attention = construct.AttentionTarget.from_matrices(*([unit(rng, d, d) for _ in range(2)] for _ in range(4)))
    target = construct.BlockTarget(attention, [unit(rng, d, d) for _ in range(layers)])
    found = construct.transformer([target], items=10, refine=4, workers=1)
    bound, ticket, mask = found.certificate(alpha).bound, found.module().double(), masks(length)[1]

    def error(inputs):
        there = block(inputs[0], attention.qk, attention.vo, target.layers, mask)
        return (there - ticket(inputs[0], attn_mask=~mask)).norm(dim=1)

    largest = worst(error, [(length, d)], [alpha], steps=60)
    assert 0.01 * bound < largest <= bound
