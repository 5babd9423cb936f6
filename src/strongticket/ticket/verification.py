"""What ``Ticket.verify`` found."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.parallel import resolve_threads
from strongticket.ticket.pairs import check_work, matrices, units_of
from strongticket.ticket.structures import TARGET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strongticket.ticket.structures import PairPlace
    from strongticket.ticket.ticket import Ticket


@dataclass(frozen=True, slots=True)
class MaskCheck:
    """One mask: weights and count as the ticket has them, and as found here."""

    name: str
    digest: str
    found_digest: str
    count: int
    found_count: int

    @property
    def ok(self) -> bool:
        """Whether both agree."""
        return self.digest == self.found_digest and self.count == self.found_count


@dataclass(frozen=True, slots=True)
class PairCheck:
    """The largest error of one pair against its target, as recorded (if it was) and as computed here."""

    name: str
    recorded: float | None
    found: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether both agree up to the rounding of float64 products."""
        return self.recorded is None or abs(self.recorded - self.found) <= self.tolerance


@dataclass(frozen=True, slots=True)
class Verification:
    """The checks of a ticket, one by one; ``ok`` if all of them passed, ``notes`` say what could not be checked."""

    masks: tuple[MaskCheck, ...]
    pairs: tuple[PairCheck, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of masks and pairs that did not pass."""
        checks: tuple[MaskCheck | PairCheck, ...] = (*self.masks, *self.pairs)
        return tuple(check.name for check in checks if not check.ok)

    @property
    def max_error(self) -> float | None:
        """The largest error of a pair, if the target is known."""
        return max((pair.found for pair in self.pairs), default=None)

    def to_dict(self) -> dict[str, Any]:
        """The checks as plain values."""
        checks = {key: [asdict(check) | {"ok": check.ok} for check in getattr(self, key)] for key in ("masks", "pairs")}
        return {"ok": self.ok, "max_error": self.max_error, **checks, "notes": list(self.notes)}


def check_pairs(ticket: Ticket) -> tuple[tuple[PairCheck, ...], tuple[str, ...]]:
    """The error of every constructed pair from its masked weights, in float64, and notes on what is missing."""
    if not ticket.pairs:
        return (), ()
    if any(f"{TARGET}{place.name}" not in ticket.kept for place in ticket.pairs):
        return (), ("the ticket does not hold its target, so errors were not recomputed",)
    check = _check_matrices
    if ticket.architecture["kind"] == "model":
        check_work(ticket.pairs, ticket.entries, ticket._max_bytes)
        check = _check_units
    with ThreadPoolExecutor(resolve_threads(None)) as pool:
        return tuple(pool.map(lambda place: check(ticket, place), ticket.pairs)), ()


def _check_matrices(ticket: Ticket, place: PairPlace) -> PairCheck:
    target = _target(ticket, place)
    first, second = matrices(place, ticket.entries)
    if place.relu is None:
        errors = target - place.scale * (second @ first)
    else:
        errors = target - second @ np.maximum(first, 0.0)
        if place.relu == "both":
            errors = np.concatenate([errors, -target - second @ np.maximum(-first, 0.0)], axis=1)
    size = float(np.abs(second).sum(axis=1).max() * np.abs(first).max()) * abs(place.scale)
    return _checked(ticket, place, len(first), errors, size + float(np.abs(target).max()))


def _check_units(ticket: Ticket, place: PairPlace) -> PairCheck:
    target, units = _target(ticket, place), units_of(place, ticket.entries)
    size = float(units.product(magnitudes=True).max()) + float(np.abs(target).max())
    return _checked(ticket, place, units.serves.size, target - units.product(), size)


def _target(ticket: Ticket, place: PairPlace) -> NDArray[np.float64]:
    return ticket.kept[f"{TARGET}{place.name}"].astype(np.float64)


def _checked(ticket: Ticket, place: PairPlace, terms: int, errors: NDArray[np.float64], size: float) -> PairCheck:
    recorded = ticket.finder.get("max_error", {}).get(place.name)
    tolerance = 4.0 * terms * float(np.finfo(np.float64).eps) * size
    return PairCheck(place.name, recorded, float(np.abs(errors).max()), tolerance)
