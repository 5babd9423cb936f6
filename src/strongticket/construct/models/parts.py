"""Finished pairs in a folder, so that a construction that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.construct.models.job import FoundPair
from strongticket.source import Source
from strongticket.ticket import Entry

if TYPE_CHECKING:
    from pathlib import Path

    from strongticket.construct.models.job import Job


class Parts:
    """One file per pair, named by what its masks depend on: other settings or weights never meet an old one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, job: Job) -> FoundPair | None:
        """What was found for this very job before; None if it is missing or damaged."""
        try:
            with open(self._path(job.key), "rb") as file, np.load(file, allow_pickle=False) as stored:
                about = json.loads(bytes(stored["about"]))
                bits = stored["first"], stored["second"]
        except (FileNotFoundError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        if about.pop("digest") != _digest(bits):
            return None
        sources = [Source.from_dict(source) for source in about.pop("sources")]
        first, second = (Entry(source, packed) for source, packed in zip(sources, bits, strict=True))
        return FoundPair(job.name, job.entries, (first, second), tuple(about.pop("digests")), **about)

    def save(self, job: Job, found: FoundPair) -> None:
        """Write to a temporary file and rename it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        bits = tuple(entry.bits for entry in found.entries)
        about: dict[str, Any] = found.numbers() | {
            "sources": [entry.source.to_dict() for entry in found.entries],
            "digests": found.digests,
            "digest": _digest(bits),
        }
        path = self._path(job.key)
        new = path.with_suffix(f".{os.getpid()}.tmp")
        with open(new, "wb") as file:
            np.savez(file, first=bits[0], second=bits[1], about=np.frombuffer(json.dumps(about).encode(), np.uint8))
        os.replace(new, path)

    def remove(self) -> None:
        """Remove the folder and what this class has written to it."""
        if self.folder.is_dir():
            for pattern in ("*.npz", "*.tmp"):
                for path in self.folder.glob(pattern):
                    path.unlink()
            self.folder.rmdir()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key[:32]}.npz"


def _digest(bits: tuple[Any, ...]) -> str:
    total = hashlib.sha256()
    for part in bits:
        total.update(part.data)
    return total.hexdigest()
