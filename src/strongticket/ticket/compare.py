"""What differs between two tickets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from strongticket.ticket.ticket import Ticket


@dataclass(frozen=True, slots=True)
class MaskDifference:
    """One mask in both tickets: ``status`` "same", "mask", "source", or "only in A" and "only in B".

    ``differing`` counts the weights that one keeps and the other does not, where the shapes are the same.
    """

    name: str
    status: str
    differing: int | None
    weights: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Two tickets side by side; ``same`` if they make the same model of the same weights."""

    masks: tuple[MaskDifference, ...]
    kept: dict[str, str]
    architecture: tuple[str, ...]
    finder: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether masks, sources, kept parameters and architecture agree."""
        masks = all(mask.status == "same" for mask in self.masks)
        return masks and not self.architecture and all(status == "same" for status in self.kept.values())

    def to_dict(self) -> dict[str, Any]:
        """The differences as plain values."""
        return {"same": self.same} | asdict(self)


def compare(a: Ticket, b: Ticket) -> Difference:
    """Compare two tickets mask by mask and parameter by parameter.

    >>> from strongticket import Source, Uniform
    >>> from strongticket.ticket import Ticket
    >>> def ticket(keep):
    ...     sources = Source(1, "a", (2, 1), Uniform(1.0)), Source(1, "b", (1, 2), Uniform(1.0))
    ...     masks = np.ones((2, 1)), np.array([[1, keep]])
    ...     entries = dict(zip(("first", "second"), zip(sources, masks)))
    ...     return Ticket(entries, architecture={"kind": "linear", "scale": 1.0})
    >>> [(mask.name, mask.differing) for mask in compare(ticket(0), ticket(1)).masks]
    [('first', 0), ('second', 1)]
    """
    masks = tuple(_mask(name, a, b) for name in {**a.entries, **b.entries})
    kept = {name: _kept(name, a, b) for name in {**a.kept, **b.kept}}
    return Difference(masks, kept, _keys(a.architecture, b.architecture), _keys(a.finder, b.finder))


def _mask(name: str, a: Ticket, b: Ticket) -> MaskDifference:
    if name not in a.entries or name not in b.entries:
        entry = a.entries.get(name) or b.entries[name]
        return MaskDifference(name, "only in A" if name in a.entries else "only in B", None, entry.source.size)
    one, other = a.entries[name], b.entries[name]
    differing = None
    if one.source.shape == other.source.shape:
        differing = int(np.bitwise_count(one.bits ^ other.bits).sum(dtype=np.int64))
    status = "mask" if differing else "same"
    if one.source != other.source or one.part != other.part:
        status = "source"
    return MaskDifference(name, status, differing, one.source.size)


def _kept(name: str, a: Ticket, b: Ticket) -> str:
    if name not in a.kept or name not in b.kept:
        return "only in A" if name in a.kept else "only in B"
    one, other = a.kept[name], b.kept[name]
    if one.shape != other.shape or one.dtype != other.dtype:
        return "shape or type"
    return "same" if one.tobytes() == other.tobytes() else "values"


def _keys(a: dict[str, Any], b: dict[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(key for key in {**a, **b} if a.get(key) != b.get(key) or (key in a) != (key in b)))
