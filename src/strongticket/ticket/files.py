"""The two files of a ticket: where they are, and guarded reading."""

from __future__ import annotations

import os
import stat
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.ticket import checks
from strongticket.ticket.errors import TicketError
from strongticket.ticket.format import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    from numpy.typing import NDArray

CONFIG, TENSORS = "config.json", "ticket.safetensors"
COPY = "config"
"""The tensor that holds the same JSON as ``config.json``, compact and deflated."""
METADATA = {"format": "strongticket"}
MAX_JSON = 16 << 20
MAX_HEADER = 48 << 20


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor's bytes lie in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class TensorFile:
    """An open ``ticket.safetensors`` whose header has been checked."""

    file: BufferedReader
    config: dict[str, Any]
    tensors: dict[str, TensorPlace]
    nbytes: int

    def read(self, name: str) -> NDArray[Any]:
        """The values of one tensor."""
        place = self.tensors[name]
        data = np.empty(place.nbytes, np.uint8)
        self.file.seek(place.start)
        if self.file.readinto(data.data) != place.nbytes:
            raise TicketError(TENSORS, f"ended within {name}: another process may be writing to it")
        return data.view(DTYPES[place.dtype]).reshape(place.shape)


@contextmanager
def open_regular(path: Path, field: str) -> Iterator[BufferedReader]:
    """Open a regular file for reading; symbolic links, pipes and devices are refused."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if path.is_symlink():
        raise TicketError(field, "is a symbolic link; copy the file that it points to")
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TicketError(field, f"cannot be opened: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TicketError(field, "is not a regular file")
    with open(descriptor, "rb") as file:
        yield file


def read_config(path: Path) -> tuple[dict[str, Any] | None, int]:
    """The object in ``config.json`` and the file's length; None and 0 if there is no such file."""
    try:
        with open_regular(path, CONFIG) as file:
            content = file.read(min(os.fstat(file.fileno()).st_size, MAX_JSON + 1))
    except FileNotFoundError:
        return None, 0
    return checks.parse_json(content, CONFIG, MAX_JSON), len(content)


@contextmanager
def open_tensors(path: Path) -> Iterator[TensorFile]:
    """Open ``ticket.safetensors`` and check its header against the length of the file."""
    with open_regular(path, TENSORS) as file:
        total = os.fstat(file.fileno()).st_size
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(MAX_HEADER, total - 8):
            raise TicketError(
                TENSORS, f"of {total} bytes cannot have a header of {length}; the file is cut off or none"
            )
        header = checks.parse_json(file.read(length), TENSORS, MAX_HEADER)
        metadata = checks.mapping(header.pop("__metadata__", {}), f"{TENSORS} __metadata__")
        if metadata.get("format") != METADATA["format"]:
            raise TicketError(f"{TENSORS} __metadata__.format", "must be 'strongticket'; this is no ticket")
        places = {checks.name(name, TENSORS): _place(name, value) for name, value in header.items()}
        end = 0
        for name, place in sorted(places.items(), key=lambda item: (item[1].start, item[1].nbytes)):
            if place.start != end:
                raise TicketError(f"{TENSORS} {name}", f"must start at byte {end} of the data, got {place.start}")
            end += place.nbytes
        if end != total - 8 - length:
            raise TicketError(TENSORS, f"must have {end} bytes of data, got {total - 8 - length}")
        moved = {
            name: TensorPlace(place.dtype, place.shape, place.start + 8 + length, place.nbytes)
            for name, place in places.items()
        }
        yield TensorFile(file, _inflate(file, moved.pop(COPY, None)), moved, total)


def _inflate(file: BufferedReader, place: TensorPlace | None) -> dict[str, Any]:
    field = f"{TENSORS} {COPY}"
    if place is None or place.dtype != "U8" or len(place.shape) != 1 or place.nbytes > MAX_JSON:
        raise TicketError(field, f"must be a list of up to {MAX_JSON} bytes")
    file.seek(place.start)
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(file.read(place.nbytes), MAX_JSON + 1)
    except zlib.error as error:
        raise TicketError(field, f"is no zlib stream: {error}") from None
    if len(content) <= MAX_JSON and (not stream.eof or stream.unused_data):
        raise TicketError(field, "is a zlib stream that is cut off or followed by something else")
    return checks.parse_json(content, field, MAX_JSON)


def _place(name: str, value: Any) -> TensorPlace:
    field = f"{TENSORS} {name}"
    found = checks.fields(value, field, ("dtype", "shape", "data_offsets"))
    dtype, offsets = found["dtype"], found["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise TicketError(f"{field}.dtype", f"must be one of {', '.join(DTYPES)}, got {checks.shown(dtype)}")
    shape = checks.shape(found["shape"], f"{field}.shape")
    if not isinstance(offsets, list) or len(offsets) != 2:
        raise TicketError(f"{field}.data_offsets", f"must be two numbers, got {checks.shown(offsets)}")
    start, stop = (checks.integer(offset, f"{field}.data_offsets", 0, 2**62) for offset in offsets)
    nbytes = DTYPES[dtype].itemsize
    for size in shape:
        nbytes *= size
    if stop - start != nbytes:
        raise TicketError(f"{field}.data_offsets", f"must be {nbytes} bytes apart, got {checks.shown(offsets)}")
    return TensorPlace(dtype, shape, start, nbytes)


def locate(place: str, options: dict[str, Any]) -> tuple[Path, Path]:
    """``config.json`` and ``ticket.safetensors`` in a folder, or of a repository on the hub, downloaded to its cache.

    The hub's cache consists of symbolic links, which are followed; those in a folder are refused when it is read.
    """
    folder = Path(place)
    if folder.is_dir():
        return folder / CONFIG, folder / TENSORS
    if os.path.lexists(place) or place.startswith((".", "~", os.sep)) or place.count("/") > 1:
        raise TicketError(place, "is no folder")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HFValidationError

    try:
        config, tensors = (Path(hf_hub_download(place, name, **options)).resolve() for name in (CONFIG, TENSORS))
    except HFValidationError as error:
        raise TicketError(place, f"is neither a folder nor a repository on the hub: {error}") from None
    return config, tensors
