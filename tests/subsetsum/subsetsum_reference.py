"""The same problems solved in ways that share nothing with the library."""

from __future__ import annotations

import math

import numpy as np

EPS = np.finfo(np.float64).eps


def all_sums(items):
    """Sums of all subsets, (P, 2^n'), bit k of the column keeping item k; added in the order of the items."""
    sums = np.zeros((len(items), 1))
    for column in np.asarray(items, dtype=np.float64).T:
        sums = np.concatenate([sums, sums + column[:, None]], axis=1)
    return sums


def brute_force(items, targets):
    """The best subset of each row as a mask, and its residual."""
    items = np.asarray(items, dtype=np.float64)
    residuals = np.asarray(targets, dtype=np.float64)[:, None] - all_sums(items)
    best = np.abs(residuals).argmin(axis=1)
    masks = (best[:, None] >> np.arange(items.shape[1])) & 1 == 1
    return masks, residuals[np.arange(len(best)), best]


def residuals_of(items, targets, masks):
    """target - sum of the kept items, added in the order of the items."""
    kept = np.zeros(len(items))
    for column, keep in zip(np.asarray(items, dtype=np.float64).T, np.asarray(masks).T, strict=True):
        kept += np.where(keep, column, 0.0)
    return np.asarray(targets, dtype=np.float64) - kept


def meet_in_the_middle(items, target):
    """The least |residual| of one problem: correctly rounded, and as added in the order of the items.

    Every pair of half sums that could be the best for all that rounding does is taken up and compared anew.
    """
    count, half = len(items), len(items) // 2
    left, right = all_sums(items[None, :half])[0], all_sums(items[None, half:])[0]
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    wanted = target - left
    slack = 2 * count * EPS * (np.abs(items).sum() + abs(target))
    place = np.searchsorted(ordered, wanted)
    nearest = min(np.abs(ordered[np.clip(place + shift, 0, len(ordered) - 1)] - wanted).min() for shift in (-1, 0))
    first = np.searchsorted(ordered, wanted - nearest - slack)
    last = np.searchsorted(ordered, wanted + nearest + slack, side="right")
    exact = in_order = math.inf
    for i in np.flatnonzero(last > first):
        for j in range(first[i], last[i]):
            subset = int(i) | int(order[j]) << half
            keep = [(subset >> k) & 1 == 1 for k in range(count)]
            exact = min(exact, abs(math.fsum([target, *(-items[keep])])))
            in_order = min(in_order, abs(residuals_of(items[None], [target], [keep])[0]))
    return exact, in_order


def random_batch(seed, problems, count, *, scale=1.0):
    """Items U[-1,1]·U[-1,1] and targets U[-1,1], all times ``scale``."""
    rng = np.random.default_rng([seed, problems, count])
    items = rng.uniform(-1, 1, (problems, count)) * rng.uniform(-1, 1, (problems, count))
    return items * scale, rng.uniform(-1, 1, problems) * scale
