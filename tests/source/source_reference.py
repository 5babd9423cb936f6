"""Philox and the three laws once more, on Python's integers, as docs/source.md tells them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np

import strongticket.source
from strongticket.source import Normal, Signed, Source, Uniform

MASK = 0xFFFFFFFF
TABLE = np.fromfile(Path(strongticket.source.__file__).with_name("normal_table.bin"), "<f4")


@cache
def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p, q = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q & MASK, (p >> 32) ^ c3 ^ k1, p & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def block(source: Source, number: int) -> tuple[int, int, int, int]:
    h = hashlib.sha256(source.name.encode("utf-8")).digest()
    h0, h1 = int.from_bytes(h[:4], "little"), int.from_bytes(h[4:8], "little")
    return philox((number & MASK, number >> 32, h0, h1), (source.seed & MASK, source.seed >> 32))


def weight(source: Source, i: int) -> np.float32:
    match source.law:
        case Uniform(r):
            k = block(source, i // 4)[i % 4] >> 8
            return np.float32((2 * k + 1 - 2**24) / 2**24) * np.float32(r)
        case Normal(s):
            word = block(source, i // 8)[i % 8 // 2]
            return TABLE[word >> 16 if i % 2 else word & 0xFFFF] * np.float32(s)
        case Signed(c):
            word = block(source, i // 128)[i % 128 // 32]
            return np.float32(c) if word >> (i % 32) & 1 else -np.float32(c)
