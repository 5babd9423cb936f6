"""Tokenizers: byte-level BPE trained on the corpus, a folder, or GPT-2's from the hub; and text cut into blocks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strongticket.search.extra import need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

END_OF_TEXT = "<|endoftext|>"
KNOWN = ("bpe:SIZE", "gpt2", "a folder with a tokenizer.json")
_PIECE = 1 << 20


def check_tokenizer(tokenizer: str) -> None:
    """Refuse an unknown tokenizer before any work."""
    if tokenizer == "gpt2" or (Path(tokenizer) / "tokenizer.json").is_file():
        return
    kind, _, size = tokenizer.partition(":")
    if kind != "bpe" or not size.isdecimal():
        raise ValueError(f"unknown tokenizer {tokenizer!r}; known: {', '.join(KNOWN)}")
    if int(size) < 257:
        raise ValueError(f"a byte-level vocabulary needs at least 257 tokens, got {size}")


def load_tokenizer(tokenizer: str, text: str) -> Any:
    """The tokenizer as transformers knows it; ``bpe:SIZE`` is trained on ``text``."""
    check_tokenizer(tokenizer)
    transformers = need("transformers")
    if tokenizer.startswith("bpe:"):
        return _train(text, int(tokenizer.partition(":")[2]))
    if tokenizer != "gpt2":
        return transformers.AutoTokenizer.from_pretrained(tokenizer, local_files_only=True)
    try:
        return transformers.AutoTokenizer.from_pretrained("gpt2", local_files_only=True)
    except Exception:
        pass
    try:
        need("huggingface_hub").HfApi().model_info("gpt2", timeout=5.0)
    except Exception as error:
        raise ConnectionError(
            "GPT-2's tokenizer is on the Hugging Face hub, which cannot be reached, and it is not in the local cache; "
            "use --tokenizer bpe:50257, or --tokenizer FOLDER with a copy of it"
        ) from error
    return transformers.AutoTokenizer.from_pretrained("gpt2")


def _train(text: str, size: int) -> Any:
    tokenizers = need("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(_pieces(text), trainer)
    return need("transformers").PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=END_OF_TEXT, bos_token=END_OF_TEXT, unk_token=END_OF_TEXT
    )


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of about a megabyte that end where a line ends, so that no token is cut."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _PIECE) + 1 or len(text)
        yield text[start:end]
        start = end


def blocks(text: str, tokenizer: Any, length: int) -> NDArray[np.int32]:
    """The text as rows of ``length`` tokens, without overlap; what is left at the end is dropped."""
    backend = tokenizer.backend_tokenizer
    parts = [np.array(backend.encode(piece, add_special_tokens=False).ids, np.int32) for piece in _pieces(text)]
    tokens = np.concatenate(parts) if parts else np.empty(0, np.int32)
    rows = tokens.size // length
    return tokens[: rows * length].reshape(rows, length)


class BlockDataset:
    """Blocks of tokens in the form that Hugging Face's Trainer reads."""

    def __init__(self, rows: NDArray[np.int32]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, NDArray[np.int64]]:
        row = self.rows[index].astype(np.int64)
        return {"input_ids": row, "labels": row}
