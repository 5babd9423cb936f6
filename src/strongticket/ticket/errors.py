"""What goes wrong with a ticket."""

from __future__ import annotations


class TicketError(ValueError):
    """A ticket that cannot be made, read or trusted; the message starts with the field at fault.

    >>> error = TicketError("masks.w.source.seed", "must be an integer, got -0.5")
    >>> error.field
    'masks.w.source.seed'
    >>> print(error)
    masks.w.source.seed: must be an integer, got -0.5
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field, self.problem = field, problem

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class TicketWarning(UserWarning):
    """A ticket that can be used, but says something that this version does not know."""
