"""How far off can a ticket be? Certificates computed from the matrices themselves.

They hold for every input with ‖x_i‖ ≤ α, every length and every attention mask, and need no constant C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongticket.theory._check import check_nonnegative
from strongticket.theory.certificate import Certificate, Term
from strongticket.theory.layers import AttentionPair, NetworkPair, Reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

_ASSUMED = (
    "exact arithmetic on the merged matrices given here (rounding while a model runs comes on top)",
    "every position attends to at least one position",
)


@dataclass(frozen=True)
class BlockMatrices:
    """The merged matrices of one block x ↦ F(Attn(x) + x) + Attn(x) + x, of the target and of the ticket.

    The first four are lists over heads as in ``attention_certificate``, the last two lists over layers as in
    ``network_certificate``. With ``bias`` every matrix has its extra row or column.

    >>> import numpy as np
    >>> eye = np.eye(2)
    >>> block = BlockMatrices([eye], [eye], [eye], [0.99 * eye], [eye], [eye])
    >>> len(block.target_qk), block.bias
    (1, False)
    """

    target_qk: Sequence[ArrayLike]
    ticket_qk: Sequence[ArrayLike]
    target_vo: Sequence[ArrayLike]
    ticket_vo: Sequence[ArrayLike]
    target_layers: Sequence[ArrayLike]
    ticket_layers: Sequence[ArrayLike | tuple[ArrayLike, ArrayLike]]
    bias: bool = False


def attention_certificate(
    target_qk: Sequence[ArrayLike],
    ticket_qk: Sequence[ArrayLike],
    target_vo: Sequence[ArrayLike],
    ticket_vo: Sequence[ArrayLike],
    *,
    alpha: float,
    alpha_kv: float | None = None,
    bias: bool = False,
) -> Certificate:
    """How far the attention layer of a ticket can be from its target, from the merged matrices of each head.

    With W_QK = W_Q·W_Kᵀ/√d_K (d_q x d_k) and W_VO = W_V·W_O (d_v x d2), queries ‖x‖ ≤ α, keys and values
    ‖x‖ ≤ α_kv (default α): the logits of head j move by at most e_j = α·α_kv·‖W_QK - W̃_QK‖₂ and the output
    by at most Σ_j 2·α_kv·tanh(e_j/2)·‖W_VO‖₂ + α_kv·‖W_VO - W̃_VO‖₂.

    With ``bias`` both kinds of matrices have one more row at the end, multiplied by 1: b_Q·W_Kᵀ/√d_K for
    W_QK, b_V·W_O for W_VO (and the output bias added to the row of one head).

    >>> import numpy as np
    >>> eye = np.eye(2)
    >>> certificate = attention_certificate([eye], [1.01 * eye], [eye], [eye], alpha=2.0)
    >>> round(certificate.bound, 6)  # 4·tanh(4·0.01/2)
    0.079989
    """
    alpha = check_nonnegative(alpha, "alpha")
    keys = alpha if alpha_kv is None else check_nonnegative(alpha_kv, "alpha_kv")
    pair = AttentionPair(target_qk, ticket_qk, target_vo, ticket_vo, bias=bias)
    start, values = Reach(alpha, alpha, 0.0), Reach(keys, keys, 0.0)
    out, terms = pair.pass_through(start, values)
    assumed = _ASSUMED if alpha_kv is None else (*_ASSUMED, f"keys and values with norms up to {keys:.6g}")
    return _certificate("attention layer", [out], alpha, terms, assumed)


def network_certificate(
    target_layers: Sequence[ArrayLike],
    ticket_layers: Sequence[ArrayLike | tuple[ArrayLike, ArrayLike]],
    alpha: float,
    *,
    bias: bool = False,
) -> Certificate:
    """How far the ReLU network of a ticket can be from x ↦ W_L·ReLU(… ReLU(W_1·x)), for ‖x‖ ≤ α.

    A layer of the ticket is one matrix W̃ (a pair without ReLU), or two, (P, N), for a pruned ReLU pair
    x ↦ P·ReLU(x) + N·ReLU(-x). Then W·x - P·x⁺ - N·x⁻ = [W - P, -W - N]·[x⁺; x⁻] and ‖[x⁺; x⁻]‖ = ‖x‖, so one
    norm bounds the error of a layer. From the second layer on inputs are ≥ 0 and only P matters. With
    ``bias`` every matrix has one more column at the end, multiplied by 1.

    >>> import numpy as np
    >>> w = np.eye(2)
    >>> round(network_certificate([w], [(0.9 * w, -1.0 * w)], alpha=1.0).bound, 9)
    0.1
    """
    alpha = check_nonnegative(alpha, "alpha")
    out, terms = NetworkPair(target_layers, ticket_layers, bias=bias).pass_through(Reach(alpha, alpha, 0.0))
    return _certificate("ReLU network", [out], alpha, terms, _ASSUMED[:1])


def block_certificate(block: BlockMatrices, alpha: float) -> Certificate:
    """How far one transformer block of a ticket can be from its target (Theorem 11), for ‖x_i‖ ≤ α.

    >>> import numpy as np
    >>> eye = np.eye(2)
    >>> block = BlockMatrices([eye], [eye], [eye], [0.99 * eye], [eye], [eye])
    >>> round(block_certificate(block, 1.0).bound, 9)  # 0.01 from attention, twice: through F and beside it
    0.02
    """
    alpha = check_nonnegative(alpha, "alpha")
    out, terms = _pass_block(block, Reach(alpha, alpha, 0.0))
    return _certificate("transformer block", [out], alpha, terms, _ASSUMED)


def transformer_certificate(blocks: Sequence[BlockMatrices], alpha: float) -> Certificate:
    """How far a ticket of B blocks can be from its target (Theorem 6), for ‖x_i‖ ≤ α.

    Block by block it follows three numbers: r and r', the largest norms of the inputs in the target and in
    the ticket, and e, the largest distance between them. In a head the logits move by at most
    e·(r + r')·‖W_QK‖ + r'²·‖W_QK - W̃_QK‖ and the output by at most
    2·r·tanh(shift/2)·‖W_VO‖ + e·‖W_VO‖ + r'·‖W_VO - W̃_VO‖; the same holds with target and ticket exchanged,
    and the smaller one counts. Where e reaches r the bound says nothing;
    ``useless_from`` names that block.

    >>> import numpy as np
    >>> eye = np.eye(2)
    >>> block = BlockMatrices([eye], [eye], [eye], [0.999 * eye], [eye], [eye])
    >>> certificate = transformer_certificate([block, block, block], alpha=1.0)
    >>> certificate.useless_from, certificate.bound < certificate.trivial
    (None, True)
    """
    alpha = check_nonnegative(alpha, "alpha")
    if not blocks:
        raise ValueError("a transformer needs at least one block, got an empty list")
    reach, outs, terms = Reach(alpha, alpha, 0.0), [], []
    for number, block in enumerate(blocks, start=1):
        try:
            reach, inner = _pass_block(block, reach)
        except ValueError as error:
            raise ValueError(f"block {number}: {error}") from error
        terms += [Term(f"block {number}, {term.where}", term.what, term.value) for term in inner]
        if not math.isfinite(reach.target + reach.ticket + reach.apart):
            terms.append(Term(f"block {number}", "norms beyond the range of numbers", math.inf))
            outs.append(Reach(math.inf, math.inf, math.inf))
            break
        outs.append(reach)
        terms += [
            Term(f"block {number}", "output error", reach.apart),
            Term(f"block {number}", "norm", reach.target),
        ]
    return _certificate(f"transformer of {len(blocks)} blocks", outs, alpha, terms, _ASSUMED)


def _pass_block(block: BlockMatrices, start: Reach) -> tuple[Reach, list[Term]]:
    pair = AttentionPair(block.target_qk, block.ticket_qk, block.target_vo, block.ticket_vo, bias=block.bias)
    network = NetworkPair(block.target_layers, block.ticket_layers, bias=block.bias)
    check_sizes(pair, network)
    attention, terms = pair.pass_through(start, start)
    middle = attention.plus(start)
    out, more = network.pass_through(middle)
    return out.plus(middle), [*terms, *more]


def check_sizes(pair: AttentionPair, network: NetworkPair, **others: int) -> None:
    """Refuse a block whose parts, and ``others`` by their names, do not all have one size."""
    sizes = {
        "queries": pair.query_size,
        "keys": pair.key_size,
        "values": pair.value_size,
        "attention output": pair.output_size,
        "network input": network.input_size,
        "network output": network.output_size,
        **{name.replace("_", " "): size for name, size in others.items()},
    }
    if len(set(sizes.values())) != 1:
        raise ValueError(f"a block adds its input to its output, so all sizes must agree; got {sizes}")


def _certificate(
    what: str, outs: list[Reach], alpha: float, terms: list[Term], assumptions: tuple[str, ...]
) -> Certificate:
    last = outs[-1]
    finite = math.isfinite(last.apart)
    useless = (number for number, out in enumerate(outs, start=1) if out.useless)
    return Certificate(
        what=what,
        bound=last.apart if finite else math.inf,
        alpha=alpha,
        trivial=last.target if finite else math.inf,
        terms=tuple(terms),
        assumptions=assumptions,
        useless_from=next(useless, None if finite else len(outs)),
    )
