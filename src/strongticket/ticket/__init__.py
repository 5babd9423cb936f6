"""The artifact people keep, send and load: a model as a seed and one bit per weight.

>>> from strongticket.ticket import TicketError
>>> issubclass(TicketError, ValueError)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from strongticket.ticket.errors import TicketError, TicketWarning

if TYPE_CHECKING:
    from strongticket.ticket.entry import Entry, Part
    from strongticket.ticket.ticket import Ticket

_HOME = {"Entry": "entry", "Part": "entry", "Ticket": "ticket"}

__all__ = ["Entry", "Part", "Ticket", "TicketError", "TicketWarning"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'strongticket.ticket' has no attribute {name!r}")
    return getattr(import_module(f"strongticket.ticket.{_HOME[name]}"), name)
