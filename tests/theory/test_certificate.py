"""The certificate object, and what certificates refuse."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongticket.theory import attention_certificate, network_certificate
from strongticket.theory.affine import Affine

EYE = np.eye(2)


def test_prints_as_a_table():
    text = str(attention_certificate([EYE], [1.1 * EYE], [EYE], [0.9 * EYE], alpha=2.0))
    for part in ("Certificate: attention layer", "head 1", "logits move by", "error at most", "‖x‖ ≤ 2"):
        assert part in text


def test_to_dict_is_json_with_every_term():
    certificate = attention_certificate([EYE] * 2, [1.1 * EYE] * 2, [EYE] * 2, [EYE] * 2, alpha=2.0)
    plain = json.loads(json.dumps(certificate.to_dict()))
    assert plain["bound"] == certificate.bound
    assert {term["where"] for term in plain["terms"]} == {"head 1", "head 2"}
    assert plain["useful"] is True
    assert any("exact arithmetic" in assumption for assumption in plain["assumptions"])


def test_terms_add_up():
    rng = np.random.default_rng(0)
    target, ticket = rng.standard_normal((2, 3, 4, 4))
    certificate = attention_certificate(target, ticket, target, ticket, alpha=0.1)
    parts = sum(term.value for term in certificate.terms if term.what.startswith("error"))
    assert parts == pytest.approx(certificate.bound, rel=1e-12)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.floats(0.0, 100.0), st.integers(0, 2**32 - 1))
def test_reach_with_a_bias_covers_random_inputs(rows, columns, radius, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, columns + 1))
    x = rng.standard_normal((columns, 200))
    x *= radius / np.linalg.norm(x, axis=0)
    largest = np.linalg.norm(matrix[:, :-1] @ x + matrix[:, -1:], axis=0).max()
    assert largest <= Affine(matrix, bias=True).reach(radius) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([EYE], [EYE], [EYE], []), "same number of heads"),
        (([], [], [], []), "at least one"),
        (([EYE], [np.ones((3, 2))], [EYE], [EYE]), r"head 1: W_QK .* got \(2, 2\) and \(3, 2\)"),
        (([EYE, np.eye(3)],) * 2 + ([EYE, EYE],) * 2, "one shape for all heads"),
        (([EYE], [EYE], [EYE], [np.full((2, 2), np.nan)]), "W_VO of the ticket holds NaN"),
        (([np.ones(2)], [np.ones(2)], [EYE], [EYE]), "must be a matrix"),
    ],
)
def test_attention_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        attention_certificate(*arguments, alpha=1.0)


@pytest.mark.parametrize("alpha", [-1.0, float("nan")])
def test_alpha_must_be_a_norm(alpha):
    with pytest.raises(ValueError, match="alpha must be a number >= 0"):
        attention_certificate([EYE], [EYE], [EYE], [EYE], alpha=alpha)


@pytest.mark.parametrize(
    ("target", "ticket", "message"),
    [
        ([EYE], [], "same number of layers"),
        ([EYE], [(EYE, EYE, EYE)], r"a ReLU pair is \(P, N\), got 3"),
        ([EYE], [(EYE, np.eye(3))], "layer 1: N must be a matrix of one shape"),
    ],
)
def test_network_refuses(target, ticket, message):
    with pytest.raises(ValueError, match=message):
        network_certificate(target, ticket, 1.0)
