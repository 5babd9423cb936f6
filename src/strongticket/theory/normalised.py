"""How far off can a ticket of a transformer with LayerNorm be, on samples that its target has been run on?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from strongticket.theory._check import check_nonnegative
from strongticket.theory.affine import ROUNDING
from strongticket.theory.bounds import check_sizes
from strongticket.theory.certificate import Certificate, Term
from strongticket.theory.layers import AttentionPair, NetworkPair, Reach
from strongticket.theory.norms import spectral_norm_bound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from strongticket.theory.bounds import BlockMatrices

LIPSCHITZ = {
    **dict.fromkeys(("linear", "relu", "relu6", "leaky_relu", "tanh"), 1.0),
    **dict.fromkeys(("gelu", "gelu_python", "gelu_10"), 1.129),
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"), 1.13),
    **dict.fromkeys(("silu", "swish", "quick_gelu"), 1.1),
}
"""Upper bounds of sup|f'|, by the names of transformers; all of these activations have |f(x)| ≤ |x| too."""

_ASSUMED = (
    "exact arithmetic on the matrices given here (rounding while a model runs comes on top)",
    "the norms in the target, measured in float64, to be those of exact arithmetic",
    "target and ticket to share embeddings, LayerNorms and activations",
    "every position to attend to at least one position",
)


def lipschitz_constant(activation: str) -> float:
    """L with |f(x) - f(y)| ≤ L·|x - y| for an activation that transformers knows by this name.

    >>> lipschitz_constant("gelu")
    1.129
    """
    if not isinstance(activation, str) or activation not in LIPSCHITZ:
        known = ", ".join(sorted(LIPSCHITZ))
        raise ValueError(f"no Lipschitz constant is known for the activation {activation!r}, only for {known}")
    return LIPSCHITZ[activation]


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """x ↦ γ ⊙ √d·c/√(‖c‖² + d·eps) + β with c = x - mean(x).

    On the samples, ``smallest`` is the least √(‖c‖² + d·eps) and ``largest`` the largest output norm in the target.

    >>> norm = LayerNorm(np.ones(4), np.zeros(4), eps=1e-5, smallest=3.0, largest=2.0)
    >>> round(norm.error(0.3), 6)  # 2·√4·0.3/(3 + 2.7)
    0.210526
    """

    gamma: NDArray[np.float64]
    beta: NDArray[np.float64]
    eps: float
    smallest: float
    largest: float

    def __post_init__(self) -> None:
        """Check that all numbers are finite and norms not negative."""
        shapes = np.shape(self.gamma), np.shape(self.beta)
        if shapes[0] != shapes[1] or len(shapes[0]) != 1 or not shapes[0][0]:
            raise ValueError(f"γ and β must be vectors of one size, got shapes {shapes[0]} and {shapes[1]}")
        if not (np.isfinite(self.gamma).all() and np.isfinite(self.beta).all()):
            raise ValueError("γ and β must be finite, got NaN or infinity")
        for name in ("eps", "smallest", "largest"):
            check_nonnegative(getattr(self, name), name)

    @property
    def size(self) -> int:
        """The size of the vectors, d."""
        return len(self.gamma)

    @property
    def radius(self) -> float:
        """max|γ|·√d, which no ‖LN(x) - β‖ exceeds."""
        return float(np.abs(self.gamma).max()) * math.sqrt(self.size) * ROUNDING

    def error(self, apart: float) -> float:
        """The largest ‖LN(x) - LN(y)‖ for ‖x - y‖ ≤ δ and x of the samples.

        LN scales â/‖â‖ with â = (c, √(d·eps)), centring brings no vectors further apart, and
        ‖â/‖â‖ - b̂/‖b̂‖‖ ≤ 2·‖â - b̂‖/(‖â‖ + ‖b̂‖) with ‖b̂‖ ≥ ‖â‖ - δ and ‖b̂‖ ≥ √(d·eps). So it is at most
        max|γ|·√d·min(2, 2δ/(s + max(s - δ, √(d·eps)))) for s = ``smallest``.
        """
        if apart == 0.0:
            return 0.0
        both = self.smallest + max(self.smallest - apart, math.sqrt(self.size * self.eps))
        share = min(2.0, 2 * apart / both) if both > 0.0 else 2.0
        return self.radius * share * ROUNDING

    def pass_through(self, at: Reach) -> Reach:
        """The reach of the output, whose norm is at most max|γ|·√d + ‖β‖ whatever the input is."""
        most = (self.radius + spectral_norm_bound(np.asarray(self.beta)[:, None])) * ROUNDING
        return Reach(min(self.largest, most), most, self.error(at.apart)).settled()


@dataclass(frozen=True, eq=False)
class NormalisedBlock:
    """One block of a transformer with LayerNorm, and two norms that the target has in it on the samples.

    It is y = LN₁(Attn(x) + x), z = LN₂(F(y) + y), or with ``pre_norm`` y = x + Attn(LN₁(x)), z = y + F(LN₂(y)), where
    F(y) = W₂·f([W₁·[y, 1], 1]) with the ``activation`` f. ``matrices`` have their biases and two layers. ``hidden`` is
    the largest norm of f(W₁·[y, 1]) and ``output`` that of z.
    """

    matrices: BlockMatrices
    norms: tuple[LayerNorm, LayerNorm]
    activation: str
    hidden: float
    output: float
    pre_norm: bool

    def pass_through(self, start: Reach) -> tuple[Reach, list[Term]]:
        """The reach of the output, and what it comes from."""
        given, (first, second) = self.matrices, self.norms
        pair = AttentionPair(given.target_qk, given.ticket_qk, given.target_vo, given.ticket_vo, bias=True)
        self._check(pair)
        source = first.pass_through(start) if self.pre_norm else start
        attention, heads = pair.pass_through(source, source)
        middle = attention.plus(start)
        if not self.pre_norm:
            middle = first.pass_through(middle)
        fed, layers = self._feed_forward(second.pass_through(middle) if self.pre_norm else middle)
        out = fed.plus(middle)
        if not self.pre_norm:
            out = second.pass_through(out)
        out = _measured(out, self.output)
        terms = [
            *(Term("heads", f"largest {what}", _largest(heads, what)) for what in ("‖W_QK - W̃_QK‖₂", "‖W_VO - W̃_VO‖₂")),
            Term("heads", "error", attention.apart),
            *layers,
            Term("", "output error", out.apart),
            Term("", "norm", out.target),
        ]
        return out, terms

    def _feed_forward(self, start: Reach) -> tuple[Reach, list[Term]]:
        constant = lipschitz_constant(self.activation)
        reach, terms = start, []
        for number, (target, ticket) in enumerate(
            zip(self.matrices.target_layers, self.matrices.ticket_layers, strict=True), start=1
        ):
            if number == 2:
                apart = constant * reach.apart * ROUNDING
                reach = _measured(Reach(reach.target, reach.ticket, apart), self.hidden)
            reach, found = NetworkPair([target], [ticket], bias=True).pass_through(reach)
            terms += [Term(f"layer {number}", term.what, term.value) for term in found]
        return reach, terms

    def _check(self, pair: AttentionPair) -> None:
        given = self.matrices
        if not given.bias or len(given.target_layers) != 2:
            raise ValueError(
                f"a block has biases and two linear layers, got bias={given.bias} and {len(given.target_layers)}"
            )
        network = NetworkPair(given.target_layers, given.ticket_layers, bias=True)
        first, second = (norm.size for norm in self.norms)
        check_sizes(pair, network, first_LayerNorm=first, second_LayerNorm=second)


class SampleCertificate(Certificate):
    """A certificate for samples only; ``alpha`` is the largest norm of what the first block gets."""

    def _caption(self) -> str:
        first, *rest = super()._caption().splitlines()
        first = f"holds for the samples that the target was run on; the first block gets norms up to {self.alpha:.6g}"
        return "\n".join([first, *rest])


def normalised_certificate(
    blocks: Iterable[NormalisedBlock], alpha: float, *, last: LayerNorm | None = None
) -> Certificate:
    """How far the hidden states of a ticket can be from those of its target at any position of the samples.

    Like ``transformer_certificate`` it follows, block by block, the largest norms in target and ticket and the largest
    distance; the norms of the target are those measured on the samples. ``blocks`` may be a generator, so that one
    block is in memory at a time; ``alpha`` is the largest norm of what the first block gets, which has no error yet,
    and ``last`` a LayerNorm after the last block.
    """
    alpha = check_nonnegative(alpha, "alpha")
    reach, useless, terms, number = Reach(alpha, alpha, 0.0), None, [], 0
    for number, block in enumerate(blocks, start=1):
        try:
            reach, inner = block.pass_through(reach)
        except ValueError as error:
            raise ValueError(f"block {number}: {error}") from error
        terms += [Term(f"block {number}, {term.where}".removesuffix(", "), term.what, term.value) for term in inner]
        if useless is None and reach.useless:
            useless = number
    if not number:
        raise ValueError("a transformer needs at least one block, got none")
    if last is not None:
        reach = last.pass_through(reach)
        terms.append(Term("last LayerNorm", "output error", reach.apart))
        if useless is None and reach.useless:
            useless = number
    what = f"transformer with LayerNorm, {number} block{'s' if number > 1 else ''}"
    return SampleCertificate(what, reach.apart, alpha, reach.target, tuple(terms), _ASSUMED, useless)


def _measured(reach: Reach, largest: float) -> Reach:
    """The same reach, with the norm of the target as measured; what overflowed counts as infinite."""
    ticket, apart = (math.inf if math.isnan(value) else value for value in (reach.ticket, reach.apart))
    return Reach(check_nonnegative(largest, "the largest norm"), ticket, apart).settled()


def _largest(terms: list[Term], what: str) -> float:
    return max(term.value for term in terms if term.what == what)
