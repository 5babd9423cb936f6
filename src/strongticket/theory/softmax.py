"""How far attention moves when its logits or its inputs move."""

from __future__ import annotations

import math

from strongticket.theory._check import check_count, check_nonnegative


def total_variation_bound(shift: float) -> float:
    """The largest total variation between two softmaxes whose logits differ by at most ``shift``: tanh(e/2).

    Sharp for every length and every attention mask: two logits e apart that each move by e, past each other,
    attain it. Where the paper has exp(2e) - 1 for the sum of |p - p'| (Lemma 8), this gives 2·tanh(e/2).

    >>> round(total_variation_bound(0.1), 6)
    0.049958
    """
    return math.tanh(check_nonnegative(shift, "the shift of the logits") / 2)


def softmax_output_bound(shift: float, *, alpha: float) -> float:
    """The largest ‖(p - p')X‖ for logits that move by at most ``shift`` and rows ‖x_k‖ ≤ α: 2·α·tanh(e/2).

    >>> round(softmax_output_bound(0.1, alpha=2.0), 6)
    0.199833
    """
    return 2 * check_nonnegative(alpha, "alpha") * total_variation_bound(shift)


def lemma_5_bound(shift: float, *, d1: int, alpha: float) -> float:
    """Lemma 5: ‖σ(x)X - σ(x + ε)X‖ ≤ 4·√d1·α·e for logits that move by at most e ≤ 1/2.

    >>> lemma_5_bound(0.1, d1=4, alpha=2.0)
    1.6
    """
    if not 0.0 <= shift <= 0.5:
        raise ValueError(f"Lemma 5 assumes 0 <= shift <= 1/2, got shift={shift}; Lemma 8 has no such limit")
    return 4 * math.sqrt(check_count(d1, "d1", "Lemma 5")) * check_nonnegative(alpha, "alpha") * shift


def lemma_8_bound(shift: float, *, d1: int, alpha: float) -> float:
    """Lemma 8: ‖σ(x)X - σ(x + ε)X‖ ≤ √d1·α·(exp(2e) - 1) for logits that move by at most e.

    >>> round(lemma_8_bound(0.1, d1=4, alpha=2.0), 6)
    0.885611
    """
    moved = check_nonnegative(shift, "the shift of the logits")
    return math.sqrt(check_count(d1, "d1", "Lemma 8")) * check_nonnegative(alpha, "alpha") * _expm1(2 * moved)


def lemma_12_bound(shift: float, *, d1: int, heads: int, alpha: float) -> float:
    """Lemma 12: attention whose inputs, all ‖x‖ ≤ α, move by at most e: H·√d1·(α·(exp(4·α·e) - 1) + e).

    >>> round(lemma_12_bound(0.01, d1=4, heads=1, alpha=2.0), 6)
    0.353148
    """
    scale, grown, moved = _moved(shift, d1, heads, alpha, "Lemma 12")
    return scale * (grown + moved)


def lemma_13_bound(shift: float, *, d1: int, heads: int, alpha: float, corrected: bool = False) -> float:
    """Lemma 13: a block whose inputs, all ‖x‖ ≤ α, move by at most e: H·√d1·(α·(exp(4·α·e) - 1) + 2·e).

    The proof of the lemma ends with twice that; ``corrected=True`` gives what the proof shows.

    >>> round(lemma_13_bound(0.01, d1=4, heads=1, alpha=2.0), 6)
    0.373148
    >>> round(lemma_13_bound(0.01, d1=4, heads=1, alpha=2.0, corrected=True), 6)
    0.746297
    """
    scale, grown, moved = _moved(shift, d1, heads, alpha, "Lemma 13")
    return (2 if corrected else 1) * scale * (grown + 2 * moved)


def _moved(shift: float, d1: int, heads: int, alpha: float, statement: str) -> tuple[float, float, float]:
    moved = check_nonnegative(shift, "the shift of the inputs")
    alpha = check_nonnegative(alpha, "alpha")
    scale = check_count(heads, "heads", statement) * math.sqrt(check_count(d1, "d1", statement))
    return scale, alpha * _expm1(4 * alpha * moved), moved


def _expm1(x: float) -> float:
    return math.expm1(x) if x < 709 else math.inf
