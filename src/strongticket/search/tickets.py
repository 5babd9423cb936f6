"""From a finished search to a ticket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongticket.search.regions import parse_region

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from strongticket.search.finders import Finder
    from strongticket.ticket import Ticket


def to_ticket(model: torch.nn.Module, finder: Finder, settings: Mapping[str, Any] | None = None) -> Ticket:
    """The ticket of a Hugging Face model whose weights ``finder`` selected.

    A parameter drawn from several sources becomes several entries, ``NAME/query`` and so on; one that has a
    source but was frozen is kept whole; everything else is stored as it is.
    """
    from strongticket.ticket import Entry, Part, Ticket

    parameters = dict(model.named_parameters())
    entries = {}
    for key, source in finder.sources.items():
        name, index = parse_region(key)
        if finder.roles[name] == "trained":
            continue
        mask = parameters[name].detach().cpu()[index] != 0
        if not index:
            entries[name] = Entry.of(source, mask)
            continue
        axis = len(index) - 1
        entries[f"{name}/{source.name.rpartition('/')[2]}"] = Entry.of(source, mask, Part(name, axis, index[-1].start))
    return Ticket.from_model(model, entries, finder={**(settings or {}), "name": finder.name})
