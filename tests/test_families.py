"""Paths of the families' layers are those of real models."""

import doctest

import pytest

from strongticket import families
from strongticket.families import FAMILIES, family_of

transformers = pytest.importorskip("transformers")

CLASSES = [(family, cls) for family in FAMILIES.values() for cls in family.classes]


def model_of(cls, blocks):
    """A model with so many blocks, d = 8 and 2 heads."""
    config = transformers.BertConfig if cls.startswith("Bert") else transformers.GPT2Config
    sizes = {"hidden_size": 8, "num_hidden_layers": blocks, "num_attention_heads": 2, "vocab_size": 9}
    return getattr(transformers, cls)(config(**sizes))


def test_examples():
    result = doctest.testmod(families)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(("family", "cls"), CLASSES, ids=[cls for _, cls in CLASSES])
def test_paths_lead_to_every_linear_layer_of_the_blocks(family, cls):
    model = model_of(cls, 2)
    assert family_of(cls) is family
    assert family.counts(model.config.to_dict()) == (2, 2)
    found = [f"{path}.{part}" for path in family.attentions(cls, 2) for part in family.inside]
    found += family.linears(cls, 2)
    blocks = (family.attentions(cls, 1)[0].removesuffix(f"0.{family.attention}"),)
    wanted = {
        name
        for name, module in model.named_modules()
        if name.startswith(blocks) and type(module).__name__ in ("Linear", "Conv1D")
    }
    assert len(found) == len(set(found))
    assert set(found) == wanted


@pytest.mark.parametrize(("family", "cls"), CLASSES, ids=[cls for _, cls in CLASSES])
def test_what_is_replaced_are_their_parameters(family, cls):
    names = dict(model_of(cls, 2).named_parameters())
    attention, both = (
        {name for name in names if name.startswith(family.replaced(cls, 2, layers))} for layers in ("attention", "all")
    )
    assert len(attention) == 2 * 2 * len(family.inside)
    assert len(both - attention) == 2 * 2 * 2
    assert attention < both
    assert not any("norm" in name.lower() or ".ln_" in name or "embed" in name for name in both)


def test_defaults_are_those_of_the_configurations():
    for family in FAMILIES.values():
        config = transformers.AutoConfig.for_model(family.name)
        assert family.counts({}) == family.counts(config.to_dict()) == family.defaults


def test_a_class_has_at_most_one_family():
    names = [cls for _, cls in CLASSES]
    assert len(names) == len(set(names))
    assert family_of("T5Model") is None
