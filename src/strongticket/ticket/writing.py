"""Saving that a kill cannot leave half done."""

from __future__ import annotations

import json
import os
import stat
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.ticket import checks
from strongticket.ticket.files import CONFIG, COPY, METADATA, TENSORS
from strongticket.ticket.format import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray


def save(folder: Path, config: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
    """Write both files so that a kill at any moment leaves the old ticket or the new one.

    The configuration is also in a tensor of ``ticket.safetensors``, so the rename of that file alone is the
    moment of change. ``config.json`` is removed before it and written anew after it: the two never disagree.
    """
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder) as sync:
        new = folder / f".{TENSORS}.tmp"
        new.unlink(missing_ok=True)
        for stale in folder.glob(".tmp??????"):  # safetensors' own partial file, left by a killed save
            stale.unlink(missing_ok=True)
        new.touch()
        mode = stat.S_IMODE(new.stat().st_mode)
        save_file(tensors | {COPY: _deflated(config)}, new, metadata=METADATA)
        new.chmod(mode)
        _flush(new)
        (folder / CONFIG).unlink(missing_ok=True)
        sync()
        os.replace(new, folder / TENSORS)
        sync()
        copy = folder / f".{CONFIG}.tmp"
        copy.unlink(missing_ok=True)
        copy.write_text(_pretty(config), encoding="ascii")
        _flush(copy)
        os.replace(copy, folder / CONFIG)
        sync()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _lock(folder: Path) -> Iterator[Any]:
    """One writer at a time; yields the function that makes renames and removals in ``folder`` lasting."""
    try:
        import fcntl
    except ImportError:
        yield lambda: None
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield lambda: os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size(config: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> int:
    """How many bytes ``save`` would write."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": METADATA}
    end = 0
    everything = tensors | {COPY: _deflated(config)}
    for name, array in sorted(everything.items(), key=lambda item: (-item[1].itemsize, item[0])):
        offsets = [end, end + array.nbytes]
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        end += array.nbytes
    length = len(json.dumps(header, separators=(",", ":")))
    return 8 + -(-length // 8) * 8 + end + len(_pretty(config))


def _deflated(config: dict[str, Any]) -> NDArray[np.uint8]:
    return np.frombuffer(zlib.compress(checks.canonical_json(config, CONFIG), 9), np.uint8)


def _pretty(config: dict[str, Any]) -> str:
    """JSON with a line for each key, and for each mask and kept parameter."""
    lines = []
    for key, value in sorted(config.items()):
        text = json.dumps(value, sort_keys=True)
        if key in ("masks", "kept") and value:
            inner = [f"    {json.dumps(name)}: {json.dumps(value[name], sort_keys=True)}" for name in sorted(value)]
            text = "{\n" + ",\n".join(inner) + "\n  }"
        lines.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
