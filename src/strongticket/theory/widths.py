"""How wide must a source be? One function per statement of the paper.

Every width has the form d·C·log(A): a target matrix with d inputs is split into one subset-sum problem per
entry, each with n' = C·log(A) items, and 1/A is both the error allowed per entry and the probability that one
entry fails. ``log_argument`` holds log(A), which stays finite where A itself overflows.
"""

from __future__ import annotations

import math
from itertools import pairwise

from strongticket.theory._check import check_alpha, check_constant, check_count, check_eps
from strongticket.theory.results import (
    AttentionWidths,
    BlockWidths,
    NetworkWidths,
    PairWidth,
    TransformerWidths,
)

PRINTED_CONSTANT = 16
CORRECTED_CONSTANT = 17


def linear_pair_width(*, d1: int, d2: int | None = None, eps: float, C: float = 1.0) -> PairWidth:
    """The width at which two random layers without ReLU contain a given d2 x d1 matrix (Lemma 4, Lemma 7).

    n ≥ d1·C·log(d1·d2/ε): with probability at least 1 - ε every entry is met within ε/(d1·d2).

    >>> linear_pair_width(d1=2, d2=3, eps=0.06).units  # 2·log(6/0.06) = 9.21…
    10
    """
    return _pair("Lemma 4", d1, d2, eps, C, 1)


def relu_pair_width(*, d1: int, d2: int | None = None, eps: float, C: float = 1.0) -> PairWidth:
    """The width at which a two-layer ReLU network contains a given d2 x d1 matrix (Lemma 2).

    n ≥ d1·C·log(2·d1·d2/ε): with probability at least 1 - ε the output is met within ε for ‖x‖ ≤ 1.

    >>> relu_pair_width(d1=2, d2=3, eps=0.06).units  # 2·log(12/0.06) = 10.59…
    11
    """
    return _pair("Lemma 2", d1, d2, eps, C, 2)


def attention_widths(
    *, d1: int, d2: int | None = None, heads: int, eps: float, alpha: float | None = None, C: float = 1.0
) -> AttentionWidths:
    """The query/key and value/output widths at which a random attention layer contains a given one.

    Theorem 3 (Theorem 9 in the appendix), for inputs ‖x_i‖ ≤ α with α ≥ max(√d1, √d2), here the default α:

        n_K ≥ d1·C·log(8·H·α³·d1^{3/2} / ε),    n_V ≥ d1·C·log(2·H·α·d1·√d2 / ε).

    The union bound over H heads, d1² and d1·d2 entries gives the failure
    H·(√d1·ε/(8·H·α³) + √d2·ε/(2·H·α)) ≤ ε. The proof prints it without the leading H, and with √d1 below
    the line where Lemma 7 puts it above; the theorem holds either way.

    >>> widths = attention_widths(d1=64, heads=8, eps=0.01)
    >>> widths.n_K, widths.n_V
    (1360, 1005)
    """
    statement = "Theorem 3"
    d1 = check_count(d1, "d1", statement)
    d2 = d1 if d2 is None else check_count(d2, "d2", statement)
    heads = check_count(heads, "heads", statement)
    eps, C = check_eps(eps, statement), check_constant(C, statement)
    alpha = check_alpha(alpha, (d1, d2), statement)
    logs = {
        "n_K": math.log(8 * heads) + 3 * math.log(alpha) + 1.5 * math.log(d1) - math.log(eps),
        "n_V": math.log(2 * heads) + math.log(alpha) + math.log(d1) + 0.5 * math.log(d2) - math.log(eps),
    }
    exact = {key: d1 * C * log for key, log in logs.items()}
    printed = eps / (8 * heads * alpha**3 * math.sqrt(d1)) + math.sqrt(d2) * eps / (2 * heads * alpha)
    return AttentionWidths(
        n_K=math.ceil(exact["n_K"]),
        n_V=math.ceil(exact["n_V"]),
        exact=exact,
        items={key: math.ceil(C * log) for key, log in logs.items()},
        log_argument=logs,
        probability=1.0 - eps * _attention_failure(d1, d2, alpha),
        printed_probability=1.0 - printed,
        alpha=alpha,
    )


def network_widths(
    *, dims: tuple[int, ...] | list[int], eps: float, alpha: float = 1.0, C: float = 1.0
) -> NetworkWidths:
    """The widths at which a random ReLU network of 2L layers contains a given one of L layers (Theorem 10).

    With layer sizes d_1, …, d_{L+1}: n_l ≥ d_l·C·log(4·L·d_l·d_{l+1} / ε), and the output error is at most
    exp(α·ε/2) - 1 for ‖x‖ ≤ α. That error needs α ≥ 1: Lemma 2 gives α·(exp(ε/2) - 1), which is the
    smaller of the two only from there on. Lemma 2 with ε/(2L) in each layer fails with probability ≤ ε/2.

    >>> network_widths(dims=(2, 3, 1), eps=0.1).n_FC  # 2·log(480) = 12.3…, 3·log(240) = 16.4…
    (13, 17)
    """
    statement = "Theorem 10"
    sizes = tuple(check_count(d, "every layer size", statement) for d in dims)
    if len(sizes) < 2:
        raise ValueError(f"{statement} needs the input size and at least one layer size, got dims={dims}")
    eps, C = check_eps(eps, statement), check_constant(C, statement)
    if not (alpha >= 1.0 and math.isfinite(alpha)):
        raise ValueError(f"{statement} bounds the error by exp(alpha*eps/2) - 1 for alpha >= 1, got alpha={alpha}")
    layers = len(sizes) - 1
    logs = tuple(math.log(4 * layers * a * b) - math.log(eps) for a, b in pairwise(sizes))
    exact = tuple(d * C * log for d, log in zip(sizes, logs, strict=False))
    exponent = alpha * eps / 2
    return NetworkWidths(
        n_FC=tuple(math.ceil(width) for width in exact),
        exact=exact,
        items=tuple(math.ceil(C * log) for log in logs),
        log_argument=logs,
        error=math.expm1(exponent) if exponent < 700 else math.inf,
        probability=1.0 - eps / 2,
    )


def block_widths(
    *, d: int, heads: int, eps: float, alpha: float | None = None, layers: int = 1, C: float = 1.0
) -> BlockWidths:
    """The widths at which a random transformer block contains a given one, with L fully-connected layers.

    Theorem 11: n_MHA ≥ d·C·log(32·α³·H·d^{3/2} / ε) and n_FC ≥ d·C·log(24·α·L·H·d^{5/2} / ε); Theorem 9 at
    ε/4 and Theorem 10 at ε/(6·α·H·√d) fail with probability at most ε/4 + ε/(6·α·H·√d).

    >>> widths = block_widths(d=4, heads=1, eps=0.5)  # 4·log(32·8·8/0.5), 4·log(24·2·32/0.5)
    >>> widths.n_MHA, widths.n_FC
    (34, 33)
    """
    statement = "Theorem 11"
    d, heads = check_count(d, "d", statement), check_count(heads, "heads", statement)
    layers = check_count(layers, "layers", statement)
    eps, C = check_eps(eps, statement), check_constant(C, statement)
    alpha = check_alpha(alpha, (d,), statement)
    return _block(d, heads, layers, C, math.log(alpha), math.log(eps))


def transformer_widths(
    *,
    d: int,
    heads: int,
    blocks: int,
    eps: float,
    alpha: float | None = None,
    layers: int = 1,
    C: float = 1.0,
    corrected: bool = False,
) -> TransformerWidths:
    """The widths, block by block, at which a random transformer of B ≥ 2 blocks contains a given one.

    Theorem 6 (Theorem 14): with β_b = α·(4·H·√d)^{b-1} and P_b = ∏_{j=b..B} 16·H·√d·β_j², block b gets
    Theorem 11 at

        b = 1:  α → β_1,    ε → ε / (2^{B-1}·P_2),
        b ≥ 2:  α → 2·β_b,  ε → ε / (2^{B-b+1}·P_{b+1}),

    and the probability is 1 minus the sum of those ε. ``corrected=True`` puts 17 in place of 16. Block b ≥ 2
    receives inputs that are off by e = E/(c·H·√d·β²), may pass on E, and Lemma 13 as its own proof ends says
    that it passes on at most 2·H·√d·(β·(exp(4·β·e) - 1) + 2·e). With the step exp(x) ≤ 1 + 2x of the paper
    this is at most (16 + 4/β²)·E/c, and β ≥ 4: so c = 16 just fails and c = 17 is the first whole number that
    holds. (With the sharper exp(x) ≤ 1 + x + x² it is at most 9·E/c, so the printed 16 is large enough too.)

    >>> widths = transformer_widths(d=2, heads=1, blocks=2, eps=0.1)
    >>> [(block.n_MHA, block.n_FC) for block in widths.blocks]
    [(32, 32), (32, 22)]
    """
    statement = "Theorem 6"
    d, heads = check_count(d, "d", statement), check_count(heads, "heads", statement)
    blocks = check_count(blocks, "B (blocks)", statement, least=2)
    layers = check_count(layers, "layers", statement)
    eps, C = check_eps(eps, statement), check_constant(C, statement)
    alpha = check_alpha(alpha, (d,), statement)
    constant = CORRECTED_CONSTANT if corrected else PRINTED_CONSTANT
    growth = math.log(4 * heads) + 0.5 * math.log(d)
    log_betas = [math.log(alpha) + b * growth for b in range(blocks)]
    log_factor = [math.log(constant * heads) + 0.5 * math.log(d) + 2 * beta for beta in log_betas]
    found = []
    for b in range(1, blocks + 1):
        first = b == 1
        powers = blocks - 1 if first else blocks - b + 1
        log_eps = math.log(eps) - powers * math.log(2) - math.fsum(log_factor[b:])
        found.append(_block(d, heads, layers, C, log_betas[b - 1] + (0.0 if first else math.log(2)), log_eps))
    return TransformerWidths(
        blocks=tuple(found),
        betas=tuple(_exp(log) for log in log_betas),
        probability=1.0 - math.fsum(1.0 - block.probability for block in found),
        printed_probability=1.0 - math.fsum(_exp(block.log_eps) for block in found),
        alpha=alpha,
        constant=constant,
    )


def _pair(statement: str, d1: int, d2: int | None, eps: float, C: float, factor: int) -> PairWidth:
    d1 = check_count(d1, "d1", statement)
    d2 = d1 if d2 is None else check_count(d2, "d2", statement)
    eps, C = check_eps(eps, statement), check_constant(C, statement)
    log = math.log(factor * d1 * d2) - math.log(eps)
    return PairWidth(math.ceil(d1 * C * log), d1 * C * log, math.ceil(C * log), log, 1.0 - eps)


def _block(d: int, heads: int, layers: int, C: float, log_alpha: float, log_eps: float) -> BlockWidths:
    logs = {
        "n_MHA": math.log(32 * heads) + 3 * log_alpha + 1.5 * math.log(d) - log_eps,
        "n_FC": math.log(24 * layers * heads) + log_alpha + 2.5 * math.log(d) - log_eps,
    }
    exact = {key: d * C * log for key, log in logs.items()}
    eps, alpha = _exp(log_eps), _exp(log_alpha)
    network = _exp(log_eps - log_alpha - math.log(6 * heads) - 0.5 * math.log(d))
    return BlockWidths(
        n_MHA=math.ceil(exact["n_MHA"]),
        n_FC=math.ceil(exact["n_FC"]),
        exact=exact,
        items={key: math.ceil(C * log) for key, log in logs.items()},
        log_argument=logs,
        probability=1.0 - (eps / 4 * _attention_failure(d, d, alpha) + network),
        printed_probability=1.0 - (eps / 4 + network),
        alpha=alpha,
        log_eps=log_eps,
    )


def _attention_failure(d1: int, d2: int, alpha: float) -> float:
    """The failure of Theorem 9 over all heads, divided by ε: √d1/(8·α³) + √d2/(2·α)."""
    return math.sqrt(d1) / alpha / alpha / alpha / 8 + math.sqrt(d2) / alpha / 2


def _exp(log: float) -> float:
    return math.exp(log) if log < 709 else math.inf
