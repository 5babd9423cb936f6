"""Names for parts of a parameter, so that several sources can tile one tensor.

GPT-2 keeps query, key and value in one tensor. Where query and key have a law of their own, the tensor is tiled by
several sources along one axis; the key of each in a dictionary of sources says which part it fills, as one would
write it for NumPy: ``h.0.attn.c_attn.weight[:, 0:128]``, or ``in_proj_weight[0:128]`` for rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from strongticket.source import Source

_REGION = re.compile(r"(?P<name>[^\[\]]+)\[(?P<columns>:, )?(?P<start>\d+):(?P<stop>\d+)\]")


def region_key(name: str, axis: int, start: int, stop: int) -> str:
    """The key of the part from ``start`` to ``stop`` along ``axis``.

    >>> region_key("c_attn.weight", 1, 0, 128)
    'c_attn.weight[:, 0:128]'
    """
    return f"{name}[{':, ' * axis}{start}:{stop}]"


def parse_region(key: str) -> tuple[str, tuple[slice, ...]]:
    """The parameter's name and the index of the part that ``key`` names; a whole parameter has the index ().

    >>> parse_region("c_attn.weight[:, 0:128]")
    ('c_attn.weight', (slice(None, None, None), slice(0, 128, None)))
    >>> parse_region("wte.weight")
    ('wte.weight', ())
    """
    match = _REGION.fullmatch(key)
    if match is None:
        return key, ()
    part = slice(int(match["start"]), int(match["stop"]))
    return match["name"], (slice(None), part) if match["columns"] else (part,)


def regions_of(sources: Mapping[str, Any], name: str) -> dict[str, tuple[slice, ...]]:
    """The keys in ``sources`` that fill the parameter ``name``, each with its index."""
    parsed = {key: parse_region(key) for key in sources}
    return {key: index for key, (owner, index) in parsed.items() if owner == name}


def assemble(sources: Mapping[str, Source], name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The random weights of the parameter ``name``, put together from its sources.

    >>> from strongticket.source import Signed, Source
    >>> parts = {"w[0:1]": Source(0, "a", (1, 2), Signed(1.0)), "w[1:2]": Source(0, "b", (1, 2), Signed(3.0))}
    >>> np.abs(assemble(parts, "w", (2, 2)))
    array([[1., 1.],
           [3., 3.]], dtype=float32)
    """
    parts = regions_of(sources, name)
    weights = np.empty(shape, np.float32)
    covered = 0
    for key, index in parts.items():
        source = sources[key]
        if weights[index].shape != source.shape:
            raise ValueError(
                f"the source {key!r} has shape {source.shape}, but that part of {name!r} with shape {shape} "
                f"has shape {weights[index].shape}; draw the sources for this model"
            )
        weights[index] = source.weights()
        covered += source.size
    if covered != weights.size:
        raise ValueError(f"the sources {sorted(parts)} cover {covered} of the {weights.size} weights of {name!r}")
    return weights
