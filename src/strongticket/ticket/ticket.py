"""A model as a seed and one bit per weight."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from huggingface_hub import ModelHubMixin

from strongticket.ticket import checks, files, format, writing
from strongticket.ticket.content import content_digest, dtype_name
from strongticket.ticket.entry import Entry
from strongticket.ticket.errors import TicketError
from strongticket.ticket.huggingface import array_of, describe
from strongticket.ticket.loading import MAX_BYTES, load, source_digests
from strongticket.ticket.parameters import masked_parameters
from strongticket.ticket.saving import contents
from strongticket.ticket.structures import TARGET
from strongticket.ticket.verification import MaskCheck, Verification, check_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from numpy.typing import ArrayLike, NDArray

    from strongticket.source import Source
    from strongticket.ticket.loading import Loaded

    Masked = Entry | tuple[Source, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of a ticket's two files, and of the same model with dense weights of 4 and of 2 bytes."""

    ticket: int
    float32: int
    float16: int
    bits_per_weight: float


class Ticket(ModelHubMixin):
    """Masked random weights and the few parameters kept as they are: parameter = where(mask, source.weights(), 0).

    Args:
        entries: for every mask a name, and ``(source, mask)`` or an ``Entry``.
        kept: parameters kept as they are; names under ``target/`` are what the ticket was constructed for.
        architecture: ``{"kind": ...}`` and what else is needed to rebuild the module, see the documentation.
        finder: ``{"name": ...}`` and its settings, as plain JSON values.
        source_digests: SHA-256 of the weights of some or all sources, where whoever drew them took it already; these
            are trusted when the ticket is saved, and ``verify`` draws the weights again.

    >>> import torch
    >>> from strongticket import Source, Uniform
    >>> sources = Source(1, "a", (8, 2), Uniform(1.0)), Source(1, "b", (2, 8), Uniform(1.0))
    >>> masks = np.eye(8, 2) != 0, np.ones((2, 8))
    >>> ticket = Ticket(
    ...     dict(zip(("first", "second"), zip(sources, masks))), architecture={"kind": "relu", "nonnegative": False}
    ... )
    >>> ticket.density()["all"]
    0.5625
    >>> ticket.module()(torch.ones(2)).shape
    torch.Size([2])
    """

    _hub_mixin_config = {}  # noqa: RUF012

    def __init__(
        self,
        entries: Mapping[str, Masked],
        kept: Mapping[str, ArrayLike] | None = None,
        architecture: Mapping[str, Any] | None = None,
        finder: Mapping[str, Any] | None = None,
        *,
        source_digests: Mapping[str, str] | None = None,
    ) -> None:
        self.entries = {checks.name(name, "masks"): _entry(name, value) for name, value in entries.items()}
        self.kept = {checks.name(name, "kept"): _array(name, value) for name, value in (kept or {}).items()}
        self.architecture = _plain(architecture or {}, "architecture")
        self.finder = format.check_finder(_plain(finder or {"name": "unknown"}, "finder"))
        shapes = {name: (entry.source.shape, entry.part) for name, entry in self.entries.items()}
        self.pairs = format.check_structure(
            self.architecture, shapes, {name: array.shape for name, array in self.kept.items()}
        )
        self._loaded: Loaded | None = None
        self._max_bytes = MAX_BYTES
        self._digest: str | None = None
        self._source_digests = {
            name: checks.digest(digest, f"source_digests.{name}") for name, digest in (source_digests or {}).items()
        }
        for name in self._source_digests:
            if name not in self.entries:
                raise TicketError(f"source_digests.{name}", "belongs to no entry")

    @property
    def digest(self) -> str:
        """SHA-256 over all masks and kept parameters, independent of how a file encodes them."""
        if self._digest is None:
            self._digest = content_digest(self.entries, self.kept)
        return self._digest

    def source_digests(self) -> dict[str, str]:
        """The SHA-256 of the weights of each entry's source, drawn once."""
        missing = [name for name in self.entries if name not in self._source_digests]
        found = source_digests(self.entries[name].source for name in missing)
        self._source_digests.update(zip(missing, found, strict=True))
        return self._source_digests

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Every parameter of the model as an array: the masked weights, drawn anew, and the kept ones."""
        kept = {name: array for name, array in self.kept.items() if not name.startswith(TARGET)}
        return {**masked_parameters(self.entries), **kept}

    def module(self, mode: str = "pruned", *, max_bytes: int | None = None) -> torch.nn.Module:
        """The model as a torch module, in evaluation mode.

        Args:
            mode: "pruned" runs the kept random weights, "merged" the product of each pair of random matrices,
                computed in float64 and rounded to float32; the kinds ``linear``, ``attention`` and ``model`` have it.
            max_bytes: refuse models of pairs that take more in memory; by default the limit given when loading.
        """
        from strongticket.ticket.architectures import build

        return build(self, mode, self._max_bytes if max_bytes is None else max_bytes).eval()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The state of the module; tied parameters share their memory."""
        if self.architecture["kind"] != "huggingface":
            return dict(self.module().state_dict())
        from strongticket.ticket.architectures import tensor

        state = {name: tensor(array) for name, array in self.parameters().items()}
        return state | {alias: state[name] for alias, name in self.architecture["tied"].items()}

    def density(self) -> dict[str, float]:
        """The fraction of weights kept, for every mask and, under ``"all"``, in total."""
        counts = {name: entry.count for name, entry in self.entries.items()}
        total = sum(entry.source.size for entry in self.entries.values())
        parts = {name: counts[name] / entry.source.size for name, entry in self.entries.items()}
        return parts | {"all": sum(counts.values()) / max(total, 1)}

    def size(self, *, compress: bool = False) -> Size:
        """Bytes of the files, as loaded or as ``save_pretrained`` would write them, against dense weights."""
        weights = sum(entry.source.size for entry in self.entries.values())
        kept = sum(array.size for name, array in self.kept.items() if not name.startswith(TARGET))
        if self._loaded is not None and not compress:
            nbytes = self._loaded.nbytes
        else:
            nbytes = writing.size(*contents(self, compress=compress))
        total = weights + kept
        return Size(nbytes, 4 * total, 2 * total, 8 * nbytes / max(weights, 1))

    def verify(self) -> Verification:
        """Draw every source and compare its digest, count every mask and, for constructed tickets, redo the errors."""
        spec = None if self._loaded is None else self._loaded.spec
        found = dict(zip(self.entries, source_digests(e.source for e in self.entries.values()), strict=True))
        masks = tuple(
            MaskCheck(
                name,
                found[name] if spec is None else spec.masks[name].digest,
                found[name],
                entry.count if spec is None else spec.masks[name].count,
                entry.count,
            )
            for name, entry in self.entries.items()
        )
        return Verification(masks, *check_pairs(self))

    @classmethod
    def from_model(
        cls, model: torch.nn.Module, entries: Mapping[str, Masked], *, finder: Mapping[str, Any], check: bool = True
    ) -> Ticket:
        """The ticket of a transformers model: ``entries`` by parameter name, every other parameter kept as it is.

        With ``check``, masked parameters must equal where(mask, source.weights(), 0) in the model, bit for bit.
        """
        architecture = describe(model)
        state = {name: value for name, value in model.state_dict().items() if name not in architecture["tied"]}
        made = {name: _entry(name, value) for name, value in entries.items()}
        covered = {entry.part.parameter if entry.part else name for name, entry in made.items()}
        for name in covered:
            if name not in state:
                tied = architecture["tied"].get(name)
                hint = f"is tied: name it {tied}" if tied else f"is no parameter of {type(model).__name__}"
                raise TicketError(f"masks.{name}", hint)
        kept = {name: array_of(name, value) for name, value in state.items() if name not in covered}
        ticket = cls(made, kept, architecture=architecture, finder=finder)
        if check:
            for name, weights in masked_parameters(ticket.entries).items():
                if not np.array_equal(array_of(name, state[name]), weights):
                    raise TicketError(f"masks.{name}", "the model's parameter is not its masked source")
        return ticket

    def save_pretrained(
        self,
        save_directory: str | Path,
        *,
        compress: bool = False,
        push_to_hub: bool = False,
        repo_id: str | None = None,
        config: Any = None,
        model_card_kwargs: dict[str, Any] | None = None,
        **push_to_hub_kwargs: Any,
    ) -> str | None:
        """Write ``config.json`` and ``ticket.safetensors``, atomically; ``compress`` entropy-codes the masks."""
        self._save_pretrained(Path(save_directory), compress=compress)
        if push_to_hub:
            return self.push_to_hub(repo_id=repo_id or Path(save_directory).name, **push_to_hub_kwargs)
        return None

    def _save_pretrained(self, save_directory: Path, *, compress: bool = False) -> None:
        writing.save(save_directory, *contents(self, compress=compress))

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        verify: bool = True,
        max_bytes: int = MAX_BYTES,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
    ) -> Ticket:
        """Load a ticket from a folder, without touching the network, or from a repository on the hub.

        The digest over masks and kept parameters is always checked; ``verify=False`` skips drawing the sources
        to compare theirs. Models larger than ``max_bytes`` in memory are refused.
        """
        return cls._from_pretrained(
            model_id=os.fspath(pretrained_model_name_or_path),
            revision=revision,
            cache_dir=cache_dir,
            force_download=force_download,
            local_files_only=local_files_only,
            token=token,
            verify=verify,
            max_bytes=max_bytes,
        )

    @classmethod
    def _from_pretrained(
        cls, *, model_id: str, verify: bool = True, max_bytes: int = MAX_BYTES, **download: Any
    ) -> Ticket:
        if not isinstance(max_bytes, int) or max_bytes < 0:
            raise ValueError(f"max_bytes must be a number of bytes, got {max_bytes!r}")
        loaded = load(*files.locate(model_id, download), verify=verify, max_bytes=max_bytes)
        spec = loaded.spec
        digests = {name: mask.digest for name, mask in spec.masks.items()} if verify else None
        ticket = cls(loaded.entries, loaded.kept, spec.architecture, spec.finder, source_digests=digests)
        ticket._loaded, ticket._max_bytes, ticket._digest = loaded, max_bytes, spec.digest
        return ticket


def _entry(name: str, value: Masked) -> Entry:
    if isinstance(value, Entry):
        return value
    if not isinstance(value, tuple) or len(value) != 2:
        raise TicketError(f"masks.{name}", f"must be (source, mask) or an Entry, got {checks.shown(value)}")
    return Entry.of(*value, field=f"masks.{name}")


def _array(name: str, value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    dtype_name(array, f"kept.{name}")
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def _plain(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """``value`` as it comes back from JSON: a copy in which tuples are lists."""
    return checks.parse_json(checks.canonical_json(dict(value), field), field, files.MAX_JSON)
