"""``config.json``: what it holds, how it is made and how it is checked."""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.source import Source, law_from_dict
from strongticket.ticket import checks, packing, structures
from strongticket.ticket.entry import Part
from strongticket.ticket.errors import TicketError, TicketWarning
from strongticket.ticket.huggingface import CLASSIFIERS
from strongticket.ticket.parameters import parameter_shapes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongticket.source import Law
    from strongticket.ticket.entry import Entry
    from strongticket.ticket.structures import PairPlace

MAJOR, MINOR = 1, 1
SINCE = {"model": 1} | dict.fromkeys(CLASSIFIERS, 1)
"""The minor version that an architecture's kind or class came with, where it is not 0."""
GENERATOR = {"name": "philox-4x32-10", "version": 1}
DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    **{f"{kind}{8 * size}": np.dtype(f"<{kind.lower()}{size}") for kind in "IU" for size in (1, 2, 4, 8)},
}
_KEYS = [
    "format",
    "format_version",
    "library_version",
    "finder",
    "architecture",
    "masks",
    "kept",
    "digest",
    "config_digest",
]


@dataclass(frozen=True, slots=True)
class MaskSpec:
    """What ``config.json`` says about one mask."""

    source: Source
    encoding: str
    count: int
    digest: str
    part: Part | None


@dataclass(frozen=True, slots=True)
class KeptSpec:
    """What ``config.json`` says about one kept parameter; a ``constant`` one is stored as a single value."""

    dtype: str
    shape: tuple[int, ...]
    constant: bool

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize


@dataclass(frozen=True, slots=True)
class Spec:
    """A checked ``config.json``."""

    architecture: dict[str, Any]
    finder: dict[str, Any]
    masks: dict[str, MaskSpec]
    kept: dict[str, KeptSpec]
    digest: str
    newer: bool

    @property
    def nbytes(self) -> int:
        """The size in memory: of the model with float32 weights or, for the kind "model", of the packed masks.

        A model of pairs is built one pair after the other, and its own size is checked then.
        """
        sizes = [mask.source.size for mask in self.masks.values()]
        masks = sum(-(-size // 8) for size in sizes) if self.architecture["kind"] == "model" else 4 * sum(sizes)
        return masks + sum(kept.nbytes for kept in self.kept.values())


def mask_dict(entry: Entry, encoding: str, digest: str) -> dict[str, Any]:
    """What is written about one mask."""
    source = entry.source.to_dict() | {"generator": GENERATOR, "digest": digest}
    out = {"source": source, "encoding": encoding, "count": entry.count}
    if entry.part is not None:
        out["part"] = {"parameter": entry.part.parameter, "axis": entry.part.axis, "start": entry.part.start}
    return out


def minor_version(architecture: Mapping[str, Any]) -> int:
    """The first minor version that has this kind of architecture and, of a Hugging Face model, this class.

    >>> minor_version({"kind": "linear"}), minor_version({"kind": "model", "class": "BertModel"})
    (0, 1)
    """
    return max(SINCE.get(architecture.get(key, ""), 0) for key in ("kind", "class"))


def sealed(config: dict[str, Any]) -> dict[str, Any]:
    """``config`` with the digest of all its other keys under ``config_digest``."""
    return config | {"config_digest": _config_digest(config)}


def _config_digest(config: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in config.items() if key != "config_digest"}
    return hashlib.sha256(checks.canonical_json(rest, "config")).hexdigest()


def read(config: dict[str, Any]) -> Spec:
    """Check every field of a parsed ``config.json``; nothing is allocated or drawn."""
    if config.get("format") != "strongticket":
        raise TicketError("format", f"must be 'strongticket', got {checks.shown(config.get('format'))}")
    minor = _minor(config.get("format_version"))
    newer = minor > MINOR
    unknown: set[str] | None = set() if newer else None
    if checks.digest(config.get("config_digest"), "config_digest") != _config_digest(config):
        raise TicketError("config_digest", "does not fit the other fields: config.json was changed or damaged")
    checks.fields(config, "", _KEYS, unknown=unknown)
    checks.text(config["library_version"], "library_version", 64)
    finder = check_finder(config["finder"])
    masks = {
        checks.name(name, "masks"): _mask(value, f"masks.{name}", unknown)
        for name, value in checks.mapping(config["masks"], "masks").items()
    }
    kept = {
        checks.name(name, "kept"): _kept(value, f"kept.{name}", unknown)
        for name, value in checks.mapping(config["kept"], "kept").items()
    }
    check_structure(
        config["architecture"],
        {name: (mask.source.shape, mask.part) for name, mask in masks.items()},
        {name: spec.shape for name, spec in kept.items()},
        unknown,
    )
    for key in ("kind", "class"):
        found = config["architecture"].get(key)
        if minor < SINCE.get(found, 0):
            raise TicketError(f"architecture.{key}", f"version {MAJOR}.{minor} has no {found!r}")
    if unknown:
        warnings.warn(
            f"the ticket has format version {config['format_version']}, newer than {MAJOR}.{MINOR}; "
            f"ignored: {', '.join(sorted(unknown))}",
            TicketWarning,
            stacklevel=2,
        )
    digest = checks.digest(config["digest"], "digest")
    return Spec(config["architecture"], finder, masks, kept, digest, newer)


def check_structure(
    architecture: Any,
    entries: Mapping[str, tuple[tuple[int, ...], Part | None]],
    kept: Mapping[str, tuple[int, ...]],
    unknown: set[str] | None = None,
) -> tuple[PairPlace, ...]:
    """The pairs of the architecture; refused unless the parameters are exactly the ones it needs."""
    masked = parameter_shapes(entries)
    if checks.mapping(architecture, "architecture").get("kind") == "model":
        for name, (_, part) in entries.items():
            if part is not None:
                raise TicketError(f"masks.{name}.part", "the matrices of a 'model' have one source each")
    for name in kept:
        if name in masked:
            raise TicketError(f"kept.{name}", "is masked as well; a parameter is either masked or kept")
    return structures.check(architecture, masked, kept, unknown)


def check_finder(value: Any) -> dict[str, Any]:
    """A finder has a name and, freely, anything else."""
    finder = checks.mapping(value, "finder")
    checks.text(finder.get("name"), "finder.name")
    errors = checks.mapping(finder.get("max_error", {}), "finder.max_error")
    for name, error in errors.items():
        checks.real(error, f"finder.max_error.{checks.name(name, 'finder.max_error')}")
    return finder


def _minor(version: Any) -> int:
    found = re.fullmatch(r"(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})", version) if isinstance(version, str) else None
    if found is None:
        raise TicketError("format_version", f"must be two numbers like '1.0', got {checks.shown(version)}")
    major, minor = map(int, found.groups())
    if major != MAJOR:
        raise TicketError(
            "format_version", f"this version reads {MAJOR}.x, got {version}; install a version that reads {major}.x"
        )
    return minor


def _mask(value: Any, field: str, unknown: set[str] | None) -> MaskSpec:
    found = checks.fields(value, field, ("source", "encoding", "count"), ("part",), unknown=unknown)
    source, digest = _source(found["source"], f"{field}.source", unknown)
    encoding = found["encoding"]
    if not isinstance(encoding, str) or encoding not in packing.ENCODINGS:
        known = ", ".join(packing.ENCODINGS)
        raise TicketError(f"{field}.encoding", f"must be one of {known}, got {checks.shown(encoding)}")
    count = checks.integer(found["count"], f"{field}.count", 0, source.size)
    part = None
    if "part" in found:
        keys = ("parameter", "axis", "start")
        place = checks.fields(found["part"], f"{field}.part", keys, unknown=unknown)
        part = Part(
            checks.name(place["parameter"], f"{field}.part.parameter"),
            checks.integer(place["axis"], f"{field}.part.axis", 0, len(source.shape) - 1),
            checks.integer(place["start"], f"{field}.part.start", 0, 2**62),
        )
    return MaskSpec(source, encoding, count, digest, part)


def _source(value: Any, field: str, unknown: set[str] | None) -> tuple[Source, str]:
    found = checks.fields(value, field, ("seed", "name", "shape", "law", "generator", "digest"), unknown=unknown)
    generator = checks.fields(found["generator"], f"{field}.generator", ("name", "version"), unknown=unknown)
    if {key: generator[key] for key in GENERATOR} != GENERATOR or isinstance(generator["version"], bool):
        raise TicketError(f"{field}.generator", f"must be {GENERATOR}, got {checks.shown(generator)}")
    shape = checks.shape(found["shape"], f"{field}.shape", least=1)
    if not shape:
        raise TicketError(f"{field}.shape", "must hold one or more sizes")
    seed = checks.integer(found["seed"], f"{field}.seed", 0, 2**64 - 1)
    name = checks.text(found["name"], f"{field}.name", 1024)
    try:
        source = Source(seed, name, shape, _law(found["law"], f"{field}.law", unknown))
    except TicketError:
        raise
    except ValueError as error:
        raise TicketError(field, checks.shown(str(error), 300)) from None
    return source, checks.digest(found["digest"], f"{field}.digest")


def _law(value: Any, field: str, unknown: set[str] | None) -> Law:
    values = checks.mapping(value, field)
    checks.text(values.get("law"), f"{field}.law")
    for key, number in values.items():
        if key != "law":
            checks.real(number, f"{field}.{checks.shown(key)}")
    try:
        law = law_from_dict(values)
    except ValueError as error:
        raise TicketError(field, checks.shown(str(error), 300)) from None
    checks.fields(values, field, tuple(law.to_dict()), unknown=unknown)
    if law.to_dict() != values:
        raise TicketError(field, f"must hold a float32 number, got {checks.shown(values)}")
    return law


def _kept(value: Any, field: str, unknown: set[str] | None) -> KeptSpec:
    found = checks.fields(value, field, ("dtype", "shape"), ("constant",), unknown=unknown)
    dtype = found["dtype"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise TicketError(f"{field}.dtype", f"must be one of {', '.join(DTYPES)}, got {checks.shown(dtype)}")
    shape = checks.shape(found["shape"], f"{field}.shape")
    return KeptSpec(dtype, shape, checks.boolean(found.get("constant", False), f"{field}.constant"))
