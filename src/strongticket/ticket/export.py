"""A ticket as a dense model that needs nothing of strongticket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongticket.ticket.checks import canonical_json
from strongticket.ticket.errors import TicketError

if TYPE_CHECKING:
    from pathlib import Path

    from strongticket.ticket.ticket import Ticket


def export(ticket: Ticket, folder: Path) -> None:
    """Write ``model.safetensors`` with dense weights and ``config.json`` to a new or empty folder.

    For a Hugging Face model both are as ``transformers`` writes them, so ``from_pretrained`` there loads the folder;
    for other architectures the tensors are the module's ``state_dict``, tied ones once, and the configuration is the
    architecture.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TicketError(str(folder), "already exists and is not an empty folder; choose another")
    module: Any = ticket.module()
    if ticket.architecture["kind"] == "huggingface":
        module.save_pretrained(folder)
        return
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tied = ticket.architecture.get("tied", {})
    state = {name: value.contiguous() for name, value in module.state_dict().items() if name not in tied}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_bytes(canonical_json(ticket.architecture, "architecture") + b"\n")
