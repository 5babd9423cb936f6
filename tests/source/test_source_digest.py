"""Bits that must never change: a ticket made today has to rebuild the same model in ten years."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest

from strongticket.source import Law, Normal, Signed, Source, Uniform
from strongticket.source.make_normal_table import table_bytes
from strongticket.source.table import TABLE_FILE, TABLE_SHA256, normal_table, read_table

PINNED = [
    (Uniform(0.3), "78a95cd8f88cc3b39f5754092df169c4dace28b8850e76dc45fd0bbb2257a70c"),
    (Normal(0.02), "5633c7b99c964fcc21f9bf1702cfbe28d98e6d357c264723e4b5182709499909"),
    (Signed(0.1), "ddcbcdcdad9359c0b69af890c9493856f414c503f74bd0e98c370d0599942747"),
]


@pytest.mark.parametrize(("law", "digest"), PINNED)
def test_pinned_digest(law: Law, digest: str) -> None:
    source = Source(20240229, "encoder.layer.0.attention", (1031, 1019), law)
    assert source.size > 1 << 20
    assert source.digest() == digest
    assert hashlib.sha256(source.weights().astype("<f4").tobytes()).hexdigest() == digest


def test_table_is_the_pinned_one() -> None:
    assert hashlib.sha256(TABLE_FILE.read_bytes()).hexdigest() == TABLE_SHA256


def test_script_makes_the_table() -> None:
    made = np.frombuffer(table_bytes(), "<f4")
    shipped = normal_table()
    assert made.shape == shipped.shape
    assert np.all(np.abs(made - shipped) <= np.spacing(np.abs(shipped)))


def test_table_is_antisymmetric_and_increasing() -> None:
    table = normal_table()
    assert np.array_equal(table, -table[::-1])
    assert np.all(np.diff(table) > 0)


def test_table_inverts_the_distribution_function() -> None:
    for k in (0, 1, 100, 20_000, 32_768, 50_000, 65_535):
        assert (1 + math.erf(normal_table()[k] / math.sqrt(2))) / 2 == pytest.approx((k + 0.5) / 65536, rel=1e-5)


def test_damaged_table_is_refused(tmp_path: Path) -> None:
    content = bytearray(TABLE_FILE.read_bytes())
    content[1000] ^= 1
    damaged = tmp_path / "normal_table.bin"
    damaged.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged.*reinstall"):
        read_table(damaged)
