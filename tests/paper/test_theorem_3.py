"""Theorem 3 (Theorem 9): an attention layer contains another one. Widths, certificate, construction."""

import math

import numpy as np
import pytest
import torch
from reference import attention, masks, tensor, unit, worst

from strongticket import construct
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
        with pytest.raises(ValueError, match=r"Theorem 3 assumes alpha >= max\(sqrt\(d1\), sqrt\(d2\)\) = 3.0"):
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


def random_target(seed, heads=1, d1=2, d2=2, hidden=3):
    """Projections of spectral norm 1, as §3.1 assumes."""
    rng = np.random.default_rng(seed)
    shapes = ((d1, hidden), (d1, hidden), (d1, hidden), (hidden, d2))
    return construct.AttentionTarget.from_matrices(*([unit(rng, *s) for _ in range(heads)] for s in shapes))


class TestConstruction:
    """There are masks in random projections that make them the target's attention, and here they are."""

    def test_dividing_by_the_root_of_n_k_leaves_products_from_minus_1_to_1(self):
        # Equation 4: (W̃_Q ⊙ M_Q)(W̃_K ⊙ M_K)ᵀ/√n_K = (W̃'_Q ⊙ M_Q)(W̃'_K ⊙ M_K)ᵀ with W̃' = W̃/n_K^{1/4} in U[-1,1]
        found = construct.attention(random_target(0), width=81, refine=0, tol=1e-3, workers=1)
        key, query = found.qk[0].sources
        assert key.law.r == query.law.r == 3.0
        primed = [source.weights().astype(np.float64) / 3 for source in (query, key)]
        assert max(np.abs(w).max() for w in primed) < 1.0
        assert min(np.abs(w).max() for w in primed) > 0.95
        m_k, m_q = found.qk[0].masks
        product = (primed[0] * m_q) @ (primed[1] * m_k)
        np.testing.assert_allclose(product, found.qk[0].product(), rtol=0, atol=1e-14)
        np.testing.assert_allclose(product, found.target.qk[0], rtol=0, atol=1e-3)

    @pytest.mark.parametrize("layout", ["paper", "assigned"])
    def test_the_widths_of_the_theorem_are_enough(self, layout):
        # d1 = d2 = 2, H = 2, α = √2, ε = 0.1 with C = 3: all of 10 sources have a ticket with a certificate ≤ ε
        eps, alpha = 0.1, math.sqrt(2)
        widths = attention_widths(d1=2, d2=2, heads=2, eps=eps, alpha=alpha, C=3)
        bounds = [
            construct.attention(
                random_target(seed, heads=2), width=widths.n_K, seed=seed, layout=layout, refine=10, workers=1
            )
            .certificate(alpha)
            .bound
            for seed in range(10)
        ]
        assert max(bounds) <= eps

    def test_the_error_falls_exponentially_with_the_width(self):
        # Fig. 4: ε = O(exp(-n)); here the mean of log10 over 8 sources, for 4, 8, 12 and 16 items
        def size(width):
            errors = [
                construct.attention(random_target(s), width=width, seed=s, layout="paper", workers=1).max_error
                for s in range(8)
            ]
            return np.mean(np.log10(errors))

        sizes = [size(width) for width in (8, 16, 24, 32)]
        assert (np.diff(sizes) < -0.4).all()
        assert sizes[-1] < -3

    @pytest.mark.parametrize("mask_number", [0, 1, 2])
    def test_no_input_is_further_off_than_the_certificate(self, mask_number):
        found = construct.attention(random_target(5, heads=2, d1=3), items=8, refine=2, workers=1)
        alpha, length = 1.8, 5
        bound = found.certificate(alpha).bound
        ticket, mask = found.module().double(), masks(length)[mask_number]

        def error(inputs):
            x = inputs[0]
            there = attention(x, x, found.target.qk, found.target.vo, mask)
            return (there - ticket(x, attn_mask=~mask)[0]).norm(dim=1)

        largest = worst(error, [(length, 3)], [alpha], steps=60)
        assert 0.02 * bound < largest <= bound

    def test_nor_with_biases_and_other_keys_than_queries(self):
        torch.manual_seed(1)
        target = torch.nn.MultiheadAttention(4, 2, kdim=3, vdim=3, batch_first=True).double().requires_grad_(False)
        torch.nn.init.uniform_(target.in_proj_bias, -0.5, 0.5)
        found = construct.attention(target, items=8, refine=2, workers=1)
        alpha, alpha_kv = 1.0, 2.5
        bound = found.certificate(alpha, alpha_kv).bound
        ticket = found.module().double()

        def error(inputs):
            x, y, z = inputs
            return (target(x, y, z)[0] - ticket(x, y, z)[0]).norm(dim=1)

        largest = worst(error, [(3, 4), (6, 3), (6, 3)], [alpha, alpha_kv, alpha_kv], steps=60)
        assert 0.02 * bound < largest <= bound

    def test_the_error_does_not_grow_with_the_length(self):
        # Lemma 5 and §4.2: the same ticket, inputs of norm α, T from 2 to 2,000
        found = construct.attention(random_target(2, d1=4, d2=4), items=10, refine=2, workers=1)
        bound = found.certificate(2.0).bound
        errors = []
        for length in (2, 20, 200, 2000):
            x = np.random.default_rng(length).normal(size=(length, 4))
            report = found.report(2.0 * x / np.linalg.norm(x, axis=1, keepdims=True))
            errors.append(report.output_error)
            assert report.output_error <= bound * (1 + 1e-12)
        assert errors[-1] < 2 * max(errors[:-1])
