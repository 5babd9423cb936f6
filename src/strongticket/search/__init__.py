"""Find a ticket in a random transformer by learning which weights to keep.

>>> import torch
>>> from strongticket.search import EdgePopup, randomize
>>> model = torch.nn.Linear(8, 8)
>>> optimizer = EdgePopup(model, randomize(model, seed=0), density=0.5)
>>> optimizer.densities()["all"]
0.5
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "EdgePopup": "finders",
    "FINDERS": "finders",
    "Finder": "finders",
    "SearchSettings": "settings",
    "SigmoidMask": "finders",
    "randomize": "drawing",
    "run_search": "run",
    "to_ticket": "tickets",
}

if TYPE_CHECKING:
    from strongticket.search.drawing import randomize
    from strongticket.search.finders import FINDERS, EdgePopup, Finder, SigmoidMask
    from strongticket.search.run import run_search
    from strongticket.search.settings import SearchSettings
    from strongticket.search.tickets import to_ticket

__all__ = [
    "FINDERS",
    "EdgePopup",
    "Finder",
    "SearchSettings",
    "SigmoidMask",
    "randomize",
    "run_search",
    "to_ticket",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'strongticket.search' has no attribute {name!r}")
    return getattr(import_module(f"strongticket.search.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
