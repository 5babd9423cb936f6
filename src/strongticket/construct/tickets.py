"""Tickets of what was constructed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongticket.construct.pair import ReluPair
from strongticket.ticket import Ticket
from strongticket.ticket.structures import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongticket.construct.attention import ConstructedAttention
    from strongticket.construct.pair import Pair
    from strongticket.construct.relu import Network
    from strongticket.construct.transformer import ConstructedTransformer

    Named = Iterator[tuple[str, tuple[str, str], Pair]]

_NOT_SETTINGS = ("name", "threads")


def pair_ticket(pair: Pair, *, include_target: bool = True) -> Ticket:
    """The ticket of one linear or ReLU pair; the target is stored with it unless ``include_target`` is False.

    >>> from strongticket.construct import linear
    >>> ticket = pair_ticket(linear([[0.5, -0.25]], items=8))
    >>> sorted(ticket.entries), sorted(ticket.kept)
    (['first', 'second'], ['target/pair'])
    """
    if isinstance(pair, ReluPair):
        architecture: dict[str, Any] = {"kind": "relu", "nonnegative": pair.nonnegative}
    else:
        architecture = {"kind": "linear", "scale": pair.scale}
    return _ticket(iter([("pair", ("first", "second"), pair)]), architecture, include_target)


def network_ticket(network: Network, *, include_target: bool = True) -> Ticket:
    """The ticket of a ReLU network.

    >>> from strongticket.construct import network
    >>> ticket = network_ticket(network([[[0.5]], [[0.25]]], items=8))
    >>> ticket.architecture
    {'kind': 'network', 'nonnegative': [False, True]}
    """
    return _ticket(_layers(network, ""), {"kind": "network", **_signs(network)}, include_target)


def attention_ticket(found: ConstructedAttention, *, include_target: bool = True) -> Ticket:
    """The ticket of an attention layer."""
    return _ticket(_heads(found, ""), {"kind": "attention", **_calling(found)}, include_target)


def transformer_ticket(found: ConstructedTransformer, *, include_target: bool = True) -> Ticket:
    """The ticket of a transformer."""
    blocks = list(zip(found.attentions, found.networks, strict=True))

    def pairs() -> Named:
        for place, (attention, network) in enumerate(blocks):
            yield from _heads(attention, f"blocks.{place}.attention.")
            yield from _layers(network, f"blocks.{place}.network.")

    about = [_calling(attention) | _signs(network) for attention, network in blocks]
    return _ticket(pairs(), {"kind": "transformer", "blocks": about}, include_target)


def _calling(found: ConstructedAttention) -> dict[str, Any]:
    target = found.target
    return {"heads": target.heads, "bias": target.bias, "batch_first": target.batch_first}


def _signs(network: Network) -> dict[str, Any]:
    return {"nonnegative": [pair.nonnegative for pair in network.pairs]}


def _heads(found: ConstructedAttention, prefix: str) -> Named:
    for head, (qk, vo) in enumerate(zip(found.qk, found.vo, strict=True)):
        at = f"{prefix}heads.{head}."
        yield f"{at}qk", (f"{at}key", f"{at}query"), qk
        yield f"{at}vo", (f"{at}value", f"{at}output"), vo


def _layers(network: Network, prefix: str) -> Named:
    for layer, pair in enumerate(network.pairs):
        at = f"{prefix}layers.{layer}"
        yield at, (f"{at}.first", f"{at}.second"), pair


def _ticket(pairs: Named, architecture: dict[str, Any], include_target: bool) -> Ticket:
    entries: dict[str, Any] = {}
    kept, errors = {}, {}
    settings: dict[str, Any] = {}
    for name, parameters, pair in pairs:
        entries.update(zip(parameters, zip(pair.sources, pair.masks, strict=True), strict=True))
        if include_target:
            kept[f"{TARGET}{name}"] = pair.target
        errors[name] = pair.max_error
        settings = {key: value for key, value in pair.settings.items() if key not in _NOT_SETTINGS}
    finder = {"name": "construct", "settings": settings, "max_error": errors}
    return Ticket(entries, kept, architecture, finder)
