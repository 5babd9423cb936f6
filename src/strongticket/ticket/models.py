"""A Hugging Face model whose attention, or attention and linear layers, are pairs of masked random matrices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.families import family_of
from strongticket.parallel import resolve_threads
from strongticket.ticket.architectures import tensor
from strongticket.ticket.errors import TicketError
from strongticket.ticket.huggingface import check_tensors, empty, filled
from strongticket.ticket.pairs import check_work, units_of
from strongticket.ticket.structures import TARGET

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from strongticket.families import Family
    from strongticket.ticket.pairs import Units
    from strongticket.ticket.ticket import Ticket


def build(ticket: Ticket, mode: str, max_bytes: int) -> nn.Module:
    """The model with a map in place of every pair; dense parameters of what they replace never exist."""
    architecture = ticket.architecture
    family = family_of(architecture["class"])
    assert family is not None
    blocks, heads = family.counts(architecture["config"])
    attentions = family.attentions(architecture["class"], blocks)
    linears = family.linears(architecture["class"], blocks) if architecture["layers"] == "all" else []
    kept = {name: tensor(array) for name, array in ticket.kept.items() if not name.startswith(TARGET)}
    replaced = frozenset(family.replaced(architecture["class"], blocks, architecture["layers"]))
    model = empty(architecture)
    check_tensors(architecture, model, kept, max_bytes, replaced)
    _check_sizes(ticket, model, attentions, linears)
    maps = _maps(ticket, mode, max_bytes)
    model = _filled(architecture, family, kept)
    from strongticket.modules.huggingface import insert

    insert(
        model,
        family,
        {
            path: [(maps[f"{path}.heads.{head}.qk"], maps[f"{path}.heads.{head}.vo"]) for head in range(heads)]
            for path in attentions
        },
        {path: maps[path] for path in linears},
    )
    return model


def _check_sizes(ticket: Ticket, model: Any, attentions: list[str], linears: list[str]) -> None:
    """Refuse pairs of other sizes than the layers of an empty model that they replace."""
    key = f"{attentions[0]}.heads.0.key"
    if ticket.entries[key].source.shape[1] != model.config.hidden_size:
        raise TicketError(f"masks.{key}", f"must have {model.config.hidden_size} columns, the model's hidden size")
    for path in linears[:2]:
        layer = model.get_submodule(path)
        inputs = ticket.entries[f"{path}.first"].source.shape[1]
        outputs = ticket.entries[f"{path}.second"].source.shape[0]
        if (layer.bias.numel(), layer.weight.numel()) != (outputs, outputs * (inputs - 1)):
            raise TicketError(
                f"masks.{path}.first",
                f"and second make {outputs} outputs of {inputs - 1} inputs and a bias, "
                f"the model's layer has weights of shape {tuple(layer.weight.shape)}",
            )


def _filled(architecture: dict[str, Any], family: Family, kept: dict[str, Tensor]) -> Any:
    """The model with its kept parameters; what the pairs replace has no values yet.

    Everything but the blocks is filled by transformers, as for a model that has none, and ties what is tied.
    """
    name, settings = architecture["class"], architecture["config"]
    path = family.attentions(name, 1)[0].removesuffix(f".0.{family.attention}")
    model = filled(
        name,
        settings | {family.settings[0]: 0},
        {key: value for key, value in kept.items() if not key.startswith(f"{path}.")},
    )
    setattr(model.config, family.settings[0], family.counts(settings)[0])
    blocks = empty(architecture, model.config).get_submodule(path)
    inside = {key.removeprefix(f"{path}."): value for key, value in kept.items() if key.startswith(f"{path}.")}
    blocks.load_state_dict(inside, strict=False, assign=True)
    model.set_submodule(path, blocks)
    return model


def _maps(ticket: Ticket, mode: str, max_bytes: int) -> dict[str, nn.Module]:
    """The map of every pair, by its name; refused before anything is drawn if they and what is kept take too much."""
    kept = sum(array.nbytes for name, array in ticket.kept.items() if not name.startswith(TARGET))
    shapes = [
        (ticket.entries[place.first].source.shape, ticket.entries[place.second].source.shape) for place in ticket.pairs
    ]
    merged = kept + sum(4 * second[0] * first[1] for first, second in shapes)
    if mode == "merged" and merged > max_bytes:
        raise TicketError("masks", f"the merged model takes {merged} bytes, more than max_bytes={max_bytes}")
    check_work(ticket.pairs, ticket.entries, max_bytes)
    with ThreadPoolExecutor(resolve_threads(None)) as pool:
        units = list(pool.map(lambda place: units_of(place, ticket.entries), ticket.pairs))
        pruned = kept + sum(found.nbytes for found in units)
        if mode == "pruned" and pruned > max_bytes:
            raise TicketError(
                "masks",
                f"the pruned model takes {pruned} bytes, more than max_bytes={max_bytes}; mode='merged' takes {merged}",
            )
        return dict(zip((found.place.name for found in units), pool.map(MAPS[mode], units), strict=True))


def _pruned(units: Units) -> nn.Module:
    from strongticket.modules import PrunedMap

    weights, dense = units.together()
    first = units.first != _is_transposed(units)
    return PrunedMap(weights, dense if first else dense.T, units_first=first, scale=units.place.scale)


def _merged(units: Units) -> nn.Module:
    from strongticket.modules import MergedMap

    matrix = units.product().astype(np.float32)
    return MergedMap(matrix.T if _is_transposed(units) else matrix)


MAPS: dict[str, Callable[[Units], nn.Module]] = {"pruned": _pruned, "merged": _merged}


def _is_transposed(units: Units) -> bool:
    """Whether the map runs through the second matrix first: queries become W_QKᵀ x̃, to be compared with keys."""
    return units.place.name.endswith(".qk")
