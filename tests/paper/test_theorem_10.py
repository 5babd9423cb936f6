"""Theorem 10: a ReLU network of 2L layers contains one of L layers. Its widths, masks and certificate."""

import math

import numpy as np
import pytest
import torch
from reference import network, tensor, unit, worst

from strongticket import construct
from strongticket.theory import network_certificate, network_widths


class TestWidths:
    def test_by_hand(self):
        # dims 2 → 3 → 1, L=2, ε=0.1: layer 1: 2·log(4·2·2·3/0.1) = 2·log(480) = 2·(4·log 2 + log 3 + log 10)
        # layer 2: 3·log(4·2·3·1/0.1) = 3·log(240) = 3·(3·log 2 + log 3 + log 10)
        widths = network_widths(dims=(2, 3, 1), eps=0.1)
        assert widths.exact == pytest.approx((12.347572207793304, 16.441916770025973), rel=1e-12)
        assert widths.n_FC == (13, 17)

    def test_error_by_hand(self):
        # exp(2·0.1/2) - 1 = 0.10517091807564763
        widths = network_widths(dims=(2, 3, 1), eps=0.1, alpha=2.0)
        assert widths.error == pytest.approx(0.10517091807564763, rel=1e-14)
        assert widths.probability == 0.95

    def test_error_covers_the_composition_of_lemma_2(self):
        for alpha in (1.0, 3.0, 50.0):
            for layers in (1, 2, 10):
                found = network_widths(dims=(4,) * (layers + 1), eps=0.3, alpha=alpha)
                assert alpha * ((1 + 0.3 / (2 * layers)) ** layers - 1) <= found.error

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"alpha": 0.5}, "for alpha >= 1, got alpha=0.5"),
            ({"dims": (3,)}, "at least one layer size"),
            ({"dims": (3, 0)}, "every layer size >= 1"),
            ({"eps": 1.5}, "Theorem 10 assumes 0 < eps < 1"),
        ],
    )
    def test_what_the_theorem_does_not_cover(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            network_widths(**({"dims": (2, 2), "eps": 0.1} | wrong))


class TestCertificate:
    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("paired", [False, True])
    @pytest.mark.parametrize("layers", [1, 3])
    def test_never_below_the_worst_error_found(self, layers, paired, bias):
        rng = np.random.default_rng(layers)
        d, alpha, noise = 4, 2.0, 0.05
        target = [unit(rng, d, d + bias) for _ in range(layers)]
        ticket = [w + noise * unit(rng, *w.shape) for w in target]
        if paired:
            ticket = [(w + noise * unit(rng, *w.shape), -w + noise * unit(rng, *w.shape)) for w in target]
        bound = network_certificate(target, ticket, alpha, bias=bias).bound

        def error(inputs):
            return (network(inputs[0], target, bias) - network(inputs[0], ticket, bias)).norm(dim=1)

        found = worst(error, [(8, d)], [alpha])
        assert 0.05 * bound < found <= bound

    def test_a_pair_by_hand(self):
        # W=1, P=0.9, N=-1.2: W·x - P·x⁺ - N·x⁻ = [0.1, 0.2]·[x⁺; x⁻], norm √0.05 by the joint bound
        bound = network_certificate([[[1.0]]], [([[0.9]], [[-1.2]])], 1.0).bound
        assert bound == pytest.approx(math.sqrt(0.05), rel=1e-9)

    def test_negative_parts_do_not_count_after_the_first_layer(self):
        eye, wild = np.eye(2), 1e3 * np.eye(2)
        assert network_certificate([eye, eye], [(eye, -eye), (eye, wild)], 1.0).bound == 0.0

    def test_sizes_must_chain(self):
        with pytest.raises(ValueError, match="layer 1 gives 3 outputs, layer 2 takes 2"):
            network_certificate([np.ones((3, 2)), np.ones((2, 2))], [np.ones((3, 2)), np.ones((2, 2))], 1.0)


class TestConstruction:
    @pytest.mark.parametrize("layers", [1, 3])
    def test_the_worst_input_found_stays_below_the_certificate(self, layers):
        rng = np.random.default_rng(layers)
        target, alpha = [unit(rng, 4, 4) for _ in range(layers)], 1.5
        found = construct.network(target, items=8, refine=20)
        weights = [tuple(map(tensor, pair.weights())) for pair in found.pairs]

        def error(inputs):
            x = inputs[0]
            for number, (first, second) in enumerate(weights):
                x = torch.relu((torch.relu(x) if number else x) @ first.T) @ second.T
            return (network(inputs[0], target) - x).norm(dim=1)

        bound = found.certificate(alpha).bound
        assert 0.05 * bound < worst(error, [(8, 4)], [alpha]) <= bound

    def test_error_of_the_theorem(self):
        # 4 → 4 → 2, ε=0.1, α=1, ‖W‖ ≤ 1: the largest error is exp(α·ε/2) - 1 = 0.0513 with probability 0.95
        rng = np.random.default_rng(0)
        target = [unit(rng, 4, 4), unit(rng, 2, 4)]
        widths = network_widths(dims=(4, 4, 2), eps=0.1, C=3.0)
        inputs = rng.standard_normal((2000, 4))
        inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
        found = construct.network(target, width=max(widths.n_FC), refine=100)
        exact = network(tensor(inputs), target).numpy()
        assert np.linalg.norm(found(inputs) - exact, axis=1).max() <= widths.error
