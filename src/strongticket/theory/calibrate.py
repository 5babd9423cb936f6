"""The universal constant C, measured: how many items does a random subset sum need in practice?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from strongticket.theory._check import check_count

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

Law = Literal["U*U", "U"]


@dataclass(frozen=True)
class Share:
    """How many of ``problems`` subset sums with ``items`` items failed, and the interval of their share."""

    items: int
    failures: int
    problems: int
    lower: float
    upper: float

    @property
    def share(self) -> float:
        """The measured share of failures."""
        return self.failures / self.problems


@dataclass(frozen=True)
class Calibration:
    """How many items reach ``eps`` with at most ``failure``, the constant C that says so, and the counts.

    ``items`` is the smallest n' whose measured share of failures is at most ``failure``; ``items_lower`` and
    ``items_upper`` are the smallest n' whose confidence interval begins, and ends, at or below it.
    """

    items: int
    items_lower: int
    items_upper: int
    C: float
    C_lower: float
    C_upper: float
    eps: float
    failure: float
    law: Law
    confidence: float
    shares: tuple[Share, ...]

    @property
    def theory_items(self) -> int:
        """What the theory says with C = 1: ⌈log(1/min(ε, failure))⌉ items."""
        return math.ceil(_log(self.eps, self.failure))


def calibrate_C(
    *,
    eps: float,
    failure: float | None = None,
    law: Law = "U*U",
    problems: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    max_items: int = 40,
    threads: int | None = None,
    progress: Callable[[int], Any] | None = None,
) -> Calibration:
    """Estimate C from random subset sums that are solved exactly.

    Lemma 7 uses Lueker's corollary as: n' ≥ C·log(1/ε) items meet a target in [-1, 1] within ε with
    probability at least 1 - ε. With a failure probability of its own (default: ε) the definition here is

        C = n' / log(1 / min(ε, failure)),   n' the smallest count with P(best error > ε) ≤ failure,

    where targets are drawn from U[-1, 1] and items are products of two U[-1, 1] (``"U*U"``, what a pruned
    pair has) or one U[-1, 1] (``"U"``). Shares of failures come with exact binomial (Clopper-Pearson)
    intervals. The lemma speaks of every target in [-1, 1], this measures the average over them.

    >>> found = calibrate_C(eps=0.1, problems=500)
    >>> found.items_lower <= found.items <= found.items_upper
    True
    """
    for name, value in (
        ("eps", eps),
        ("failure", eps if failure is None else failure),
        ("confidence", confidence),
    ):
        if not 0.0 < value < 1.0:
            raise ValueError(f"calibrate_C needs 0 < {name} < 1, got {name}={value}")
    failure = eps if failure is None else failure
    if law not in get_args(Law):
        raise ValueError(f"calibrate_C knows the laws {get_args(Law)}, got law={law!r}")
    problems = check_count(problems, "problems", "calibrate_C")
    needed = fewest_problems(failure, confidence)
    if problems < needed:
        raise ValueError(
            f"a share of failures below {failure:g} cannot be told from {problems} problems at a confidence "
            f"of {confidence:g}: even without a failure the interval ends above it; use problems >= {needed}"
        )
    shares: list[Share] = []
    count = max(1, math.ceil(math.log2((1 - failure) / eps))) if eps < 1 - failure else 1
    while not shares or shares[-1].upper > failure:
        if count > max_items:
            raise ValueError(
                f"a share of at most {failure:g} failures within eps={eps:g} needs more than "
                f"max_items={max_items} items; raise max_items or eps"
            )
        shares.append(_measure(count, eps, law, problems, confidence, seed, threads))
        if progress is not None:
            progress(1)
        count += 1
    log = _log(eps, failure)
    items = next(share.items for share in shares if share.share <= failure)
    lower = next(share.items for share in shares if share.lower <= failure)
    upper = shares[-1].items
    return Calibration(
        items,
        lower,
        upper,
        items / log,
        lower / log,
        upper / log,
        eps,
        failure,
        law,
        confidence,
        tuple(shares),
    )


def fewest_problems(failure: float, confidence: float = 0.95) -> int:
    """How many problems without a failure it takes to show, with ``confidence``, a share below ``failure``.

    >>> fewest_problems(0.01)
    368
    """
    return math.ceil(math.log((1 - confidence) / 2) / math.log1p(-failure))


def _measure(
    count: int, eps: float, law: Law, problems: int, confidence: float, seed: int, threads: int | None
) -> Share:
    import numpy as np
    from scipy.special import betaincinv

    from strongticket.subsetsum import solve

    name = f"calibrate/{law}/{count}"
    items = _uniform(seed, f"{name}/u", (problems, count))
    if law == "U*U":
        items = items * _uniform(seed, f"{name}/v", (problems, count))
    targets = _uniform(seed, f"{name}/target", (problems,))
    residuals = np.abs(solve(items, targets, tol=eps, threads=threads).residuals)
    failures = int(np.count_nonzero(residuals > eps))
    tail = (1 - confidence) / 2
    lower = float(betaincinv(failures, problems - failures + 1, tail)) if failures else 0.0
    upper = float(betaincinv(failures + 1, problems - failures, 1 - tail)) if failures < problems else 1.0
    return Share(count, failures, problems, lower, upper)


def _uniform(seed: int, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    import numpy as np

    from strongticket.source import Source, Uniform

    return np.asarray(Source(seed=seed, name=name, shape=shape, law=Uniform(1.0)).weights(), dtype=np.float64)


def _log(eps: float, failure: float) -> float:
    return -math.log(min(eps, failure))
