"""One pair of a model: from a matrix to the masks of two random ones, on any worker."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.linear import auto_range, solve_pair
from strongticket.source import Source, Uniform
from strongticket.subsetsum import MOST_ITEMS
from strongticket.ticket import Entry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strongticket.construct.search import Search

_WIDER = 2
_VERSION = 1


@dataclass(frozen=True, eq=False)
class Job:
    """Make ``target`` (d2 × d1) of two random matrices with ``units`` hidden units between them.

    ``entries`` are the names of the two masks, and, with ``prefix``, of their sources. ``logits``: attention divides
    the product by √n, so the sources are n^¼ times as wide (§3.1). ``tol``: as long as an entry's error is larger,
    the pair is made anew with 2 more units per column, up to 40.
    """

    name: str
    entries: tuple[str, str]
    target: NDArray[np.float64]
    units: int
    seed: int
    prefix: str
    search: Search
    logits: bool = False
    tol: float | None = None

    @property
    def columns(self) -> int:
        """How many inputs or outputs share the units."""
        return min(self.target.shape)

    @property
    def key(self) -> str:
        """A digest of everything that the masks depend on."""
        about = asdict(self.search) | {"threads": None, "version": _VERSION}
        about |= {key: getattr(self, key) for key in ("name", "units", "seed", "prefix", "logits", "tol")}
        total = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
        total.update(np.ascontiguousarray(self.target).data)
        return total.hexdigest()

    def run(self) -> FoundPair:
        """Draw the sources and find the masks."""
        found = self._solve()
        wider = self.units + _WIDER * self.columns
        if self.tol is None or found.max_error <= self.tol or wider > MOST_ITEMS * self.columns:
            return found
        return replace(self, units=wider).run()

    def _solve(self) -> FoundPair:
        n = self.units
        r = auto_range(self.target, n, self.search.layout) * (float(n) ** 0.25 if self.logits else 1.0)
        first, second = (
            Source(self.seed, f"{self.prefix}{name}", shape, Uniform(r))
            for name, shape in zip(self.entries, ((n, self.target.shape[1]), (self.target.shape[0], n)), strict=True)
        )
        w1, w2 = (source.weights(threads=self.search.threads) for source in (first, second))
        masks, error = solve_pair(
            self.target,
            w1,
            w2,
            self.search,
            seed=self.seed,
            name=f"{self.prefix}{self.name}",
            scale=1.0 / math.sqrt(n) if self.logits else 1.0,
        )
        return FoundPair(
            self.name,
            self.entries,
            (Entry.of(first, masks[0]), Entry.of(second, masks[1])),
            (_digest(w1), _digest(w2)),
            n,
            float(np.abs(error).max()),
            float(np.linalg.norm(error)) / max(float(np.linalg.norm(self.target)), np.finfo(np.float64).tiny),
        )


@dataclass(frozen=True, eq=False)
class FoundPair:
    """The masks of one pair, the digests of its sources, and what is left of the target.

    ``relative_error`` is ‖error‖_F / ‖target‖_F.
    """

    name: str
    names: tuple[str, str]
    entries: tuple[Entry, Entry]
    digests: tuple[str, str]
    units: int
    max_error: float
    relative_error: float

    def numbers(self) -> dict[str, Any]:
        """The errors as plain values."""
        return {key: getattr(self, key) for key in ("units", "max_error", "relative_error")}


def _digest(weights: NDArray[np.float32]) -> str:
    return hashlib.sha256(weights.astype("<f4", copy=False).data).hexdigest()
