"""Theorem 3 (Theorem 9): an attention layer contains another one. The widths, and the certificate."""

import math

import numpy as np
import pytest
from reference import attention, masks, tensor, unit, worst

from strongticket.theory import attention_certificate, attention_widths

LOG2, LOG10 = 0.6931471805599453, 2.302585092994046


class TestWidths:
    def test_by_hand(self):
        # d1=2, d2=1, H=1, α=√2, ε=0.1:
        # n_K: 8·α³·d1^{3/2}/ε = 8·2^{3/2}·2^{3/2}/0.1 = 640, 2·log(640) = 2·(6·log 2 + log 10)
        # n_V: 2·α·d1·√d2/ε = 2·√2·2/0.1 = 56.568542, 2·log(40·√2) = 2·(2.5·log 2 + log 10)
        widths = attention_widths(d1=2, d2=1, heads=1, eps=0.1, alpha=math.sqrt(2))
        assert widths.exact["n_K"] == pytest.approx(2 * (6 * LOG2 + LOG10), rel=1e-14)
        assert widths.exact["n_V"] == pytest.approx(2 * (2.5 * LOG2 + LOG10), rel=1e-14)
        assert (widths.n_K, widths.n_V) == (13, 9)

    def test_probability_by_hand(self):
        # H=3 heads, d1=d2=4, α=2, ε=0.1. All heads: 0.1·(2/(8·8) + 2/(2·2)) = 0.053125
        # as printed: 0.1/(8·3·8·2) + 2·0.1/(2·3·2) = 0.000260416… + 0.016666…
        widths = attention_widths(d1=4, heads=3, eps=0.1, alpha=2.0)
        assert widths.probability == pytest.approx(1 - 0.053125, rel=1e-14)
        assert widths.printed_probability == pytest.approx(1 - 0.016927083333333333, rel=1e-14)

    @pytest.mark.parametrize("d1", [1, 3, 64])
    @pytest.mark.parametrize("d2", [1, 5, 200])
    @pytest.mark.parametrize("heads", [1, 12])
    def test_probability_is_at_least_1_minus_eps(self, d1, d2, heads):
        for eps in (1e-9, 0.5, 0.999999):
            assert attention_widths(d1=d1, d2=d2, heads=heads, eps=eps).probability >= 1 - eps

    def test_alpha_at_and_below_its_edge(self):
        attention_widths(d1=4, d2=9, heads=1, eps=0.1, alpha=3.0)
        with pytest.raises(
            ValueError, match=r"Theorem 3 assumes alpha >= max\(sqrt\(d1\), sqrt\(d2\)\) = 3.0"
        ):
            attention_widths(d1=4, d2=9, heads=1, eps=0.1, alpha=math.nextafter(3.0, 0.0))
        with pytest.raises(ValueError, match="Theorem 3 assumes alpha"):
            attention_widths(d1=4, heads=1, eps=0.1, alpha=float("nan"))

    def test_heads_must_be_positive(self):
        with pytest.raises(ValueError, match="Theorem 3 assumes heads >= 1"):
            attention_widths(d1=4, heads=0, eps=0.1)


def make_heads(rng, heads, rows_qk, cols_qk, rows_vo, cols_vo, noise):
    target_qk = [unit(rng, rows_qk, cols_qk) for _ in range(heads)]
    target_vo = [unit(rng, rows_vo, cols_vo) for _ in range(heads)]
    ticket_qk = [w + noise * unit(rng, *w.shape) for w in target_qk]
    ticket_vo = [w + noise * unit(rng, *w.shape) for w in target_vo]
    return target_qk, ticket_qk, target_vo, ticket_vo


class TestCertificate:
    @pytest.mark.parametrize("mask_number", [0, 1, 2])
    @pytest.mark.parametrize(("bias", "noise"), [(False, 0.01), (False, 0.5), (True, 0.05)])
    def test_never_below_the_worst_error_found(self, bias, noise, mask_number):
        rng = np.random.default_rng(3)
        d1, d2, heads, alpha, length = 3, 2, 2, 1.8, 5
        matrices = make_heads(rng, heads, d1 + bias, d1, d1 + bias, d2, noise)
        target_qk, ticket_qk, target_vo, ticket_vo = matrices
        bound = attention_certificate(*matrices, alpha=alpha, bias=bias).bound
        mask = masks(length)[mask_number]

        def error(inputs):
            x = inputs[0]
            there = attention(x, x, target_qk, target_vo, mask, bias)
            return (there - attention(x, x, ticket_qk, ticket_vo, mask, bias)).norm(dim=1)

        found = worst(error, [(length, d1)], [alpha])
        assert 0.05 * bound < found <= bound

    def test_cross_attention_with_its_own_norms_and_sizes(self):
        rng = np.random.default_rng(4)
        d_q, d_k, d2, alpha, alpha_kv = 4, 2, 3, 1.0, 2.5
        matrices = make_heads(rng, 2, d_q + 1, d_k, d_k + 1, d2, 0.1)
        target_qk, ticket_qk, target_vo, ticket_vo = matrices
        bound = attention_certificate(*matrices, alpha=alpha, alpha_kv=alpha_kv, bias=True).bound
        mask = masks(6)[0][:3]

        def error(inputs):
            there = attention(*inputs, target_qk, target_vo, mask, True)
            return (there - attention(*inputs, ticket_qk, ticket_vo, mask, True)).norm(dim=1)

        found = worst(error, [(3, d_q), (6, d_k)], [alpha, alpha_kv])
        assert 0.05 * bound < found <= bound

    @pytest.mark.parametrize("length", [1, 2, 333])
    def test_holds_for_every_length(self, length):
        rng = np.random.default_rng(length)
        matrices = make_heads(rng, 3, 4, 4, 4, 4, 0.2)
        bound = attention_certificate(*matrices, alpha=2.0).bound
        x = rng.standard_normal((length, 4))
        x = tensor(2.0 * x / np.linalg.norm(x, axis=1, keepdims=True))
        for mask in masks(length):
            there = attention(x, x, matrices[0], matrices[2], mask)
            back = attention(x, x, matrices[1], matrices[3], mask)
            assert float((there - back).norm(dim=1).max()) <= bound

    @pytest.mark.parametrize("shift", [0.001, 0.3, 2.0])
    def test_attained_when_two_logits_swap(self, shift):
        # x_1 = (α, 0), x_2 = (-α, 0) and W_QK = ±diag(e/(2α²), 0): the logits ±e/2 swap, so each moves by e
        alpha = 1.7
        w = np.diag([shift / (2 * alpha**2), 0.0])
        bound = attention_certificate([w], [-w], [np.eye(2)], [np.eye(2)], alpha=alpha).bound
        x = tensor([[alpha, 0.0], [-alpha, 0.0]])
        there = attention(x, x, [w], [np.eye(2)], masks(2)[0])
        error = float((there - attention(x, x, [-w], [np.eye(2)], masks(2)[0])).norm(dim=1).max())
        assert error == pytest.approx(2 * alpha * math.tanh(shift / 2), rel=1e-12)
        assert bound == pytest.approx(error, rel=1e-11)

    def test_attained_by_value_and_output(self):
        w, other = np.diag([1.0, 0.5]), np.diag([0.75, 0.5])
        bound = attention_certificate([w], [w], [w], [other], alpha=3.0).bound
        assert bound == pytest.approx(0.75, rel=1e-12)  # α·‖W_VO - W̃_VO‖ = 3·0.25

    def test_a_bias_row_cancels_in_the_difference_of_weights(self):
        # Only the bias row of W_VO is large; moved attention weights cannot see it.
        qk = np.vstack([0.1 * np.eye(2), [[0.0, 0.0]]])
        vo = np.vstack([np.eye(2), [[1e6, 0.0]]])
        bound = attention_certificate([qk], [1.1 * qk], [vo], [vo], alpha=1.0, bias=True).bound
        assert bound == pytest.approx(2 * math.tanh(0.01 / 2), rel=1e-9)

    def test_equal_matrices_have_error_zero(self):
        w = np.eye(3)
        certificate = attention_certificate([w], [w], [w], [w], alpha=1.0)
        assert (certificate.bound, certificate.useless_from) == (0.0, None)

    def test_far_apart_is_reported_as_useless(self):
        w = 100 * np.eye(3)
        assert attention_certificate([w], [-w], [w], [-w], alpha=1.0).useless_from == 1
