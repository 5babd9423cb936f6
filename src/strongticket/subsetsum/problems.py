"""Random problems of the kind that pruning a random network gives rise to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strongticket.source import Source, Uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray


def random_problems(
    problems: int, items: int, *, seed: int, products: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Items (problems, items) from U[-1,1]·U[-1,1], or U[-1,1] without ``products``; targets from U[-1,1].

    >>> items, targets = random_problems(3, 8, seed=0)
    >>> items.shape, targets.shape
    ((3, 8), (3,))
    """

    def draw(name: str, *shape: int) -> NDArray[np.float64]:
        source = Source(seed=seed, name=f"problems/{name}", shape=shape, law=Uniform(1.0))
        return source.weights().astype(np.float64)

    values = draw("u", problems, items)
    if products:
        values *= draw("v", problems, items)
    return values, draw("target", problems)
