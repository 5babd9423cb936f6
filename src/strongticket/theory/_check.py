"""Refuse what a theorem does not cover, in words that name its assumption."""

from __future__ import annotations

import math


def check_eps(eps: float, statement: str) -> float:
    """``eps``, if 0 < ε < 1."""
    if not 0.0 < eps < 1.0:
        raise ValueError(f"{statement} assumes 0 < eps < 1, got eps={eps}; choose an error between 0 and 1")
    return float(eps)


def check_constant(constant: float, statement: str) -> float:
    """``constant``, if it can be the universal constant C > 0."""
    if not (constant > 0.0 and math.isfinite(constant)):
        raise ValueError(
            f"{statement} has a universal constant C > 0, got C={constant}; use C=1 or the C of calibrate_C"
        )
    return float(constant)


def check_count(count: int, what: str, statement: str, least: int = 1) -> int:
    """``count``, if it is a whole number of at least ``least``."""
    if isinstance(count, bool) or count != count or int(count) != count or count < least:
        raise ValueError(f"{statement} assumes {what} >= {least}, a whole number; got {what}={count}")
    return int(count)


def check_alpha(alpha: float | None, dims: tuple[int, ...], statement: str) -> float:
    """``alpha``, if α ≥ max(√d1, √d2); the smallest allowed α if it is left out."""
    least = math.sqrt(max(dims))
    if alpha is None:
        return least
    if not (alpha >= least and math.isfinite(alpha)):
        raise ValueError(
            f"{statement} assumes alpha >= max(sqrt(d1), sqrt(d2)) = {least!r}, got alpha={alpha}; "
            "raise alpha (inputs of a smaller norm are covered by the larger alpha too)"
        )
    return float(alpha)


def check_nonnegative(value: float, what: str) -> float:
    """``value``, if it is a number ≥ 0."""
    if not value >= 0.0:
        raise ValueError(f"{what} must be a number >= 0, got {value}")
    return float(value)
