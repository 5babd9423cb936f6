"""What the width functions return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PairWidth:
    """The width of one pruned pair of layers: ``units`` is ``exact`` = d·C·``log_argument``, rounded up."""

    units: int
    exact: float
    items: int
    log_argument: float
    probability: float


@dataclass(frozen=True)
class AttentionWidths:
    """The widths of Theorem 3; ``exact``, ``items`` and ``log_argument`` have the keys ``n_K`` and ``n_V``.

    ``probability`` counts every head in the union bound, ``printed_probability`` is the last line of the
    proof of Theorem 9, which leaves the factor H out.
    """

    n_K: int
    n_V: int
    exact: dict[str, float]
    items: dict[str, int]
    log_argument: dict[str, float]
    probability: float
    printed_probability: float
    alpha: float


@dataclass(frozen=True)
class NetworkWidths:
    """The widths of Theorem 10, one per target layer, and the output error they give."""

    n_FC: tuple[int, ...]
    exact: tuple[float, ...]
    items: tuple[int, ...]
    log_argument: tuple[float, ...]
    error: float
    probability: float


@dataclass(frozen=True)
class BlockWidths:
    """The widths of one transformer block, Theorem 11; key and value widths are both ``n_MHA``.

    ``log_eps`` is the logarithm of the ε that this block has to reach, ``alpha`` the norm of its inputs.
    """

    n_MHA: int
    n_FC: int
    exact: dict[str, float]
    items: dict[str, int]
    log_argument: dict[str, float]
    probability: float
    printed_probability: float
    alpha: float
    log_eps: float


@dataclass(frozen=True)
class TransformerWidths:
    """The widths of Theorem 6, block by block; ``constant`` is the factor of H√d1·β² in the products."""

    blocks: tuple[BlockWidths, ...]
    betas: tuple[float, ...]
    probability: float
    printed_probability: float
    alpha: float
    constant: int
