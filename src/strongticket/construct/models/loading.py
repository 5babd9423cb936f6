"""Pretrained models from a folder or the hub."""

from __future__ import annotations

import os
from typing import Any

from strongticket.families import FAMILIES, family_of


def load_model(place: str) -> Any:
    """The model in a folder, or of that name on the hub, in the class that its configuration names, in float32."""
    transformers, place = _transformers(), _checked(place)
    try:
        config = transformers.AutoConfig.from_pretrained(place)
    except OSError as error:
        if os.path.isdir(place):
            raise
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{place} is no folder, and the hub gave no model of that name: {reason}") from None
    name = (config.architectures or ["none"])[0]
    if family_of(name) is None:
        known = ", ".join(cls for family in FAMILIES.values() for cls in family.classes)
        raise ValueError(f"{place} holds a model of class {name}; those that can be constructed are {known}")
    bars = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        return getattr(transformers, name).from_pretrained(place, dtype="float32").eval()
    finally:
        if shown:
            bars.enable_progress_bar()


def load_tokenizer(place: str) -> Any:
    """The tokenizer beside a model."""
    return _transformers().AutoTokenizer.from_pretrained(_checked(place))


def _checked(place: str) -> str:
    expanded = os.path.expanduser(place)
    if place.startswith((".", "/", "~")) and not os.path.isdir(expanded):
        raise ValueError(f"{place} is no folder; give a folder with a model of transformers, or a name on the hub")
    return expanded


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise ImportError(
            "models of Hugging Face need the package 'transformers': pip install 'strongticket[hf]'"
        ) from None
    return transformers
