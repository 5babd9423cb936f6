"""What figures 7 and 8 share: the models of each preset, and the trials that search them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from strongticket.experiments.search_trials import SearchTrial
from strongticket.search.extra import need

if TYPE_CHECKING:
    from strongticket.experiments.options import Options

DENSITY = 0.3
HEAD = 64
THEORY_SCALE = round(HEAD**0.25, 4)
SCALES = (1.0, 1.4142, 2.0, THEORY_SCALE, 4.0, 5.6569, 8.0)


class Size(NamedTuple):
    """A model: a name for the legend, and its layers, width and heads (0: those of the named model)."""

    label: str
    model: str
    layers: int = 0
    width: int = 0
    heads: int = 0


QUICK = (
    Size("1 layer, width 64", "gpt2-tiny", 1, 64, 1),
    Size("2 layers, width 128", "gpt2-tiny", 2, 128, 2),
    Size("2 layers, width 192", "gpt2-tiny", 2, 192, 3),
)
PAPER = tuple(Size(name, name) for name in ("gpt2-mini", "gpt2-small", "gpt2-medium"))


def sizes(options: Options) -> tuple[Size, ...]:
    """The models of the preset; all have heads of size 64, as GPT-2."""
    return options.choose(QUICK, PAPER)


def trial(options: Options, size: Size, mode: str, qk_scale: float, seed: int) -> SearchTrial:
    """One search, or one dense training, of a model of the preset."""
    need("transformers")
    corpus, preset, recipe, steps = options.choose(
        ("embedded", "laptop", "best", 200), ("wikitext-103", "paper", "paper", 0)
    )
    return SearchTrial(
        mode, *size[1:], corpus, preset, recipe, steps, DENSITY, 1.0 if mode == "dense" else qk_scale, seed
    )


def label_of(config: dict[str, Any]) -> str:
    """The name of the model of a trial."""
    shape = (config["model"], config["layers"], config["width"], config["heads"])
    return next((size.label for size in (*QUICK, *PAPER) if size[1:] == shape), config["model"])
