"""From the two files to checked masks and parameters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.ticket import checks, files, format, packing
from strongticket.ticket.content import content_digest
from strongticket.ticket.entry import Entry
from strongticket.ticket.errors import TicketError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from strongticket.source import Source
    from strongticket.ticket.files import TensorFile
    from strongticket.ticket.format import Spec

MAX_BYTES = 8 << 30
"""The largest model that is loaded unless the caller allows more: 8 GiB, about 2 billion float32 weights."""

_TRIES = 10


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the files hold, checked; ``nbytes`` is their length."""

    spec: Spec
    entries: dict[str, Entry]
    kept: dict[str, NDArray[Any]]
    nbytes: int


def load(config: Path, tensor_file: Path, *, verify: bool, max_bytes: int) -> Loaded:
    """Read a ticket; every field is checked before anything of its size is allocated."""
    for _ in range(_TRIES):
        try:
            with files.open_tensors(tensor_file) as tensors:
                found = _read_both(config, tensor_file, tensors, max_bytes)
        except FileNotFoundError:
            raise TicketError(files.TENSORS, f"is missing in {tensor_file.parent}") from None
        if found is None:
            continue
        if verify:
            check_sources(found.spec)
        return found
    raise TicketError(files.TENSORS, "is being written again and again by another process")


def _read_both(config: Path, tensor_file: Path, tensors: TensorFile, max_bytes: int) -> Loaded | None:
    """What an open ticket holds; None if another process replaced it between reading one file and the other."""
    copy, length = files.read_config(config)
    if copy is not None and _canonical(copy) != _canonical(tensors.config):
        if _was_replaced(tensor_file, tensors):
            return None
        raise TicketError(files.CONFIG, f"says something else than {files.TENSORS}; one of them was changed or damaged")
    spec = format.read(tensors.config)
    if spec.nbytes > max_bytes:
        raise TicketError("masks", f"the ticket takes {spec.nbytes} bytes in memory, more than max_bytes={max_bytes}")
    _check_tensors(spec, tensors)
    entries, kept = _read(spec, tensors)
    digest = content_digest(entries, kept)
    if digest != spec.digest:
        raise TicketError("digest", f"masks and kept parameters have {digest}, the ticket says {spec.digest}")
    return Loaded(spec, entries, kept, tensors.nbytes + length)


def check_sources(spec: Spec) -> None:
    """Draw every source and refuse one that gives other weights than when the ticket was made."""
    digests = source_digests(mask.source for mask in spec.masks.values())
    for (name, mask), found in zip(spec.masks.items(), digests, strict=True):
        if found != mask.digest:
            raise TicketError(
                f"masks.{name}.source.digest", f"the weights drawn here have {found}, the ticket says {mask.digest}"
            )


def source_digests(sources: Iterable[Source]) -> list[str]:
    """The digests of the weights of several sources, drawn with every core and kept nowhere."""
    from concurrent.futures import ThreadPoolExecutor

    from strongticket.parallel import resolve_threads

    with ThreadPoolExecutor(resolve_threads(None)) as pool:
        return list(pool.map(lambda source: source.digest(), sources))


def _canonical(config: dict[str, Any]) -> bytes:
    return checks.canonical_json(config, files.CONFIG)


def _was_replaced(path: Path, tensors: TensorFile) -> bool:
    mine = os.fstat(tensors.file.fileno())
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return (mine.st_ino, mine.st_dev) != (now.st_ino, now.st_dev)


def _check_tensors(spec: Spec, tensors: TensorFile) -> None:
    wanted = {f"masks/{name}" for name in spec.masks} | {f"kept/{name}" for name in spec.kept}
    for name in wanted:
        if name not in tensors.tensors:
            raise TicketError(f"{files.TENSORS} {name}", "is missing")
    if not spec.newer:
        for name in tensors.tensors:
            if name not in wanted:
                raise TicketError(f"{files.TENSORS} {name}", "is not mentioned in the configuration")
    for name, mask in spec.masks.items():
        place = tensors.tensors[f"masks/{name}"]
        field = f"{files.TENSORS} masks/{name}"
        if len(place.shape) != 1:
            raise TicketError(f"{field}.shape", f"must have one dimension, got {place.shape}")
        packing.check(mask.encoding, mask.source.shape, mask.count, place.dtype, place.shape[0], field)
    for name, kept in spec.kept.items():
        place = tensors.tensors[f"kept/{name}"]
        shape = (1,) if kept.constant else kept.shape
        if (place.dtype, place.shape) != (kept.dtype, shape):
            raise TicketError(
                f"{files.TENSORS} kept/{name}", f"must be {kept.dtype} {shape}, got {place.dtype} {place.shape}"
            )


def _read(spec: Spec, tensors: TensorFile) -> tuple[dict[str, Entry], dict[str, NDArray[Any]]]:
    entries = {}
    for name, mask in spec.masks.items():
        data = tensors.read(f"masks/{name}")
        bits = packing.decode(mask.encoding, data, mask.source.shape, mask.count, f"masks.{name}")
        bits.flags.writeable = False
        entries[name] = Entry(mask.source, bits, mask.part)
    kept: dict[str, NDArray[Any]] = {}
    for name, about in spec.kept.items():
        array = tensors.read(f"kept/{name}")
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise TicketError(f"kept.{name}", "holds truth values other than 0 and 1")
        if about.constant:
            array = np.full(about.shape, array[0])
        array.flags.writeable = False
        kept[name] = array
    return entries, kept
