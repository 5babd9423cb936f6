"""Read whole Hugging Face models, one layer at a time.

A new family needs an entry in ``strongticket.families``, a reader module with an entry in ``READERS``, and an entry in
``strongticket.modules.huggingface``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strongticket.construct.targets import bert, gpt2
from strongticket.families import FAMILIES, LAYERS, family_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from strongticket.construct.targets.attention import AttentionTarget
    from strongticket.families import Family

    Reader = tuple[Callable[[Any, str], AttentionTarget], Callable[[Any, str], NDArray[np.float64]]]

READERS: dict[str, Reader] = {
    "bert": (bert.read_attention, bert.read_linear),
    "gpt2": (gpt2.read_attention, gpt2.read_linear),
}


@dataclass(frozen=True, eq=False)
class ModelTarget:
    """A Hugging Face transformer as matrices, read one at a time.

    ``attentions`` and ``linears`` are the paths of what a ticket replaces, in the order of the blocks; with
    ``layers="attention"`` there are no ``linears``. ``size`` is d, that of the hidden states.
    """

    model: Any
    family: Family
    layers: str
    attentions: tuple[str, ...]
    linears: tuple[str, ...]
    heads: int
    size: int

    def attention(self, path: str) -> AttentionTarget:
        """The merged matrices of the attention layer at ``path``, in float64."""
        return READERS[self.family.name][0](self.model, path)

    def linear(self, path: str) -> NDArray[np.float64]:
        """[W, b] (d_out × (d_in + 1)) of the linear layer at ``path``, in float64."""
        return READERS[self.family.name][1](self.model, path)


def read_model(model: Any, layers: str = "attention") -> ModelTarget:
    """Find what a ticket is to replace in ``model``: its "attention", or "all" of its blocks' linear maps.

    >>> from transformers import GPT2Config, GPT2Model
    >>> target = read_model(GPT2Model(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=10)), "all")
    >>> target.attentions, target.linears
    (('h.0.attn',), ('h.0.mlp.c_fc', 'h.0.mlp.c_proj'))
    >>> target.attention("h.0.attn").qk[0].shape, target.linear("h.0.mlp.c_fc").shape
    ((9, 8), (32, 9))
    """
    cls = type(model).__name__
    family = family_of(cls)
    if family is None:
        known = ", ".join(name for found in FAMILIES.values() for name in found.classes)
        raise ValueError(f"the target must be a model of one of the classes {known}, got {cls}; load it as one of them")
    if layers not in LAYERS:
        raise ValueError(f"layers must be one of {', '.join(map(repr, LAYERS))}, got {layers!r}")
    for name in ("is_decoder", "add_cross_attention"):
        if getattr(model.config, name, False):
            raise ValueError(
                f"{name} must be False, got {cls} with {name}=True, whose attention a ticket cannot replace; "
                f"load the model with {name}=False"
            )
    blocks, heads = family.counts(model.config.to_dict())
    _check_weights(model, family.replaced(cls, blocks, layers))
    return ModelTarget(
        model=model,
        family=family,
        layers=layers,
        attentions=tuple(family.attentions(cls, blocks)),
        linears=tuple(family.linears(cls, blocks)) if layers == "all" else (),
        heads=heads,
        size=model.config.hidden_size,
    )


def _check_weights(model: Any, prefixes: tuple[str, ...]) -> None:
    for name, weight in model.named_parameters():
        if not name.startswith(prefixes):
            continue
        if weight.is_meta:
            raise ValueError(f"{name} must have values, got a tensor on the meta device; load its weights first")
        if not weight.is_floating_point():
            raise ValueError(
                f"{name} must hold floating-point numbers, got {weight.dtype}; load the model without quantisation"
            )
