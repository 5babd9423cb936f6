"""Finders: torch optimizers that learn which weights of a random model to keep."""

from __future__ import annotations

from strongticket.search.finders.base import Finder
from strongticket.search.finders.edge_popup import EdgePopup
from strongticket.search.finders.sigmoid import SigmoidMask

FINDERS: dict[str, type[Finder]] = {finder.name: finder for finder in (EdgePopup, SigmoidMask)}
"""Every finder by its name."""

__all__ = ["FINDERS", "EdgePopup", "Finder", "SigmoidMask"]
