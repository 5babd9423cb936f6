"""The architectures a ticket can have: which parameters each needs, of which shapes, and which pairs they form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strongticket.ticket import checks
from strongticket.ticket.errors import TicketError
from strongticket.ticket.huggingface import check_architecture, check_constructed, starts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Shapes = Mapping[str, tuple[int, ...]]

TARGET = "target/"
"""Kept parameters whose names start like this are what a ticket was constructed for, not part of its model."""


@dataclass(frozen=True, slots=True)
class PairPlace:
    """Two parameters that stand in for one matrix: scale · second @ first, through a ReLU unless ``relu`` is None.

    ``relu`` is "both" where inputs have both signs and "positive" where they are known to be nonnegative.
    """

    name: str
    first: str
    second: str
    scale: float = 1.0
    relu: str | None = None


class _Reader:
    """Reads an architecture, and collects the pairs that it consists of."""

    def __init__(self, shapes: Shapes, kept: Shapes, unknown: set[str] | None) -> None:
        self.shapes, self.kept, self.unknown = shapes, kept, unknown
        self.pairs: list[PairPlace] = []
        self.replaced: frozenset[str] | None = None

    def fields(self, value: Any, field: str, *required: str) -> dict[str, Any]:
        return checks.fields(value, field, required, unknown=self.unknown)

    def matrix(self, name: str) -> tuple[int, ...]:
        if name not in self.shapes:
            raise TicketError(f"masks.{name}", "is missing, but the architecture needs it")
        if len(self.shapes[name]) != 2:
            raise TicketError(f"masks.{name}", f"must be a matrix, its shape is {self.shapes[name]}")
        return self.shapes[name]

    def pair(self, place: PairPlace) -> tuple[int, int]:
        """Check that two matrices follow one another; the sizes of what they take and give."""
        first, second = self.matrix(place.first), self.matrix(place.second)
        if first[0] != second[1]:
            raise TicketError(
                f"masks.{place.second}", f"of shape {second} must have as many columns as {place.first} of {first} rows"
            )
        self.pairs.append(place)
        return first[1], second[0]

    def count(self, value: Any, field: str) -> int:
        return checks.integer(value, field, 1, max(1, len(self.shapes)))

    def attention(self, value: dict[str, Any], field: str, prefix: str) -> None:
        checks.boolean(value["bias"], f"{field}.bias")
        checks.boolean(value["batch_first"], f"{field}.batch_first")
        same: dict[str, tuple[int, ...]] = {}
        for head in range(self.count(value["heads"], f"{field}.heads")):
            at = f"{prefix}heads.{head}."
            n = self.matrix(f"{at}key")[0]
            self.pair(PairPlace(f"{at}qk", f"{at}key", f"{at}query", 1.0 / math.sqrt(n)))
            self.pair(PairPlace(f"{at}vo", f"{at}value", f"{at}output"))
            for part in ("query", "key", "value", "output"):
                shape = self.matrix(f"{at}{part}")
                if same.setdefault(part, shape) != shape:
                    raise TicketError(f"masks.{at}{part}", f"has shape {shape}, other heads have {same[part]}")

    def between(self, place: PairPlace, inputs: int, outputs: int) -> None:
        """A pair whose product must be (outputs × inputs)."""
        found = self.pair(place)
        for size, wanted, name, what in (
            (found[0], inputs, place.first, "columns"),
            (found[1], outputs, place.second, "rows"),
        ):
            if size != wanted:
                raise TicketError(f"masks.{name}", f"must have {wanted} {what}, its shape is {self.shapes[name]}")

    def network(self, nonnegative: Any, field: str, prefix: str) -> tuple[int, int]:
        if not isinstance(nonnegative, list) or not 1 <= len(nonnegative) <= len(self.shapes):
            raise TicketError(field, f"must list true or false for each layer, got {checks.shown(nonnegative)}")
        sizes = []
        for layer, value in enumerate(nonnegative):
            relu = "positive" if checks.boolean(value, f"{field}[{layer}]") else "both"
            at = f"{prefix}layers.{layer}"
            sizes.append(self.pair(PairPlace(at, f"{at}.first", f"{at}.second", relu=relu)))
            if layer and sizes[-2][1] != sizes[-1][0]:
                raise TicketError(f"masks.{at}.first", f"takes {sizes[-1][0]} inputs, but gets {sizes[-2][1]}")
        return sizes[0][0], sizes[-1][1]


def _linear(reader: _Reader, architecture: dict[str, Any]) -> None:
    reader.fields(architecture, "architecture", "kind", "scale")
    scale = checks.real(architecture["scale"], "architecture.scale")
    reader.pair(PairPlace("pair", "first", "second", scale))


def _relu(reader: _Reader, architecture: dict[str, Any]) -> None:
    reader.fields(architecture, "architecture", "kind", "nonnegative")
    positive = checks.boolean(architecture["nonnegative"], "architecture.nonnegative")
    reader.pair(PairPlace("pair", "first", "second", relu="positive" if positive else "both"))


def _network(reader: _Reader, architecture: dict[str, Any]) -> None:
    reader.fields(architecture, "architecture", "kind", "nonnegative")
    reader.network(architecture["nonnegative"], "architecture.nonnegative", "")


def _attention(reader: _Reader, architecture: dict[str, Any]) -> None:
    reader.fields(architecture, "architecture", "kind", "heads", "bias", "batch_first")
    reader.attention(architecture, "architecture", "")


def _transformer(reader: _Reader, architecture: dict[str, Any]) -> None:
    reader.fields(architecture, "architecture", "kind", "blocks")
    blocks = architecture["blocks"]
    if not isinstance(blocks, list) or not 1 <= len(blocks) <= max(1, len(reader.shapes)):
        raise TicketError("architecture.blocks", f"must list the blocks, got {checks.shown(blocks)}")
    sizes: set[int] = set()
    for place, block in enumerate(blocks):
        field = f"architecture.blocks[{place}]"
        reader.fields(block, field, "heads", "bias", "batch_first", "nonnegative")
        at = f"blocks.{place}."
        reader.attention(block, field, f"{at}attention.")
        sizes |= set(reader.network(block["nonnegative"], f"{field}.nonnegative", f"{at}network."))
        head = f"{at}attention.heads.0."
        extra = int(block["bias"])
        sizes |= {reader.matrix(f"{head}query")[0] - extra, reader.matrix(f"{head}value")[1] - extra}
        sizes |= {reader.matrix(f"{head}key")[1], reader.matrix(f"{head}output")[0]}
        if len(sizes) > 1:
            raise TicketError(field, f"a residual block keeps the size of its input, here are {sorted(sizes)}")


def _model(reader: _Reader, architecture: dict[str, Any]) -> None:
    family = check_constructed(architecture, reader.kept, reader.unknown)
    cls, layers = architecture["class"], architecture["layers"]
    blocks, heads = (
        reader.count(value, f"architecture.config.{key}")
        for key, value in zip(family.settings, family.counts(architecture["config"]), strict=True)
    )
    attentions, linears = family.attentions(cls, blocks), family.linears(cls, blocks) if layers == "all" else []
    d = reader.matrix(f"{attentions[0]}.heads.0.key")[1]
    for at in (f"{path}.heads.{head}." for path in attentions for head in range(heads)):
        n = reader.matrix(f"{at}key")[0]
        reader.between(PairPlace(f"{at}qk", f"{at}key", f"{at}query", 1.0 / math.sqrt(n)), d, d + 1)
        reader.between(PairPlace(f"{at}vo", f"{at}value", f"{at}output"), d + 1, d)
    inner = reader.matrix(f"{linears[0]}.second")[0] if linears else 0
    for place, path in enumerate(linears):
        inputs, outputs = (d, inner) if place % 2 == 0 else (inner, d)
        reader.between(PairPlace(path, f"{path}.first", f"{path}.second"), inputs + 1, outputs)
    reader.replaced = frozenset(family.replaced(cls, blocks, layers))


CONSTRUCTED: dict[str, Callable[[_Reader, dict[str, Any]], None]] = {
    "linear": _linear,
    "relu": _relu,
    "network": _network,
    "attention": _attention,
    "transformer": _transformer,
    "model": _model,
}


def check(architecture: Any, masked: Shapes, kept: Shapes, unknown: set[str] | None = None) -> tuple[PairPlace, ...]:
    """The pairs of a constructed architecture, none for a masked Hugging Face model; refused unless parameters fit.

    Which parameters a Hugging Face model keeps is left to its class, when it is built.
    """
    kind = checks.mapping(architecture, "architecture").get("kind")
    if kind == "huggingface":
        check_architecture(architecture, {**masked, **kept}, unknown)
        return ()
    if not isinstance(kind, str) or kind not in CONSTRUCTED:
        known = ", ".join((*CONSTRUCTED, "huggingface"))
        raise TicketError("architecture.kind", f"must be one of {known}, got {checks.shown(kind)}")
    reader = _Reader(masked, kept, unknown)
    CONSTRUCTED[kind](reader, architecture)
    needed = {name for pair in reader.pairs for name in (pair.first, pair.second)}
    for name in masked:
        if name not in needed:
            raise TicketError(f"masks.{name}", f"is no parameter of the architecture {kind!r}")
    targets = {f"{TARGET}{pair.name}": pair for pair in reader.pairs}
    for name, shape in kept.items():
        if reader.replaced is not None and not name.startswith(TARGET):
            if starts(name, reader.replaced):
                raise TicketError(f"kept.{name}", "is replaced by the pairs of the architecture")
            continue
        if name not in targets:
            raise TicketError(f"kept.{name}", f"is no parameter of the architecture {kind!r}")
        wanted = (masked[targets[name].second][0], masked[targets[name].first][1])
        if shape != wanted:
            raise TicketError(f"kept.{name}", f"must have the shape {wanted} of the pair's product, got {shape}")
    return tuple(reader.pairs)
