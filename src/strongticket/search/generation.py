"""Text from a ticket."""

from __future__ import annotations

from pathlib import Path

import torch

from strongticket.search.extra import need
from strongticket.search.run import TICKET, TOKENIZER


def generate(folder: str | Path, prompt: str, *, tokens: int = 64, temperature: float = 0.8, seed: int = 0) -> str:
    """The prompt and the text that the ticket in ``folder`` goes on with.

    With ``temperature`` 0 the likeliest token is taken each time. The model sees as much of the text as it has
    positions for.
    """
    from strongticket.ticket import Ticket

    home = Path(folder)
    if not home.is_dir():
        raise FileNotFoundError(f"no such folder: {home}")
    if (home / TICKET).is_dir():
        home = home / TICKET
    if not (home / TOKENIZER).is_dir():
        raise FileNotFoundError(f"{home} has no folder {TOKENIZER!r} beside the ticket; pass what a search wrote")
    tokenizer = need("transformers").AutoTokenizer.from_pretrained(str(home / TOKENIZER), local_files_only=True)
    model = Ticket.from_pretrained(home).module()
    ids: list[int] = tokenizer.backend_tokenizer.encode(prompt or tokenizer.eos_token).ids
    positions = int(model.config.n_positions)  # type: ignore[union-attr, arg-type]
    generator = torch.Generator().manual_seed(seed)
    with torch.inference_mode():
        for _ in range(tokens):
            logits = model(torch.tensor([ids[-positions:]])).logits[0, -1].float()
            if temperature == 0:
                choice = int(logits.argmax())
            else:
                choice = int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator))
            if choice == tokenizer.eos_token_id:
                break
            ids.append(choice)
    return tokenizer.decode(ids)
