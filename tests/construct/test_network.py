"""construct.network: every layer of a ReLU network from two pruned random ones."""

import numpy as np
import pytest
from construct_reference import uniform

from strongticket.construct import network, relu

WEIGHTS = [uniform(0, 4, 3), uniform(1, 5, 4), uniform(2, 2, 5)]


def run(weights, x):
    for weight in weights[:-1]:
        x = np.maximum(x @ weight.T, 0.0)
    return x @ weights[-1].T


def test_runs_its_pairs_with_relu_between():
    found = network(WEIGHTS, items=10, refine=30, seed=4)
    inputs = uniform(3, 20, 3)
    x = inputs
    for number, pair in enumerate(found.pairs):
        first, second = pair.weights()
        x = np.maximum(x @ first.T, 0.0) @ second.T
        if number < 2:
            x = np.maximum(x, 0.0)
    np.testing.assert_allclose(found(inputs), x, rtol=0, atol=1e-12)
    assert found.max_error == max(pair.max_error for pair in found.pairs)
    assert [pair.nonnegative for pair in found.pairs] == [False, True, True]


def test_layers_are_relu_pairs_of_their_own_name():
    found = network(WEIGHTS, items=6, refine=5, seed=4, name="mlp")
    alone = relu(WEIGHTS[1], items=6, refine=5, seed=4, name="mlp/1", nonnegative=True)
    assert found.pairs[1].sources == alone.sources
    np.testing.assert_array_equal(found.pairs[1].masks[1], alone.masks[1])


@pytest.mark.parametrize("layout", ["assigned", "paper"])
def test_error_stays_below_the_certificate(layout):
    found = network(WEIGHTS, items=14, refine=50, layout=layout)
    inputs = np.random.default_rng(0).standard_normal((5000, 3))
    for alpha in (0.5, 2.0):
        x = alpha * inputs / np.linalg.norm(inputs, axis=1, keepdims=True)
        measured = np.linalg.norm(found(x) - run(WEIGHTS, x), axis=1).max()
        assert 0.0 < measured <= found.certificate(alpha).bound


def test_one_layer():
    found = network(WEIGHTS[:1], items=12, refine=20)
    assert not found.pairs[0].nonnegative
    np.testing.assert_allclose(found(np.eye(3)), found.pairs[0](np.eye(3)))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "at least one weight matrix, got none"),
        ([np.ones((2, 3)), np.ones((2, 3))], r"weights\[1\] of shape \(2, 3\) takes 3 inputs, but .* gives 2"),
        ([np.ones((2, 3)), np.ones(2)], r"weights\[1\] must be a matrix .* got shape \(2,\)"),
        ([np.full((2, 3), np.nan)], r"weights\[0\] must be finite"),
    ],
)
def test_weights_that_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        network(weights, items=4)
