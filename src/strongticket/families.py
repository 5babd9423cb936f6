"""Families of Hugging Face transformers: where attention and linear layers are in a model of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Family:
    """Paths of the parts of a model, relative to its blocks.

    ``classes`` maps each class of the family to the prefix of the blocks' names in it. ``block`` is the path of a
    block with ``{}`` for its number, ``attention`` the path of its attention and ``inside`` those of its projections
    within, ``linear`` the two linear layers of its feed-forward part, from the inputs to the outputs. ``settings``
    are the names that the configuration gives to the number of blocks and of heads.
    """

    name: str
    classes: Mapping[str, str]
    block: str
    attention: str
    inside: tuple[str, ...]
    linear: tuple[str, str]
    settings: tuple[str, str]
    defaults: tuple[int, int]

    def attentions(self, cls: str, blocks: int) -> list[str]:
        """The paths of all attention layers of a model of class ``cls``.

        >>> FAMILIES["gpt2"].attentions("GPT2LMHeadModel", 2)
        ['transformer.h.0.attn', 'transformer.h.1.attn']
        """
        return [f"{self._block(cls, place)}.{self.attention}" for place in range(blocks)]

    def linears(self, cls: str, blocks: int) -> list[str]:
        """The paths of all linear layers of the feed-forward parts, block by block.

        >>> FAMILIES["bert"].linears("BertModel", 1)
        ['encoder.layer.0.intermediate.dense', 'encoder.layer.0.output.dense']
        """
        return [f"{self._block(cls, place)}.{layer}" for place in range(blocks) for layer in self.linear]

    def replaced(self, cls: str, blocks: int, layers: str) -> tuple[str, ...]:
        """Prefixes of the parameters that a ticket has random weights for; ``layers`` is "attention" or "all".

        >>> FAMILIES["gpt2"].replaced("GPT2Model", 1, "attention")
        ('h.0.attn.c_attn.', 'h.0.attn.c_proj.')
        """
        found = [f"{path}.{part}." for path in self.attentions(cls, blocks) for part in self.inside]
        if layers == "all":
            found += [f"{path}." for path in self.linears(cls, blocks)]
        return tuple(found)

    def counts(self, config: Mapping[str, Any]) -> tuple[int, int]:
        """The numbers of blocks and of heads that a configuration asks for.

        >>> FAMILIES["gpt2"].counts({"n_layer": 3})
        (3, 12)
        """
        blocks, heads = (config.get(key, value) for key, value in zip(self.settings, self.defaults, strict=True))
        return blocks, heads

    def _block(self, cls: str, place: int) -> str:
        return self.classes[cls] + self.block.format(place)


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="bert",
            classes={
                "BertModel": "",
                "BertForMaskedLM": "bert.",
                "BertForSequenceClassification": "bert.",
                "BertForTokenClassification": "bert.",
                "BertForQuestionAnswering": "bert.",
            },
            block="encoder.layer.{}",
            attention="attention",
            inside=("self.query", "self.key", "self.value", "output.dense"),
            linear=("intermediate.dense", "output.dense"),
            settings=("num_hidden_layers", "num_attention_heads"),
            defaults=(12, 12),
        ),
        Family(
            name="gpt2",
            classes={
                "GPT2Model": "",
                "GPT2LMHeadModel": "transformer.",
                "GPT2ForSequenceClassification": "transformer.",
                "GPT2ForTokenClassification": "transformer.",
            },
            block="h.{}",
            attention="attn",
            inside=("c_attn", "c_proj"),
            linear=("mlp.c_fc", "mlp.c_proj"),
            settings=("n_layer", "n_head"),
            defaults=(12, 12),
        ),
    )
}

LAYERS = ("attention", "all")


def family_of(cls: str) -> Family | None:
    """The family that a class belongs to.

    >>> family_of("BertForMaskedLM").name
    'bert'
    """
    return next((family for family in FAMILIES.values() if cls in family.classes), None)
