"""``strongticket theory``."""

import json

import pytest
from typer.testing import CliRunner

from strongticket.cli.theory import app


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def numbers(*arguments: str):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_attention():
    found = numbers("attention", "--d", "64", "--heads", "8", "--eps", "0.01", "--problems", "500")
    # α=8: n_K: 8·8·512·512/0.01 = 1677721600 = 2^26·25, 64·(26·log 2 + 2·log 5) = 1359.402…
    # n_V: 2·8·8·64·8/0.01 = 6553600 = 2^18·25, 64·(18·log 2 + 2·log 5) = 1004.511…
    assert (found["n_K"], found["n_V"]) == (1360, 1005)
    assert found["exact"]["n_K"] == pytest.approx(64 * (26 * 0.6931471805599453 + 2 * 1.6094379124341003))
    assert found["probability"] == pytest.approx(1 - 0.01 * (8 / (8 * 512) + 8 / (2 * 8)))
    assert found["practice"]["n_K"]["measured"] is False
    assert found["practice"]["n_K"]["units"] == 64 * found["practice"]["n_K"]["items"]


def test_attention_measures_where_it_can():
    found = numbers("attention", "--d", "1", "--heads", "1", "--eps", "0.9", "--problems", "500")
    # α=1: n_V asks for 0.9/2 = 0.45 per weight, within reach of 500 problems
    assert found["practice"]["n_V"]["measured"] is True
    assert found["practice"]["n_V"]["calibration"]["eps"] == pytest.approx(0.45)


def test_transformer():
    arguments = (
        "transformer",
        "--d",
        "1",
        "--heads",
        "1",
        "--blocks",
        "3",
        "--eps",
        "0.5",
        "--problems",
        "0",
    )
    found = numbers(*arguments)
    widths = [(block["n_K"], block["n_V"], block["n_FC"]) for block in found["blocks"]]
    assert widths == [(20, 20, 20), (21, 21, 16), (16, 16, 9)]
    assert found["constant"] == 16
    assert found["practice"] is None
    corrected = numbers(*arguments, "--corrected")
    assert corrected["constant"] == 17
    assert corrected["blocks"][0]["exact"]["n_K"] > found["blocks"][0]["exact"]["n_K"]


def test_network():
    found = numbers("network", "2", "3", "1", "--eps", "0.1", "--problems", "0")
    assert found["n_FC"] == [13, 17]
    assert found["probability"] == 0.95


def test_softmax():
    found = numbers("softmax", "--shift", "0.1", "--d", "4", "--alpha", "2")
    assert found["total_variation"] == pytest.approx(0.04995837495787998, rel=1e-14)  # tanh(0.05)
    assert found["lemma_5"] == pytest.approx(1.6)
    assert numbers("softmax", "--shift", "0.6")["lemma_5"] is None


def test_calibrate():
    found = numbers("calibrate", "--eps", "0.2", "--problems", "300")
    assert [one["law"] for one in found["calibrations"]] == ["U*U", "U"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("attention", "--problems", "500"),
        ("attention", "--problems", "0"),
        ("transformer", "--problems", "0"),
        ("network", "4", "4", "--problems", "0"),
        ("softmax", "--shift", "2"),
        ("calibrate", "--eps", "0.2", "--problems", "300"),
    ],
)
def test_tables(arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert "━" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("attention", "--eps", "1.5"), "Theorem 3 assumes 0 < eps < 1, got eps=1.5"),
        (("attention", "--d", "64", "--alpha", "7.9"), "Theorem 3 assumes alpha >= max"),
        (("transformer", "--blocks", "1"), "Theorem 6 assumes B"),
        (("transformer", "--heads", "0"), "Theorem 6 assumes heads >= 1"),
        (("softmax", "--shift", "-1"), "shift of the logits must be a number >= 0"),
    ],
)
def test_bad_input_names_the_assumption(arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)
