"""From masks and parameters to tensors and configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.ticket import format, packing
from strongticket.ticket.content import dtype_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strongticket.ticket.ticket import Ticket

_SMALL = 64


def contents(ticket: Ticket, *, compress: bool) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """``config.json`` and the tensors of a ticket."""
    from strongticket import __version__

    tensors: dict[str, NDArray[Any]] = {}
    masks: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    digests = ticket.source_digests()
    for name, entry in ticket.entries.items():
        encoding, data = packing.encode(entry.bits, entry.source.shape, entry.count, compress=compress)
        tensors[f"masks/{name}"] = data
        masks[name] = format.mask_dict(entry, encoding, digests[name])
    for name, array in ticket.kept.items():
        constant = array.size >= _SMALL and _is_constant(array)
        tensors[f"kept/{name}"] = np.ascontiguousarray(array.reshape(-1)[:1] if constant else array)
        kept[name] = {"dtype": dtype_name(array, f"kept.{name}"), "shape": list(array.shape)}
        if constant:
            kept[name]["constant"] = True
    config = {
        "format": "strongticket",
        "format_version": f"{format.MAJOR}.{format.minor_version(ticket.architecture)}",
        "library_version": __version__,
        "finder": ticket.finder,
        "architecture": ticket.architecture,
        "masks": masks,
        "kept": kept,
        "digest": ticket.digest,
    }
    return format.sealed(config), tensors


def _is_constant(array: NDArray[Any]) -> bool:
    """Whether all values have the same bits."""
    words = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
    return bool((words == words[0]).all())
