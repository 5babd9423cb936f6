"""The sources of a pair: how wide they are, and from which range they are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongticket.construct.checks import checked_range
from strongticket.construct.linear import auto_range, resolve_width
from strongticket.source import Source, Uniform

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from strongticket.construct.search import Layout

INITS = ("theory", "xavier", "section-4.1")


@dataclass(frozen=True)
class Draw:
    """How the sources of a construction are drawn; ``attention`` describes the fields.

    >>> import numpy as np
    >>> draw = Draw(items=8, init="section-4.1")
    >>> query = draw.pair(np.eye(2), 2, "assigned", ("key", "query"), "an example", logits=True)[1]
    >>> query.shape, query.law.r  # 16^(-1/4)
    ((2, 16), 0.5)
    """

    items: int | None = None
    width: int | None = None
    seed: int = 0
    init: str = "theory"
    range: float | str = 1.0

    def __post_init__(self) -> None:
        """Check what does not depend on the target."""
        if self.init not in INITS:
            raise ValueError(f"unknown init {self.init!r}; choose one of {', '.join(INITS)}")
        checked_range(self.range)
        if self.init != "theory" and self.range != 1.0:
            raise ValueError(f'range={self.range!r} needs init="theory"; {self.init!r} sets the ranges itself')

    def pair(
        self,
        goal: NDArray[np.float64],
        columns: int,
        layout: Layout,
        names: tuple[str, str],
        what: str,
        *,
        logits: bool = False,
    ) -> tuple[Source, Source]:
        """W1 (n × d1) and W2 (d2 × n) for a target ``goal`` (d2 × d1), whose ``columns`` share the n units.

        ``logits``: attention divides the product of the two by √n.
        """
        n = resolve_width(self.items, self.width, columns, what)
        r = checked_range(self.range)
        if r is None:
            r = auto_range(goal, n, layout)
        if logits:
            r *= float(n) ** (0.25 if self.init == "theory" else -0.25)
        first, second = (
            Source(
                seed=self.seed,
                name=name,
                shape=shape,
                law=Uniform(math.sqrt(6.0 / sum(shape)) if self.init == "xavier" else r),
            )
            for name, shape in zip(names, ((n, goal.shape[1]), (goal.shape[0], n)), strict=True)
        )
        return first, second
