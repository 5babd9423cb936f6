"""Two models side by side on texts."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from strongticket.construct.report import Printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor, nn

_BATCH = 16
_LONGEST = 128
FEWEST_TEXTS = 3
"""With fewer, ranks of similarities say nothing."""


@dataclass(frozen=True)
class Comparison(Printable):
    """How alike two models are on ``texts`` texts.

    A text's embedding is the mean of the last hidden state over its tokens. ``mean_cosine`` and ``min_cosine`` compare
    the two embeddings of each text, ``rank_correlation`` (Spearman's) the cosines of all pairs of texts in the one
    model with those in the other. ``same_choice`` is the share of positions (of texts, for classifiers of whole texts)
    for which the largest output of both models, a token or a label, is the same; None for models without a head.
    """

    texts: int
    mean_cosine: float
    min_cosine: float
    rank_correlation: float
    same_choice: float | None

    def __rich__(self) -> Table:
        """One row per number."""
        table = Table("", "ticket against model", title=f"Compared on {self.texts:,} texts")
        table.add_row("cosine of embeddings, mean", f"{self.mean_cosine:.6f}")
        table.add_row("cosine of embeddings, least", f"{self.min_cosine:.6f}")
        table.add_row("rank correlation of similarities", f"{self.rank_correlation:.6f}")
        if self.same_choice is not None:
            table.add_row("same largest output", f"{self.same_choice:.4%}")
        return table


def compare_models(original: nn.Module, other: nn.Module, tokenizer: Any, texts: Sequence[str]) -> Comparison:
    """Run both models on the same texts; see ``tokenise``."""
    import torch
    from scipy.stats import spearmanr

    if len(texts) < FEWEST_TEXTS:
        raise ValueError(f"a comparison needs at least {FEWEST_TEXTS} texts, got {len(texts)}")
    embeddings: tuple[list[Tensor], list[Tensor]] = ([], [])
    same, answers = 0, 0
    with torch.inference_mode(), evaluating(original), evaluating(other):
        for start in range(0, len(texts), _BATCH):
            inputs = tokenise(tokenizer, texts[start : start + _BATCH], original)
            mask = inputs["attention_mask"].bool()
            choices = []
            for model, found in zip((original, other), embeddings, strict=True):
                outputs: Any = model(**inputs, output_hidden_states=True)
                states = outputs.hidden_states[-1] * mask[..., None]
                found.append(states.sum(dim=1) / mask.sum(dim=1, keepdim=True))
                if "logits" in outputs:
                    choices.append(outputs.logits.argmax(dim=-1))
            if choices:
                equal = choices[0] == choices[1]
                if equal.dim() > 1:
                    equal = equal[mask]
                same, answers = same + int(equal.sum()), answers + equal.numel()
    first, second = (torch.nn.functional.normalize(torch.cat(found).double(), dim=-1).numpy() for found in embeddings)
    cosines = (first * second).sum(axis=1)
    upper = np.triu_indices(len(texts), 1)
    ranks = float(spearmanr((first @ first.T)[upper], (second @ second.T)[upper]).statistic)
    return Comparison(
        len(texts), float(cosines.mean()), float(cosines.min()), ranks, same / answers if answers else None
    )


def tokenise(tokenizer: Any, texts: Sequence[str], model: Any) -> dict[str, Tensor]:
    """Inputs of ``model``, padded to the longest text; texts end after 128 tokens, or as many as the model can take."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    longest = min(_LONGEST, model.config.max_position_embeddings)
    return dict(tokenizer(list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt"))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """While the context lasts, ``model`` runs without dropout."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
