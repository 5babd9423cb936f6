"""Strong lottery tickets: subnetworks of random, never trained networks that already do the job.

>>> from strongticket import Source, Uniform
>>> Source(seed=0, name="w", shape=(2, 3), law=Uniform(1.0)).weights().shape
(2, 3)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

_HOME = {
    "Normal": "strongticket.source",
    "Signed": "strongticket.source",
    "Source": "strongticket.source",
    "Uniform": "strongticket.source",
    "Solution": "strongticket.subsetsum",
    "Ticket": "strongticket.ticket",
    "solve": "strongticket.subsetsum",
}

if TYPE_CHECKING:
    from strongticket.source import Normal, Signed, Source, Uniform
    from strongticket.subsetsum import Solution, solve
    from strongticket.ticket import Ticket

__all__ = ["Normal", "Signed", "Solution", "Source", "Ticket", "Uniform", "__version__", "solve"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'strongticket' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
