"""Everything a run depends on, checked before any work."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from strongticket.search.corpora import check_corpus
from strongticket.search.drawing import INITS
from strongticket.search.finders import FINDERS
from strongticket.search.finders.base import SCORE_INITS, check_density
from strongticket.search.finders.edge_popup import SELECTIONS
from strongticket.search.models import model_config
from strongticket.search.recipes import PRESETS, RECIPES
from strongticket.search.tokenizing import check_tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """One run of a search; what is None is taken from the recipe or the preset by ``resolved``.

    >>> SearchSettings(preset="paper").resolved().steps
    11350
    """

    model: str = "gpt2-mini"
    corpus: str = "embedded"
    held_out: str | None = None
    density: float = 0.3
    qk_scale: float | str = "theory"
    recipe: str = "best"
    preset: str = "laptop"
    seed: int = 0
    layers: int | None = None
    width: int | None = None
    heads: int | None = None
    finder: str | None = None
    init: str | None = None
    score_init: str | None = None
    selection: str | None = None
    length: int | None = None
    steps: int | None = None
    warmup: int | None = None
    batch: int | None = None
    micro_batch: int | None = None
    lr: float | None = None
    lr_end: float | None = None
    dense_lr: float | None = None
    dropout: float | None = None
    every: int | None = None
    tokenizer: str | None = None
    weight_decay: float = 0.0
    with_dense: bool = False
    bf16: bool = False
    compile: bool = False

    def resolved(self) -> SearchSettings:
        """The same settings with every choice of recipe and preset filled in."""
        _one_of("recipe", self.recipe, RECIPES)
        _one_of("preset", self.preset, PRESETS)
        recipe, preset = asdict(RECIPES[self.recipe]), asdict(PRESETS[self.preset])
        filled = {key: value for key, value in (recipe | preset).items() if getattr(self, key) is None}
        return replace(self, **filled)

    def check(self, processes: int = 1) -> None:
        """Raise the first mistake found, before any work; ``self`` must be resolved."""
        check_density(self.density)
        self.config()
        check_corpus(self.corpus, self.held_out)
        check_tokenizer(str(self.tokenizer))
        _one_of("finder", self.finder, FINDERS)
        _one_of("init", self.init, INITS)
        _one_of("score_init", self.score_init, SCORE_INITS)
        if self.finder == "edge-popup":
            _one_of("selection", self.selection, SELECTIONS)
        for name in ("steps", "batch", "micro_batch", "every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("lr", "lr_end", "dense_lr", "dropout", "weight_decay", "warmup"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if self.qk_scale != "theory" and (isinstance(self.qk_scale, str) or not 0 < self.qk_scale < math.inf):
            raise ValueError(f'qk_scale must be a positive number or "theory", got {self.qk_scale!r}')
        if self.per_device(processes) * self.accumulation(processes) * processes != self.batch:
            raise ValueError(
                f"a batch of {self.batch} cannot be split evenly over {processes} processes in steps of at most "
                f"{self.micro_batch} sequences; choose a multiple"
            )

    def config(self) -> Any:
        """The model's transformers configuration."""
        return model_config(
            self.model,
            length=self.length or 0,
            layers=self.layers,
            width=self.width,
            heads=self.heads,
            dropout=self.dropout or 0.0,
        )

    def per_device(self, processes: int) -> int:
        """How many sequences one process takes at a time."""
        return max(1, min(int(self.micro_batch or 1), int(self.batch or 1) // processes))

    def accumulation(self, processes: int) -> int:
        """How many times each process accumulates gradients before a step."""
        return max(1, int(self.batch or 1) // (processes * self.per_device(processes)))

    def finder_options(self) -> dict[str, Any]:
        """The options of the finder that this run uses."""
        options = {
            "density": self.density,
            "lr": self.lr,
            "weight_decay": self.weight_decay,
            "score_init": self.score_init,
            "seed": self.seed,
        }
        return options | ({"selection": self.selection} if self.finder == "edge-popup" else {})

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SearchSettings:
        """The settings that ``to_dict`` described; keys it does not know are ignored.

        >>> SearchSettings.from_dict({"seed": 3, "added later": 1}).seed
        3
        """
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})


def _one_of(what: str, value: Any, known: Any) -> None:
    if value not in known:
        raise ValueError(f"unknown {what} {value!r}; known: {', '.join(known)}")


def process_count() -> int:
    """How many processes ``torchrun`` or ``accelerate`` started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this process writes files and prints."""
    return int(os.environ.get("RANK", "0")) == 0
