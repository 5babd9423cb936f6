"""Numba kernels: Philox-4x32-10 blocks, and the weights that each law makes of their bits.

The 32-bit words of a block travel in the low halves of unsigned 64-bit integers: the form in which LLVM
turns the loop over counters into vector multiplications. What is in the high halves is never used, and
the mask before each multiplication costs nothing. Signed and unsigned 64-bit integers must never meet in
one expression, because numba would silently make it float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from strongticket.source.laws import NORMAL, UNIFORM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]
    Values = NDArray[np.float32]

BATCH = 1024
"""Blocks drawn at a time, so few that their words are still in the first-level cache when they are used."""

_LOW = np.uint64(0xFFFFFFFF)
_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_BITS = np.array([1 << j for j in range(32)], np.uint32)


@njit(nogil=True, forceinline=True)
def _high(product: Any) -> Any:
    return product >> np.uint64(32)


@njit(nogil=True, forceinline=True)
def _later(key: Any, weyl: Any, rounds: int) -> Any:
    return key + np.uint64(rounds) * weyl


@njit(nogil=True, forceinline=True)
def _round(a0: Any, a1: Any, a2: Any, a3: Any, b0: Any, b1: Any, b2: Any, b3: Any, u: Any, v: Any) -> Any:
    """One round with the keys u, v on two independent blocks a and b: one multiplies while one waits."""
    a_p, b_p = (a0 & _LOW) * _MULTIPLIER_0, (b0 & _LOW) * _MULTIPLIER_0
    a_q, b_q = (a2 & _LOW) * _MULTIPLIER_1, (b2 & _LOW) * _MULTIPLIER_1
    a0, b0 = _high(a_q) ^ a1 ^ u, _high(b_q) ^ b1 ^ u
    a2, b2 = _high(a_p) ^ a3 ^ v, _high(b_p) ^ b3 ^ v
    return a0, a_q, a2, a_p, b0, b_q, b2, b_p


@njit(nogil=True, cache=True)
def draw_blocks(words: Words, at: Any, first: Any, pairs: Any, seed: Any, stream: Any) -> None:
    """Write the words of blocks ``first`` to ``first + 2 * pairs - 1`` to ``words[at:]``.

    The high half of the block number is taken from ``first`` alone, so no block that is used may lie
    beyond the next multiple of 2**32. All the numbers are uint64.
    """
    high = _high(first)
    # Rotated, not shifted: where LLVM proves a high half zero it drops the mask, and multiplies in 64 bits.
    k0, k1 = seed, _high(seed) | seed << np.uint64(32)
    h0, h1 = stream, _high(stream)
    u0, v0 = k0, k1
    u1, v1 = _later(k0, _WEYL_0, 1), _later(k1, _WEYL_1, 1)
    u2, v2 = _later(k0, _WEYL_0, 2), _later(k1, _WEYL_1, 2)
    u3, v3 = _later(k0, _WEYL_0, 3), _later(k1, _WEYL_1, 3)
    u4, v4 = _later(k0, _WEYL_0, 4), _later(k1, _WEYL_1, 4)
    u5, v5 = _later(k0, _WEYL_0, 5), _later(k1, _WEYL_1, 5)
    u6, v6 = _later(k0, _WEYL_0, 6), _later(k1, _WEYL_1, 6)
    u7, v7 = _later(k0, _WEYL_0, 7), _later(k1, _WEYL_1, 7)
    u8, v8 = _later(k0, _WEYL_0, 8), _later(k1, _WEYL_1, 8)
    u9, v9 = _later(k0, _WEYL_0, 9), _later(k1, _WEYL_1, 9)
    for i in range(pairs):
        a0, b0 = first + i, first + i + pairs
        a1, a2, a3, b1, b2, b3 = high, h0, h1, high, h0, h1
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u0, v0)
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u1, v1)
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u2, v2)
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u3, v3)
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u4, v4)
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u5, v5)
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u6, v6)
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u7, v7)
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u8, v8)
        a0, a1, a2, a3, b0, b1, b2, b3 = _round(a0, a1, a2, a3, b0, b1, b2, b3, u9, v9)
        to = at + np.uint64(4) * i
        words[to] = np.uint32(a0)
        words[to + np.uint64(1)] = np.uint32(a1)
        words[to + np.uint64(2)] = np.uint32(a2)
        words[to + np.uint64(3)] = np.uint32(a3)
        to += np.uint64(4) * pairs
        words[to] = np.uint32(b0)
        words[to + np.uint64(1)] = np.uint32(b1)
        words[to + np.uint64(2)] = np.uint32(b2)
        words[to + np.uint64(3)] = np.uint32(b3)


@njit(nogil=True)
def _uniform(out: Values, at: Any, count: Any, unit: np.float32) -> None:
    """Turn the words that already stand in ``out`` into weights, in place."""
    words = out.view(np.uint32)
    for i in range(at, at + count):
        numerator = np.int32((words[i] >> np.uint32(7)) | np.uint32(1)) - np.int32(1 << 24)
        out[i] = np.float32(np.int32(numerator)) * unit


@njit(nogil=True)
def _normal(words: Words, count: Any, out: Values, at: Any, scale: np.float32, table: Values) -> None:
    for i in range(count):
        word = words[i]
        out[at + np.uint64(2) * i] = table[word & np.uint32(0xFFFF)] * scale
        out[at + np.uint64(2) * i + np.uint64(1)] = table[word >> np.uint32(16)] * scale


@njit(nogil=True)
def _signed(words: Words, count: Any, out: Values, at: Any, plus: np.float32, bits: Words) -> None:
    """The length of ``bits`` is unknown to LLVM, which would otherwise unroll instead of vectorise."""
    minus = -plus
    for i in range(count):
        word = words[i]
        for j in range(np.uint64(bits.size)):
            out[at + j] = plus if word & bits[j] else minus
        at += np.uint64(32)


@njit(nogil=True)
def _fill_blocks(
    out: Values,
    at: Any,
    first: Any,
    blocks: Any,
    seed: Any,
    stream: Any,
    kind: int,
    scale: np.float32,
    table: Values,
    words: Words,
) -> None:
    """Write all the weights of ``blocks`` blocks, a multiple of 8, to ``out[at:]``.

    The uniform law makes one weight of each word, so its words go straight to where the weights will be:
    the memory answers while the next blocks are computed.
    """
    count, pairs = np.uint64(4) * blocks, blocks >> np.uint64(1)
    if kind == UNIFORM:
        draw_blocks(out.view(np.uint32), at, first, pairs, seed, stream)
        _uniform(out, at, count, scale)
        return
    draw_blocks(words, np.uint64(0), first, pairs, seed, stream)
    if kind == NORMAL:
        _normal(words, count, out, at, scale, table)
    else:
        _signed(words, count, out, at, scale, _BITS)


@njit(nogil=True, cache=True)
def fill(
    out: Values,
    start: Any,
    first: Any,
    stride: Any,
    width: Any,
    seed: Any,
    stream: Any,
    kind: int,
    per_block: Any,
    scale: np.float32,
    table: Values,
) -> None:
    """Write positions ``start`` to ``start + out.size - 1`` of a tile whose rows are ``width`` long.

    Position t is the weight with flat index ``first + (t // width) * stride + t % width``.
    """
    words = np.empty(4 * BATCH, np.uint32)
    edge = np.empty(8 * 128, np.float32)
    eight = np.uint64(8)
    done = np.uint64(0)
    total = np.uint64(out.size)
    while done < total:
        row = (start + done) // width
        column = (start + done) % width
        end = min(total, done + width - column)
        index = first + row * stride + column
        while done < end:
            block = index // per_block
            offset = index % per_block
            whole = min((end - done) // per_block, np.uint64(BATCH) - block % np.uint64(BATCH)) // eight * eight
            if offset == np.uint64(0) and whole > np.uint64(0):
                length = whole * per_block
                _fill_blocks(out, done, block, whole, seed, stream, kind, scale, table, words)
            else:
                length = min(end - done, (eight - block % eight) * per_block - offset)
                _fill_blocks(edge, np.uint64(0), block, eight, seed, stream, kind, scale, table, words)
                for i in range(length):
                    out[done + i] = edge[offset + i]
            done += length
            index += length
