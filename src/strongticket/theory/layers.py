"""What a layer does to norms, and to the distance between target and ticket."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from strongticket.theory.affine import ROUNDING, Affine, Difference
from strongticket.theory.certificate import Term
from strongticket.theory.softmax import total_variation_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Reach:
    """The largest norm in the target, in the ticket, and the largest distance ``apart`` between the two.

    >>> round(Reach(1.0, 1.1, 0.2).plus(Reach(2.0, 2.0, 0.1)).apart, 9)
    0.3
    """

    target: float
    ticket: float
    apart: float

    def plus(self, other: Reach) -> Reach:
        """The reach of a sum, such as a residual connection."""
        return Reach(
            (self.target + other.target) * ROUNDING,
            (self.ticket + other.ticket) * ROUNDING,
            (self.apart + other.apart) * ROUNDING,
        ).settled()

    def settled(self) -> Reach:
        """The same facts, each tightened by the other two: a distance is at most the sum of the norms, …"""
        apart = min(self.apart, (self.target + self.ticket) * ROUNDING)
        target = min(self.target, (self.ticket + apart) * ROUNDING)
        ticket = min(self.ticket, (self.target + apart) * ROUNDING)
        return Reach(target, ticket, apart)

    @property
    def useless(self) -> bool:
        """Whether an output of zero would be within the same distance of the target."""
        return self.apart > 0.0 and not self.apart < self.target


class AttentionPair:
    """The merged matrices of an attention layer, of the target and of the ticket, head by head."""

    def __init__(
        self,
        target_qk: Sequence[ArrayLike],
        ticket_qk: Sequence[ArrayLike],
        target_vo: Sequence[ArrayLike],
        ticket_vo: Sequence[ArrayLike],
        *,
        bias: bool,
    ) -> None:
        """Check that the four lists and all shapes fit together."""
        counts = {len(heads) for heads in (target_qk, ticket_qk, target_vo, ticket_vo)}
        if len(counts) != 1 or counts == {0}:
            raise ValueError(f"all four lists need the same number of heads, at least one; got {sorted(counts)}")
        qk = [_matrices("W_QK", j, a, b, bias) for j, (a, b) in enumerate(zip(target_qk, ticket_qk, strict=True), 1)]
        vo = [_matrices("W_VO", j, a, b, bias) for j, (a, b) in enumerate(zip(target_vo, ticket_vo, strict=True), 1)]
        for name, pairs in (("W_QK", qk), ("W_VO", vo)):
            shapes = {pair[0].shape for pair in pairs}
            if len(shapes) != 1:
                raise ValueError(f"{name} must have one shape for all heads, got {sorted(shapes)}")
        self.query_size, self.key_size = qk[0][0].shape[0] - bias, qk[0][0].shape[1]
        self.value_size = vo[0][0].shape[0] - bias
        self.output_size = vo[0][0].shape[1]
        self._heads = [_HeadPair(*a, *b, bias=bias) for a, b in zip(qk, vo, strict=True)]

    def pass_through(self, queries: Reach, values: Reach) -> tuple[Reach, list[Term]]:
        """The reach of the output, and the terms per head."""
        target = ticket = apart = 0.0
        terms: list[Term] = []
        for number, head in enumerate(self._heads, start=1):
            error, named = head.error(queries, values)
            target += head.target_vo.reach(values.target)
            ticket += head.ticket_vo.reach(values.ticket)
            apart += error
            terms += [Term(f"head {number}", what, value) for what, value in named.items()]
        rounding = 1 + len(self._heads) * 2.0**-52
        out = Reach(target * rounding, ticket * rounding, apart * rounding)
        return out.settled(), terms


class _HeadPair:
    """One head; matrices are kept transposed, so that they act on a column [x; 1]."""

    def __init__(
        self,
        target_qk: NDArray[np.float64],
        ticket_qk: NDArray[np.float64],
        target_vo: NDArray[np.float64],
        ticket_vo: NDArray[np.float64],
        *,
        bias: bool,
    ) -> None:
        self.target_qk, self.ticket_qk = Affine(target_qk.T, bias=bias), Affine(ticket_qk.T, bias=bias)
        self.target_vo, self.ticket_vo = Affine(target_vo.T, bias=bias), Affine(ticket_vo.T, bias=bias)
        self.delta_qk = Difference(target_qk.T, ticket_qk.T, bias=bias)
        self.delta_vo = Difference(target_vo.T, ticket_vo.T, bias=bias)

    def error(self, queries: Reach, values: Reach) -> tuple[float, dict[str, float]]:
        """The smaller of the two bounds that exchange target and ticket, and the numbers behind it."""
        there = self._one_way(self.target_qk, self.target_vo, queries, values)
        back = self._one_way(self.ticket_qk, self.ticket_vo, _exchanged(queries), _exchanged(values))
        return min(there, back, key=lambda found: found[0])

    def _one_way(self, qk: Affine, vo: Affine, queries: Reach, values: Reach) -> tuple[float, dict[str, float]]:
        shift = self.delta_qk.reach(queries.ticket) * values.ticket
        if queries.apart or values.apart:
            shift += qk.gain * queries.apart * values.target + qk.reach(queries.ticket) * values.apart
        weights = 2 * values.target * total_variation_bound(shift * ROUNDING) * vo.gain
        moved = values.apart * vo.gain if values.apart else 0.0
        rest = self.delta_vo.reach(values.ticket)
        named = {
            "‖W_QK - W̃_QK‖₂": self.delta_qk.gain,
            "‖W_VO - W̃_VO‖₂": self.delta_vo.gain,
            "logits move by": shift,
            "error from attention weights": weights,
            "error from moved values": moved,
            "error from W_VO": rest,
        }
        if not values.apart:
            del named["error from moved values"]
        return (weights + moved + rest) * ROUNDING, named


class NetworkPair:
    """The layers of a ReLU network, of the target and of the ticket."""

    def __init__(
        self,
        target_layers: Sequence[ArrayLike],
        ticket_layers: Sequence[ArrayLike | tuple[ArrayLike, ArrayLike]],
        *,
        bias: bool,
    ) -> None:
        """Check that the layers fit together."""
        if len(target_layers) != len(ticket_layers) or not len(target_layers):
            raise ValueError(
                "target and ticket need the same number of layers, at least one; "
                f"got {len(target_layers)} and {len(ticket_layers)}"
            )
        self._layers = [
            _LayerPair(number, target, ticket, bias=bias)
            for number, (target, ticket) in enumerate(zip(target_layers, ticket_layers, strict=True), 1)
        ]
        for number, (before, after) in enumerate(pairwise(self._layers), start=1):
            if before.output_size != after.input_size:
                raise ValueError(
                    f"layer {number} gives {before.output_size} outputs, layer {number + 1} takes {after.input_size}"
                )
        self.input_size, self.output_size = self._layers[0].input_size, self._layers[-1].output_size

    def pass_through(self, start: Reach) -> tuple[Reach, list[Term]]:
        """The reach of the output, and the terms per layer."""
        reach, terms = start, []
        for number, layer in enumerate(self._layers, start=1):
            reach = layer.pass_through(reach)
            terms += [
                Term(f"layer {number}", "norm of the difference", layer.delta.gain),
                Term(f"layer {number}", "error after it", reach.apart),
            ]
        return reach, terms


class _LayerPair:
    """One layer W against W̃, or against x ↦ P·x⁺ + N·x⁻; as maps of [x⁺, 1, x⁻] if x can be negative."""

    def __init__(
        self, number: int, target: ArrayLike, ticket: ArrayLike | tuple[ArrayLike, ArrayLike], *, bias: bool
    ) -> None:
        if isinstance(ticket, tuple):
            if len(ticket) != 2:
                raise ValueError(f"layer {number}: a ReLU pair is (P, N), got {len(ticket)} matrices")
            w, positive = _matrices("P", number, target, ticket[0], bias, "layer")
            _, negative = _matrices("N", number, target, ticket[1], bias, "layer")
            signed = number == 1
        else:
            w, positive = _matrices("W", number, target, ticket, bias, "layer")
            signed = False
        self.input_size, self.output_size = w.shape[1] - bias, w.shape[0]
        self.target = Affine(w, bias=bias)
        self.ticket, self.delta = Affine(positive, bias=bias), Difference(w, positive, bias=bias)
        if signed:
            linear = w[:, : w.shape[1] - bias]
            both = np.hstack([negative[:, : linear.shape[1]], positive])
            self.ticket = Affine(both, bias=bias)
            self.delta = Difference(np.hstack([-linear, w]), both, bias=bias)

    def pass_through(self, at: Reach) -> Reach:
        """The reach of the output; ReLU, where it follows, makes none of the three numbers larger."""
        through_target = self.target.gain * at.apart + self.delta.reach(at.ticket)
        through_ticket = self.ticket.gain * at.apart + self.delta.reach(at.target)
        return Reach(
            self.target.reach(at.target),
            self.ticket.reach(at.ticket),
            min(through_target, through_ticket) * ROUNDING,
        ).settled()


def _exchanged(reach: Reach) -> Reach:
    return replace(reach, target=reach.ticket, ticket=reach.target)


def _matrices(
    name: str, number: int, target: ArrayLike, ticket: ArrayLike, bias: bool, part: str = "head"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = np.asarray(target, dtype=np.float64), np.asarray(ticket, dtype=np.float64)
    if first.ndim != 2 or first.shape != second.shape:
        raise ValueError(
            f"{part} {number}: {name} must be a matrix of one shape in target and ticket, "
            f"got {first.shape} and {second.shape}"
        )
    least = 1 + bias if part == "layer" else 1
    if min(first.shape) < 1 or (first.shape[1] if part == "layer" else first.shape[0]) < least:
        raise ValueError(f"{part} {number}: {name} of shape {first.shape} has no inputs")
    for what, matrix in (("target", first), ("ticket", second)):
        if not np.isfinite(matrix).all():
            raise ValueError(f"{part} {number}: {name} of the {what} holds NaN or infinity")
    return first, second
