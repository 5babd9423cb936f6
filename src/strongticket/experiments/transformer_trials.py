"""Trials of figure 6: untrained transformers inside wider random ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from strongticket.experiments.trial import SeedRange, Trial
from strongticket.source import Source, Uniform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongticket.construct import BlockTarget
    from strongticket.experiments.trial import Result

QUERY_SIZE = 8


@dataclass(frozen=True)
class TransformerTrial(SeedRange, Trial):
    """Prune ``count`` random transformers of one width n_MHA = n_FC into an untrained one of ``blocks`` blocks.

    The first b blocks of a ticket are the ticket of the first b blocks, so one construction measures every
    number of blocks up to ``blocks``. ``tol`` is an entry error that is good enough.
    """

    kind: ClassVar[str] = "transformer"
    target_seed: int
    blocks: int
    width: int
    layout: str
    refine: int
    tol: float
    length: int
    samples: int
    first: int
    count: int

    def run(self, needs: Mapping[str, Result]) -> Result:
        """Lists over blocks of lists over sources; a certificate is None where it says nothing."""
        import torch

        from strongticket import construct
        from strongticket.experiments.angular import draw_motions, sequences

        target = [untrained_block(self.target_seed, place) for place in range(self.blocks)]
        x = sequences(*draw_motions("test", 0, self.samples), self.length, torch.zeros(2))
        settings: Any = {"layout": self.layout, "refine": self.refine, "tol": self.tol, "threads": 1, "workers": 1}
        errors: list[list[float]] = [[] for _ in target]
        certificates: list[list[float | None]] = [[] for _ in target]
        sizes: list[float] = []
        for seed in self.seeds:
            found = construct.transformer(target, width=self.width, seed=seed, **settings)
            with torch.inference_mode():
                wanted = list(found.target_module().states(x))
                got = list(found.module().double().states(x))
            sizes = [float(state.norm(dim=-1).amax(dim=-1).mean()) for state in wanted]
            for block, (there, here) in enumerate(zip(wanted, got, strict=True)):
                errors[block].append(float((here - there).norm(dim=-1).amax(dim=-1).mean()))
                certificate = found.certificate(1.0, blocks=block + 1)
                certificates[block].append(certificate.bound if certificate.useful else None)
        return {"errors": errors, "certificates": certificates, "output_norms": sizes}


def untrained_block(seed: int, place: int) -> BlockTarget:
    """A block d = 2 with one head of query/key size 8 and one fully-connected layer, drawn as §B.1 says.

    Query and key from U[-8^¼, 8^¼], value, output and the layer from U[-1, 1].
    """
    from strongticket.construct import AttentionTarget, BlockTarget

    def draw(name: str, shape: tuple[int, int], r: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        source = Source(seed=seed, name=f"untrained/{place}/{name}", shape=shape, law=Uniform(r))
        return source.weights().astype(np.float64)

    wide = math.sqrt(math.sqrt(QUERY_SIZE))
    query, key = draw("query", (2, QUERY_SIZE), wide), draw("key", (2, QUERY_SIZE), wide)
    value, output = draw("value", (2, QUERY_SIZE), 1.0), draw("output", (QUERY_SIZE, 2), 1.0)
    return BlockTarget(AttentionTarget.from_matrices([query], [key], [value], [output]), [draw("layer", (2, 2), 1.0)])
