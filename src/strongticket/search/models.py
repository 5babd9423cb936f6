"""The models a search can start from: sizes of GPT-2 by name, or the configuration in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strongticket.search.extra import need

MODELS: dict[str, dict[str, int]] = {
    "gpt2-tiny": {"n_layer": 2, "n_embd": 128, "n_head": 4},
    "gpt2-mini": {"n_layer": 4, "n_embd": 768, "n_head": 12},
    "gpt2-small": {"n_layer": 12, "n_embd": 768, "n_head": 12},
    "gpt2-medium": {"n_layer": 24, "n_embd": 1024, "n_head": 16},
}
"""``gpt2-mini`` is GPT-2 with 4 layers, ``gpt2-tiny`` a toy for trials."""


def model_config(
    model: str,
    *,
    length: int,
    layers: int | None = None,
    width: int | None = None,
    heads: int | None = None,
    dropout: float = 0.0,
) -> Any:
    """The transformers configuration of a named model, or of a folder that holds a ``config.json``."""
    if model in MODELS:
        sizes = dict(MODELS[model])
    elif Path(model).is_dir() and (Path(model) / "config.json").is_file():
        sizes = {}
    else:
        raise ValueError(f"unknown model {model!r}; known: {', '.join(MODELS)}, or a folder with a config.json")
    given = {"n_layer": layers, "n_embd": width, "n_head": heads}
    sizes |= {key: value for key, value in given.items() if value is not None}
    transformers = need("transformers")
    if model in MODELS:
        config = transformers.GPT2Config(**sizes)
    else:
        config = transformers.AutoConfig.from_pretrained(model, local_files_only=True, **sizes)
        if config.model_type != "gpt2":
            raise ValueError(f"{model} holds a {config.model_type!r}; a language model of type 'gpt2' is needed")
    for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
        setattr(config, key, dropout)
    if min(config.n_head, config.n_layer, config.n_embd) < 1 or config.n_embd % config.n_head:
        raise ValueError(
            f"the width must be a multiple of the number of heads, got width {config.n_embd} and "
            f"{config.n_head} heads in {config.n_layer} layers"
        )
    if length > config.n_positions:
        raise ValueError(f"sequences of {length} tokens are longer than the model's {config.n_positions} positions")
    if length < 2:
        raise ValueError(f"sequences need at least 2 tokens, got {length}")
    return config


def build_model(config: Any, vocabulary: int, end_of_text: int | None) -> Any:
    """A GPT-2 language model with that many tokens; its weights are still to be drawn."""
    transformers = need("transformers")
    config.vocab_size = vocabulary
    config.bos_token_id = config.eos_token_id = end_of_text
    return transformers.GPT2LMHeadModel(config)
