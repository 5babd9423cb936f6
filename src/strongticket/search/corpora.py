"""Text to search on: what Python carries, files, or WikiText from the hub."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strongticket.search.extra import need

if TYPE_CHECKING:
    from collections.abc import Iterator

HUB = {"wikitext-2": "wikitext-2-raw-v1", "wikitext-103": "wikitext-103-raw-v1"}
KNOWN = ("embedded", "file:PATH[,PATH...]", *HUB)
HELD_OUT = 0.1
"""The share of a corpus without a held-out split of its own that is held out: its end."""

_REPOSITORY = "Salesforce/wikitext"
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Corpus:
    """Training and held-out text that do not overlap."""

    name: str
    train: str
    held_out: str

    def digest(self) -> str:
        """The SHA-256 of both texts; ``embedded`` differs between versions of Python.

        >>> Corpus("x", "a", "b").digest()[:8]
        '59b271ae'
        """
        return hashlib.sha256(self.train.encode() + b"\0" + self.held_out.encode()).hexdigest()


def check_corpus(corpus: str, held_out: str | None = None) -> None:
    """Refuse an unknown corpus or a missing file, without reading anything."""
    if corpus.startswith("file:"):
        _paths(corpus)
    elif corpus not in ("embedded", *HUB):
        raise ValueError(f"unknown corpus {corpus!r}; known: {', '.join(KNOWN)}")
    if held_out is not None:
        if not held_out.startswith("file:"):
            raise ValueError(f"the held-out text must be file:PATH, got {held_out!r}")
        both = set(_paths(held_out)) & set(_paths(corpus) if corpus.startswith("file:") else [])
        if both:
            raise ValueError(f"{both.pop()} is given both to learn from and as held-out text")


def load_corpus(corpus: str, held_out: str | None = None) -> Corpus:
    """The corpus of that name, its last tenth held out unless it has, or is given, a held-out text.

    >>> load_corpus("embedded").name
    'embedded'
    """
    check_corpus(corpus, held_out)
    if corpus == "embedded":
        found = _embedded()
    elif corpus.startswith("file:"):
        text = _read(corpus)
        found = Corpus(corpus, text, "") if held_out else _split(corpus, text.splitlines(keepends=True))
    else:
        found = _from_hub(corpus)
    return Corpus(corpus, found.train, _read(held_out)) if held_out else found


def _embedded() -> Corpus:
    """The language reference in ``pydoc_data.topics``; topics repeat each other, so paragraphs are taken once."""
    from pydoc_data.topics import topics

    paragraphs = [part.strip("\n") for topic in sorted(topics) for part in topics[topic].split("\n\n")]
    return _split("embedded", [f"{paragraph}\n\n" for paragraph in dict.fromkeys(paragraphs) if paragraph])


def _split(name: str, pieces: list[str]) -> Corpus:
    """Hold out the last pieces that make up ``HELD_OUT`` of the text."""
    total, seen, cut = sum(map(len, pieces)), 0, 0
    while cut < len(pieces) - 1 and seen < (1.0 - HELD_OUT) * total:
        seen += len(pieces[cut])
        cut += 1
    return Corpus(name, "".join(pieces[:cut]), "".join(pieces[cut:]))


def _paths(corpus: str) -> list[Path]:
    paths = [Path(part).expanduser() for part in corpus.removeprefix("file:").split(",")]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"no such file: {path}; give text files as file:PATH or file:PATH,PATH")
    return [path.resolve() for path in paths]


def _read(corpus: str) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in _paths(corpus))


def _from_hub(corpus: str) -> Corpus:
    hub, datasets = need("huggingface_hub"), need("datasets")
    try:
        hub.HfApi().dataset_info(_REPOSITORY, timeout=_SECONDS)
        reached = True
    except Exception:  # no network, a proxy in the way or HF_HUB_OFFLINE: what is cached may still do
        reached = False
    try:
        with contextlib.nullcontext() if reached else _offline(hub.constants, datasets.config):
            splits = datasets.load_dataset(_REPOSITORY, HUB[corpus])
    except Exception as error:
        if reached:
            raise
        raise ConnectionError(
            f"{corpus} is on the Hugging Face hub ({_REPOSITORY}), which cannot be reached, and it is not in the local "
            f"cache; use --corpus embedded, or --corpus file:PATH with a copy of the text"
        ) from error
    return Corpus(corpus, "".join(splits["train"]["text"]), "".join(splits["validation"]["text"]))


@contextlib.contextmanager
def _offline(*modules: Any) -> Iterator[None]:
    """Let both libraries look in their caches only, without trying the network again and again."""
    before = [module.HF_HUB_OFFLINE for module in modules]
    for module in modules:
        module.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value
