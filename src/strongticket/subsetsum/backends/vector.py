"""Vector instructions for numba: one problem per lane, one row of ``LANES`` float64 values per step.

A buffer is a flat float64 array; its row r is ``buffer[r * LANES : (r + 1) * LANES]``, and lane l of every
row belongs to problem l. Each function below is emitted as LLVM vector code, which LLVM turns into whatever
the processor has (8 lanes fill an AVX-512 register, 4 an AVX one). Loops over lanes written in Python are
not turned into such code reliably: rows of one buffer may overlap as far as LLVM can tell.

All values are whole numbers below 2^53, so every addition is exact.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 4
GAPS = 16
BIAS = 3.0 * 2.0**51

_I64 = ir.IntType(64)
_F64 = ir.DoubleType()
_ROW = ir.VectorType(_F64, LANES)
_BITS = ir.VectorType(_I64, LANES)
_NO_GAP = 1e300


def _all_lanes(kind: ir.Type, row: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(row, [ir.Constant(kind, value)] * LANES)


class _Emitter:
    """Emits row loads, stores, minima and maxima into one function."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder

    def address(self, array_type: Any, array: Any, row: Any) -> Any:
        data = self.context.make_array(array_type)(self.context, self.builder, array).data
        first = self.builder.gep(data, [self.builder.mul(row, ir.Constant(_I64, LANES))])
        return self.builder.bitcast(first, _ROW.as_pointer())

    def load(self, address: Any) -> Any:
        return self.builder.load(address, align=8)

    def store(self, value: Any, address: Any) -> None:
        self.builder.store(value, address, align=8)

    def _call(self, name: str, x: Any, y: Any) -> Any:
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(_ROW, [_ROW, _ROW]), f"llvm.{name}.v{LANES}f64"
        )
        return self.builder.call(function, [x, y], fastmath=("nnan", "nsz"))

    def minimum(self, x: Any, y: Any) -> Any:
        return self._call("minnum", x, y)

    def maximum(self, x: Any, y: Any) -> Any:
        return self._call("maxnum", x, y)

    def half_cleaners(self, rows: list[Any]) -> list[Any]:
        """Compare and exchange at distances len/2, len/4, …, 1: sorts a bitonic sequence of rows."""
        rows, distance = list(rows), len(rows) // 2
        while distance:
            for i in range(len(rows)):
                if not i & distance:
                    low, high = rows[i], rows[i + distance]
                    rows[i], rows[i + distance] = self.minimum(low, high), self.maximum(low, high)
            distance //= 2
        return rows


def _make_exchange(radix: int) -> Any:
    @intrinsic
    def exchange(typing_context: Any, buffer: Any, row: Any, stride: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = _Emitter(context, builder)
            array, place, step = args
            addresses = []
            for _ in range(radix):
                addresses.append(emit.address(signature.args[0], array, place))
                place = builder.add(place, step)
            for value, address in zip(emit.half_cleaners([emit.load(a) for a in addresses]), addresses, strict=True):
                emit.store(value, address)
            return context.get_dummy_value()

        return types.void(buffer, types.uint64, types.uint64), codegen

    return exchange


exchange2 = _make_exchange(2)
exchange4 = _make_exchange(4)
exchange8 = _make_exchange(8)
"""exchangeR(buffer, row, stride): log2(R) stages of half-cleaners on the R rows row, row + stride, …"""


@intrinsic
def mirror(typing_context: Any, buffer: Any, row: Any, twin: Any, keys: Any, item: Any, total: Any) -> Any:
    """With H = buffer[row], a = keys[item], T = keys[total]: row ← min(H, T+a-H), twin ← min(T-H, a+H).

    The sorted sums s of k items mirror each other, s[i] + s[2^k-1-i] = T, so the lower half H is enough to
    know them all; this is the first stage of merging s with s + a, of which only the lower half is kept.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emitter(context, builder)
        array, row, twin, constants, item, total = args
        here, there = (emit.address(signature.args[0], array, r) for r in (row, twin))
        a, t = (emit.load(emit.address(signature.args[3], constants, r)) for r in (item, total))
        h = emit.load(here)
        emit.store(emit.minimum(h, builder.fsub(builder.fadd(t, a), h)), here)
        emit.store(emit.minimum(builder.fsub(t, h), builder.fadd(a, h)), there)
        return context.get_dummy_value()

    u64 = types.uint64
    return types.void(buffer, u64, u64, keys, u64, u64), codegen


@intrinsic
def join(
    typing_context: Any,
    out: Any,
    row: Any,
    half: Any,
    left: Any,
    right: Any,
    keys: Any,
    left_total: Any,
    right_total: Any,
    goal: Any,
) -> Any:
    """The first two stages of merging the left sums with goal - (the right sums), biased by ``BIAS``.

    ``left`` and ``right`` hold the lower halves (``half`` rows each); row, row + half, row + 2 half and
    row + 3 half of ``out`` are written.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emitter(context, builder)
        out, row, half, left, right, constants, left_total, right_total, goal = args
        twin = builder.sub(builder.sub(half, ir.Constant(_I64, 1)), row)

        def get(index: int, array: Any, place: Any) -> Any:
            return emit.load(emit.address(signature.args[index], array, place))

        bias = _all_lanes(_F64, _ROW, BIAS)
        total_l = builder.fadd(get(5, constants, left_total), bias)
        total_r = get(5, constants, right_total)
        aim = builder.fadd(get(5, constants, goal), bias)
        rows = [
            builder.fadd(get(3, left, row), bias),
            builder.fsub(total_l, get(3, left, twin)),
            builder.fsub(aim, get(4, right, row)),
            builder.fadd(builder.fsub(aim, total_r), get(4, right, twin)),
        ]
        for value in emit.half_cleaners(rows):
            emit.store(value, emit.address(signature.args[0], out, row))
            row = builder.add(row, half)
        return context.get_dummy_value()

    u64 = types.uint64
    return types.void(out, u64, u64, left, right, keys, u64, u64, u64), codegen


@intrinsic
def smallest_gap(typing_context: Any, rows: Any, row: Any, out: Any, place: Any) -> Any:
    """out[place] ← the least of the next ``GAPS`` differences of neighbours that differ in their lowest bit.

    The lowest bit tells left from right; with ``BIAS`` added, every value has the same exponent, so the
    lowest bit of the whole number is the lowest bit of the float.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emitter(context, builder)
        array, row, out, place = args
        shift, zero = _all_lanes(_I64, _BITS, 63), _all_lanes(_I64, _BITS, 0)
        none = best = _all_lanes(_F64, _ROW, _NO_GAP)
        before = emit.load(emit.address(signature.args[0], array, row))
        for _ in range(GAPS):
            row = builder.add(row, ir.Constant(_I64, 1))
            value = emit.load(emit.address(signature.args[0], array, row))
            differ = builder.xor(builder.bitcast(value, _BITS), builder.bitcast(before, _BITS))
            crosses = builder.icmp_signed("<", builder.shl(differ, shift), zero)
            best = emit.minimum(builder.select(crosses, builder.fsub(value, before), none), best)
            before = value
        emit.store(best, emit.address(signature.args[2], out, place))
        return context.get_dummy_value()

    u64 = types.uint64
    return types.void(rows, u64, out, u64), codegen
