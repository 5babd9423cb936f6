"""Recipes say how a ticket is searched for; presets say how long and on how much."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """The finder, its options and the random weights that it starts from."""

    finder: str
    init: str
    score_init: str
    selection: str | None = None
    """Only edge-popup selects."""


RECIPES: dict[str, Recipe] = {
    "paper": Recipe("edge-popup", init="gpt2", score_init="kaiming", selection="layer"),
    "best": Recipe("edge-popup", init="gpt2-matched", score_init="weight", selection="global"),
    "sigmoid": Recipe("sigmoid", init="gpt2-matched", score_init="weight"),
}
"""``paper`` is §B.2 to the letter, ``best`` has the lowest loss in the comparison of docs/search.md."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Length of training, amount of data per step and learning rate."""

    length: int
    steps: int
    warmup: int
    batch: int
    micro_batch: int
    lr: float
    lr_end: float
    dense_lr: float
    dropout: float
    every: int
    """Steps between evaluations and checkpoints."""
    tokenizer: str


PRESETS: dict[str, Preset] = {
    "paper": Preset(
        length=1024,
        steps=50 * 227,
        warmup=227,
        batch=512,
        micro_batch=8,
        lr=1e-4,
        lr_end=1e-5,
        dense_lr=1e-4,
        dropout=0.1,
        every=227,
        tokenizer="gpt2",
    ),
    "laptop": Preset(
        length=128,
        steps=300,
        warmup=30,
        batch=8,
        micro_batch=8,
        lr=1e-2,
        lr_end=1e-3,
        dense_lr=2e-3,
        dropout=0.0,
        every=100,
        tokenizer="bpe:2048",
    ),
}
"""``paper``: 50 epochs of 227 steps, cosine from 1e-4 to 1e-5 after one epoch of linear warm-up (§B.2)."""
