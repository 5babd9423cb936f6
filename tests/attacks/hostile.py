"""A small valid ticket, and the means to change any byte or field of it."""

from __future__ import annotations

import json
import time
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from strongticket import Normal, Signed, Source, Uniform
from strongticket.ticket import Ticket, TicketError, format, saving

if TYPE_CHECKING:
    from pathlib import Path

CONFIG, TENSORS = "config.json", "ticket.safetensors"


def valid_ticket(rows: int = 90) -> Ticket:
    """Three encodings when compressed, two kept parameters, 22 thousand weights."""
    rng = np.random.default_rng(0)
    index = np.zeros((rows, 200), bool)
    index[np.arange(rows), rng.integers(0, 200, rows)] = True
    sources = {
        "layers.0.first": (Source(1, "a", (rows, 200), Uniform(0.5)), index),
        "layers.0.second": (Source(1, "b", (10, rows), Normal(0.5)), rng.random((10, rows)) < 0.5),
        "layers.1.first": (Source(2, "c", (rows, 10), Signed(0.5)), rng.random((rows, 10)) < 0.1),
        "layers.1.second": (Source(2, "d", (30, rows), Normal(0.5)), rng.random((30, rows)) < 0.5),
    }
    kept = {"target/layers.0": rng.random((10, 200)), "target/layers.1": np.zeros((30, 10))}
    return Ticket(sources, kept, {"kind": "network", "nonnegative": [False, True]}, {"name": "test"})


class Parts:
    """The configuration and tensors of a ticket, to be changed and written without any check."""

    def __init__(self, ticket: Ticket | None = None, *, compress: bool = True) -> None:
        config, tensors = saving.contents(ticket or valid_ticket(), compress=compress)
        self.config = json.loads(json.dumps(config))
        self.tensors = {name: (_dtype(array), list(array.shape), array.tobytes()) for name, array in tensors.items()}
        self.metadata: object = {"format": "strongticket"}
        self.deflated: bytes | None = None
        self.config_text: str | None = None

    def mask(self, name: str = "layers.0.first") -> dict:
        return self.config["masks"][name]

    def source(self, name: str = "layers.0.first") -> dict:
        return self.mask(name)["source"]

    def seal(self) -> dict:
        if not isinstance(self.config, dict):
            return self.config
        return format.sealed({key: value for key, value in self.config.items() if key != "config_digest"})

    def header(self, text: str) -> dict:
        deflated = zlib.compress(text.encode("utf-8")) if self.deflated is None else self.deflated
        header, end = {"__metadata__": self.metadata}, 0
        self.data = b""
        for name, (dtype, shape, content) in {**self.tensors, "config": ("U8", [len(deflated)], deflated)}.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(content)]}
            end += len(content)
            self.data += content
        return header

    def write(self, folder: Path, *, change_header=None, seal: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self.config_text is None:
            self.config_text = json.dumps(self.seal() if seal else self.config)
        header = self.header(self.config_text)
        if change_header is not None:
            header = change_header(header)
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        (folder / TENSORS).write_bytes(len(text).to_bytes(8, "little") + text + self.data)
        (folder / CONFIG).write_text(self.config_text)


def _dtype(array: np.ndarray) -> str:
    return {"u1": "U8", "u2": "U16", "u4": "U32", "f4": "F32", "f8": "F64"}[array.dtype.str[1:]]


def refused(folder, field: str, *, limit: int = 8 << 20, **options) -> TicketError:
    """Load, expecting a refusal that starts with ``field``, soon and without large allocations."""
    start = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(TicketError) as caught:
            Ticket.from_pretrained(folder, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(field), str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700
    assert peak < limit, peak
    assert time.perf_counter() - start < 10
    return caught.value
