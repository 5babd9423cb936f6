"""What a source accepts, refuses, writes to JSON and imports."""

import doctest
import json
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from strongticket import source as package
from strongticket.source import Law, Normal, Signed, Source, Uniform, law_from_dict, laws, table, weights

LAWS = [Uniform(0.1), Normal(1 / 3), Signed(2.0)]


@pytest.mark.parametrize("law", LAWS)
def test_json_round_trip(law: Law) -> None:
    source = Source(2**64 - 1, "ключ", (2, 3, 4), law)
    text = json.dumps(source.to_dict())
    again = Source.from_dict(json.loads(text))
    assert again == source
    assert hash(again) == hash(source)
    assert again.shape == (2, 3, 4)
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize("law", LAWS)
def test_keys_from_newer_versions_are_ignored(law: Law) -> None:
    source = Source(1, "w", (2,), law)
    values = source.to_dict()
    values["comment"] = "new"
    values["law"]["tails"] = "heavy"
    assert Source.from_dict(values) == source


def test_numbers_are_kept_as_float32() -> None:
    assert Uniform(0.1) == Uniform(np.float32(0.1))
    assert Uniform(0.1).r == float(np.float32(0.1))
    assert Source(np.uint64(3), "w", [np.int64(2), 3], Uniform(1)) == Source(3, "w", (2, 3), Uniform(1.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, r"seed must lie in 0 .. 2\*\*64 - 1, got -1"),
        ({"seed": 2**64}, "got 18446744073709551616"),
        ({"seed": 1.5}, "seed must be an integer, got 1.5"),
        ({"name": ""}, "name must be a non-empty string, got ''"),
        ({"name": b"w"}, "name must be a non-empty string"),
        ({"name": "\ud800"}, "name must be valid Unicode"),
        ({"shape": ()}, r"positive integers, got \(\)"),
        ({"shape": (3, 0)}, r"positive integers, got \(3, 0\)"),
        ({"shape": (3, -1)}, r"positive integers, got \(3, -1\)"),
        ({"shape": 3}, r"tuple of integers, got 3; for one dimension pass \(n,\)"),
        ({"shape": (2.0, 3)}, "tuple of integers"),
        ({"shape": (2**31, 2**31)}, r"fewer than 2\*\*62 weights"),
        ({"law": "uniform"}, "law must be .* got 'uniform'"),
    ],
)
def test_bad_descriptions(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"seed": 0, "name": "w", "shape": (2, 3), "law": Uniform(1.0)}
    with pytest.raises(ValueError, match=message):
        Source(**(good | change))


@pytest.mark.parametrize("kind", [Uniform, Normal, Signed])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), 1e39, 1e-40, "wide", None])
def test_bad_numbers(kind: type, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{kind.__name__}\(. ?\).*got .={re.escape(repr(value))}"):
        kind(value)


def test_bad_dictionaries() -> None:
    with pytest.raises(ValueError, match=r"law must be one of .* got 'cauchy'"):
        law_from_dict({"law": "cauchy"})
    with pytest.raises(ValueError, match="'normal' needs the key 's'"):
        law_from_dict({"law": "normal", "r": 1.0})
    with pytest.raises(ValueError, match=r"needs the keys \['name', 'law'\]"):
        Source.from_dict({"seed": 1, "shape": [2]})


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (3, None, r"rows must be a slice .* got 3; for one index i pass \(i, i \+ 1\)"),
        (slice(0, 4, 2), None, "without a step"),
        ((0, 1, 2), None, "rows must be"),
        ((0, 1), 2, "columns must be"),
        ((0, 1.5), None, "integer bounds"),
    ],
)
def test_bad_ranges(rows: Any, columns: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Source(0, "w", (5, 6), Uniform(1.0)).tile(rows, columns)


def test_columns_need_two_dimensions() -> None:
    with pytest.raises(ValueError, match=r"2 dimensions, but 'w' has shape \(5,\); leave columns out"):
        Source(0, "w", (5,), Uniform(1.0)).tile((0, 1), (0, 1))


def test_bad_threads() -> None:
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        Source(0, "w", (5,), Uniform(1.0)).weights(threads=0)


def test_import_is_light() -> None:
    script = (
        "import sys, strongticket.source as s\n"
        "source = s.Source(0, 'w', (2, 2), s.Normal(1.0)); source.to_dict()\n"
        "print(sorted({'numba', 'torch', 'llvmlite'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", [package, laws, table, weights])
def test_examples_in_docstrings(module: Any) -> None:
    names = {"Source": Source, "Uniform": Uniform, "Normal": Normal, "Signed": Signed}
    assert doctest.testmod(module, extraglobs=names).failed == 0
